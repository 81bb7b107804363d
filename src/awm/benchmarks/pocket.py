"""The pocket benchmark: generated documents and questions, unseen for any seed.

It needs no data. The documents are those of `awm.benchmarks.pocket_world`, the rules of judgement
those of MMLongBench-Doc. `pocket-blank` asks the same questions over blank paper whose text layer
is intact: what a model still answers there, it has not read.
"""

from __future__ import annotations

from dataclasses import asdict

from awm.benchmarks.benchmark import Benchmark, Example, Gold, check_documents, hash_rows
from awm.benchmarks.pocket_world import PocketCase, make_case, make_document
from awm.documents import Document
from awm.question import Question
from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge

N_QUESTIONS = 1200
"""Questions of a seed; four about each document."""
QUESTIONS_PER_DOCUMENT = 4


def pocket_example(case: PocketCase, question_id: str, document_id: str) -> Example:
    """Write a case in the schema of the benchmarks."""
    return Example(
        Question(id=question_id, text=case.question, document_id=document_id),
        Gold(
            answer=int(case.answer) if case.answer_format == "Int" else case.answer,
            answer_format=case.answer_format,
            annotated_pages=tuple(sorted(case.evidence_pages)),
            evidence_pages=tuple(sorted(case.evidence_pages)),
            evidence_sources=("Figure",) if case.evidence_pages else (),
            document_type=case.kind,
        ),
    )


def load_pocket(
    seed: int | None = None, *, blank: bool = False, n_questions: int = N_QUESTIONS
) -> Benchmark:
    """Make the benchmark of a seed.

    Args:
        seed: any integer; None is 0. No seed's questions occur in training.
        blank: draw blank paper in place of the pages.
        n_questions: how many questions to make.
    """
    seed = seed or 0
    examples: list[Example] = []
    rows: list[object] = []
    documents: dict[str, PocketCase] = {}
    for number in range(n_questions):
        case = make_case("test", seed, number, questions_per_document=QUESTIONS_PER_DOCUMENT)
        document_id = f"pocket-{seed}-{number // QUESTIONS_PER_DOCUMENT}"
        documents.setdefault(document_id, case)
        examples.append(pocket_example(case, f"{document_id}-{number}", document_id))
        rows.append([blank, asdict(case)])

    def open_document(document_id: str) -> Document:
        return make_document(documents[document_id].pages, document_id, blank=blank)

    name = "pocket-blank" if blank else "pocket"
    return check_documents(examples, open_document, hash_rows(rows), name, MMLongBenchDocJudge())
