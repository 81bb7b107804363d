"""`awm check`: look at a benchmark's files before they cost anything, and at what training shares.

Exit code 6 where the training set and the benchmark overlap; faults of the benchmark's files alone
give 0: a partial download is no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from awm.analysis.contamination import read_training_items
from awm.benchmarks import Benchmark, DataProblem, load_benchmark
from awm.benchmarks.contamination import (
    NEAR_THRESHOLD,
    OverlapReport,
    SharedDocument,
    SharedQuestion,
    benchmark_items,
    find_overlap,
)
from awm.benchmarks.releases import describe_release
from awm.cli.errors import shown_errors

OVERLAP_FOUND = 6
"""Exit code: the training set shares documents or questions with the benchmark."""
_SHOWN = 20
"""Most faults or pairs of one kind that are listed; `--json` has all."""
_MAX_QUESTION_CHARS = 160


def check(
    benchmark: Annotated[
        str,
        typer.Option(
            help="demo, pocket, pocket-blank, jsonl, mmlongbench-doc or longdocurl.", metavar="NAME"
        ),
    ],
    data: Annotated[Path | None, typer.Option(help="The benchmark's folder or file.")] = None,
    overlay: Annotated[
        Path | None, typer.Option(help="Corrections of its annotations, .toml or .jsonl.")
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(help="A training set to compare with: a run folder, or JSONL with question."),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(help="Similarity in (0, 1] from which questions are nearly equal."),
    ] = NEAR_THRESHOLD,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Check a benchmark's files, and with --train what a training set shares with it.

    Prints the release, the dataset's hash, the number of questions, and every fault: documents that
    are missing or unreadable, pages that are missing, evidence pages outside their document.

    Training and benchmark overlap where they have a document (by its bytes, or by its name where
    bytes cannot be compared), a question (letters and digits only), or a nearly equal question
    (Jaccard similarity of character 5-grams). Exit code 6 then; 0 otherwise.
    """
    overlap: OverlapReport | None = None
    with shown_errors(Console(stderr=True)):
        loaded = load_benchmark(benchmark, data, overlay)
        if train is not None:
            training = read_training_items(train)
            overlap = find_overlap(training, benchmark_items(loaded), threshold)
    if json:
        typer.echo(orjson.dumps(_as_json(loaded, overlap), option=orjson.OPT_INDENT_2).decode())
    else:
        console = Console()
        for line in (*_describe(loaded), *(_describe_overlap(overlap) if overlap else ())):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    if overlap is not None and not overlap.is_clean:
        raise typer.Exit(OVERLAP_FOUND)


def _as_json(benchmark: Benchmark, overlap: OverlapReport | None) -> dict[str, Any]:
    return {
        "benchmark": benchmark.name,
        "release": _release(benchmark),
        "dataset_hash": benchmark.dataset_hash,
        "n_dataset": benchmark.n_dataset,
        "n_runnable": len(benchmark.examples),
        "n_documents": len(_document_ids(benchmark)),
        "n_documents_readable": len(benchmark.page_counts),
        "overlay": asdict(benchmark.overlay) if benchmark.overlay else None,
        "problems": [asdict(problem) for problem in benchmark.problems],
        "overlap": overlap.model_dump(mode="json") if overlap else None,
        "n_questions_touched": len(overlap.touched_ids) if overlap else None,
    }


def _release(benchmark: Benchmark) -> str:
    return describe_release(benchmark.name, benchmark.dataset_hash, benchmark.n_dataset)


def _document_ids(benchmark: Benchmark) -> set[str]:
    return {e.question.document_id for e in (*benchmark.examples, *benchmark.left_out)}


def _describe(benchmark: Benchmark) -> Iterator[str]:
    yield f"{benchmark.name}: {_release(benchmark)}"
    yield f"dataset hash {benchmark.dataset_hash}"
    yield (
        f"{len(benchmark.examples):,} of {benchmark.n_dataset:,} questions can run, over "
        f"{len(benchmark.page_counts)} of {len(_document_ids(benchmark))} documents"
    )
    if benchmark.overlay is not None:
        overlay = benchmark.overlay
        yield (
            f"overlay {overlay.name} ({overlay.digest[:12]}): {overlay.n_applied} corrections "
            f"applied, {overlay.n_unused} of questions that cannot run, {overlay.n_answers} "
            "change an answer"
        )
    by_kind: dict[str, list[DataProblem]] = {}
    for problem in benchmark.problems:
        by_kind.setdefault(problem.kind, []).append(problem)
    for kind, problems in by_kind.items():
        n_questions = sum(problem.n_questions for problem in problems)
        yield f"{kind}: {len(problems)}, touching {n_questions} questions"
        if kind == "missing_document":
            yield "  " + _first_of([problem.document_id for problem in problems])
        else:
            yield from _listed([f"{p.document_id}: {p.message}" for p in problems])
    if not benchmark.problems:
        yield "no faults found"


def _describe_overlap(report: OverlapReport) -> Iterator[str]:
    yield ""
    yield (
        f"overlap of {report.n_train:,} training questions with {report.n_benchmark:,}: "
        f"{len(report.touched_ids):,} questions of the benchmark are touched"
    )
    if report.shared_documents is None:
        yield "shared documents: not measured, one side has no document that can be read"
    else:
        yield f"shared documents: {len(report.shared_documents)}"
        yield from _listed([_document_line(document) for document in report.shared_documents])
    if report.n_train_without_digest or report.n_benchmark_without_digest:
        yield (
            f"bytes not compared for {report.n_train_without_digest:,} training and "
            f"{report.n_benchmark_without_digest:,} benchmark questions (no document to read); "
            f"same name: {len(report.same_names)}"
        )
        yield from _listed([_document_line(document) for document in report.same_names])
    yield f"same questions: {len(report.same_questions)}"
    yield from _listed([_pair_line(pair) for pair in report.same_questions])
    yield (
        f"nearly equal questions (similarity {report.threshold:g} or more): "
        f"{len(report.near_questions)}"
    )
    yield from _listed([_pair_line(pair) for pair in report.near_questions])


def _document_line(document: SharedDocument) -> str:
    return (
        f"{document.document}: {len(document.train_ids)} training questions, "
        f"{len(document.benchmark_ids)} of the benchmark"
    )


def _pair_line(pair: SharedQuestion) -> str:
    documents = {True: "same document", False: "other document", None: "document not compared"}
    return (
        f"{pair.similarity:.2f} {_first_of(pair.train_ids, 1)} ~ "
        f"{_first_of(pair.benchmark_ids, 1)} ({documents[pair.same_document]}): "
        f"{_cut(pair.train_question)!r} ~ {_cut(pair.benchmark_question)!r}"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_QUESTION_CHARS else text[: _MAX_QUESTION_CHARS - 1] + "…"


def _first_of(names: Sequence[str], n_shown: int = 10) -> str:
    more = len(names) - n_shown
    return ", ".join(names[:n_shown]) + (f" and {more} more" if more > 0 else "")


def _listed(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:_SHOWN])
    if len(lines) > _SHOWN:
        yield f"  … and {len(lines) - _SHOWN} more; --json lists all"
