"""GRPO in the pocket world: its questions, its settings, and the pair that the paper compares.

The questions are of the training split, each about a document of its own, and of another stream
than those that imitation saw. Both rewards get the same questions, budget and random seed; nothing
else differs.
"""

from __future__ import annotations

from dataclasses import asdict

from awm.benchmarks.benchmark import Benchmark, check_documents, hash_rows
from awm.benchmarks.pocket import pocket_example
from awm.benchmarks.pocket_world import PocketCase, make_case, make_document
from awm.documents import Document
from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge

GRPO_STREAM = 700_000
"""Added to the seed: imitation draws from the streams below."""
STEPS = 40
QUESTIONS_PER_STEP = 8
GROUP_SIZE = 8
LEARNING_RATE = 1e-4
"""Constant; the vision tower is frozen."""
MAX_COMPLETION_TOKENS = 240
MAX_TURN_TOKENS = 32
"""The longest turn of the teacher has 21 tokens, its longest episode 196 behind the prompt."""
CURVE_SEED = 77
"""Of the held-out questions of the curve; `TEST_SEED` is never looked at while training."""
N_CURVE = 100
EVALUATE_EVERY = 10
TEST_SEED = 1234
N_TEST = 600
"""Questions of a comparison. 200 were too few: the same policy gave .46 and .53 on two sets."""


def training_benchmark(seed: int, n_questions: int) -> Benchmark:
    """Make questions of the training split.

    Args:
        seed: of the GRPO run.
        n_questions: how many, each about a document of its own.
    """
    cases: dict[str, PocketCase] = {}
    for number in range(n_questions):
        case = make_case("train", GRPO_STREAM + seed, number, questions_per_document=1)
        cases[f"pocket-train-{seed}-{number}"] = case
    examples = [pocket_example(case, f"{name}-q", name) for name, case in cases.items()]

    def open_document(document_id: str) -> Document:
        return make_document(cases[document_id].pages, document_id)

    rows = hash_rows([asdict(case) for case in cases.values()])
    return check_documents(examples, open_document, rows, "pocket-train", MMLongBenchDocJudge())
