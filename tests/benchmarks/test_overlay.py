"""Corrections of annotations, and their place in a run's identity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from reportlab.pdfgen.canvas import Canvas

from awm.benchmarks import Benchmark, load_benchmark
from awm.benchmarks.overlay import Overlay, apply_overlay, read_overlay
from awm.errors import BenchmarkError, RunMismatchError
from awm.evaluate import EvalSettings, evaluate
from awm.models.chat import ModelSettings
from awm.runs import open_run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two questions over a document of three pages, one over a document that is missing."""
    folder = tmp_path / "data"
    folder.mkdir()
    canvas = Canvas(str(folder / "a.pdf"), invariant=1)
    for number in (1, 2, 3):
        canvas.drawString(50, 700, f"This is page {number}.")
        canvas.showPage()
    canvas.save()
    rows = [
        {"id": "q1", "question": "One?", "document": "a.pdf", "answer": 1, "evidence_pages": [9]},
        {"id": "q2", "question": "Two?", "document": "a.pdf", "answer": 2, "evidence_pages": [2]},
        {"id": "q3", "question": "Three?", "document": "gone.pdf", "answer": 3},
    ]
    lines = [json.dumps(row) for row in rows]
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def benchmark(data: Path) -> Benchmark:
    return load_benchmark("jsonl", data)


def overlay_of(tmp_path: Path, *corrections: dict[str, Any], name: str = "o.jsonl") -> Overlay:
    path = tmp_path / name
    path.write_text("\n".join(json.dumps(one) for one in corrections) + "\n")
    return read_overlay(path)


def test_corrected_pages_replace_the_annotation_and_its_reported_fault(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    overlay = overlay_of(tmp_path, {"id": "q1", "evidence_pages": [3, 1], "note": "seen on 1 too"})
    assert [p.kind for p in benchmark.problems] == ["missing_document", "evidence_outside_document"]

    corrected = apply_overlay(benchmark, overlay)

    gold = corrected.examples[0].gold
    assert gold.evidence_pages == gold.annotated_pages == (3, 1)
    assert gold.answer == 1
    assert corrected.examples[1] == benchmark.examples[1]
    assert [problem.kind for problem in corrected.problems] == ["missing_document"]
    assert corrected.dataset_hash == benchmark.dataset_hash


def test_a_question_can_be_named_by_document_and_wording(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    named = {"document": "a.pdf", "question": "Two?", "evidence_pages": []}

    corrected = apply_overlay(benchmark, overlay_of(tmp_path, named))

    assert corrected.examples[1].gold.evidence_pages == ()


def test_corrections_are_counted_as_applied_unused_and_of_answers(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    overlay = overlay_of(
        tmp_path,
        {"id": "q1", "evidence_pages": [1]},
        {"id": "q2", "answer": "two", "answer_format": "Str", "allow_answer": True},
        {"id": "q3", "evidence_pages": [1]},
    )

    corrected = apply_overlay(benchmark, overlay)

    applied = corrected.overlay
    assert applied is not None
    assert (applied.n_applied, applied.n_unused, applied.n_answers) == (2, 1, 1)
    assert (applied.name, applied.digest) == ("o.jsonl", overlay.digest)
    assert corrected.examples[1].gold.answer == "two"
    assert corrected.examples[1].gold.evidence_pages == (2,)


def test_unknown_questions_are_an_error_that_names_them(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    overlay = overlay_of(
        tmp_path,
        {"id": "q9", "evidence_pages": [1]},
        {"document": "b.pdf", "question": "One?", "evidence_pages": [1]},
    )
    with pytest.raises(BenchmarkError, match=r"2 corrections name .*'q9'; 'One\?' in 'b.pdf'"):
        apply_overlay(benchmark, overlay)


def test_pages_outside_the_document_and_double_corrections_are_errors(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    with pytest.raises(BenchmarkError, match=r"lie outside .*'q2' \[2, 4\]"):
        apply_overlay(benchmark, overlay_of(tmp_path, {"id": "q2", "evidence_pages": [2, 4]}))
    twice = overlay_of(
        tmp_path,
        {"id": "q2", "evidence_pages": [1]},
        {"document": "a.pdf", "question": "Two?", "evidence_pages": [2]},
    )
    with pytest.raises(BenchmarkError, match="'q2' is corrected twice"):
        apply_overlay(benchmark, twice)


def test_a_second_overlay_is_refused(benchmark: Benchmark, tmp_path: Path) -> None:
    overlay = overlay_of(tmp_path, {"id": "q2", "evidence_pages": [1]})

    with pytest.raises(BenchmarkError, match="in place already"):
        apply_overlay(apply_overlay(benchmark, overlay), overlay)


def test_an_answer_corrected_alone_keeps_the_fault_of_its_pages(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    overlay = overlay_of(tmp_path, {"id": "q1", "answer": 5, "allow_answer": True})

    corrected = apply_overlay(benchmark, overlay)

    assert corrected.problems == benchmark.problems
    assert corrected.examples[0].gold.answer == 5


@pytest.mark.parametrize(
    ("correction", "message"),
    [
        ({"id": "q1"}, "corrects nothing"),
        ({"id": "q1", "answer": 2}, "allow_answer = true"),
        ({"id": "q1", "answer_format": "Int"}, "allow_answer = true"),
        ({"evidence_pages": [1]}, "by id, or by document and question"),
        ({"document": "a.pdf", "evidence_pages": [1]}, "by id, or by document and question"),
        (
            {"id": "q1", "document": "a.pdf", "question": "One?", "evidence_pages": [1]},
            "by id, or by document and question",
        ),
        ({"id": "q1", "pages": [1]}, "line 1, pages: Extra inputs"),
    ],
)
def test_a_faulty_correction_is_named_by_its_line(
    tmp_path: Path, correction: dict[str, Any], message: str
) -> None:
    with pytest.raises(BenchmarkError, match=message):
        overlay_of(tmp_path, correction)


def test_toml_and_jsonl_hold_the_same_corrections_under_the_same_hash(tmp_path: Path) -> None:
    path = tmp_path / "o.toml"
    path.write_text('[[correction]]\nid = "q1"\nevidence_pages = [1]\nnote = "why"\n')

    toml = read_overlay(path)

    assert toml.digest == overlay_of(tmp_path, {"evidence_pages": [1], "id": "q1"}).digest
    assert toml.digest != overlay_of(tmp_path, {"evidence_pages": [2], "id": "q1"}).digest


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("o.toml", "correction = ", "is not TOML"),
        ("o.toml", "[[corrections]]\nid = 'q1'\n", "only; it has 'corrections'"),
        ("o.toml", "[correction]\nid = 'q1'\n", "one .correction"),
        ("o.jsonl", "{\n", "line 1: not JSON"),
        ("o.jsonl", "\n", "holds no correction"),
        ("o.csv", "id\n", "must be a .toml or a .jsonl file"),
    ],
)
def test_a_file_that_is_no_overlay_says_why(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BenchmarkError, match=message):
        read_overlay(tmp_path / name)


def test_a_missing_overlay_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"none\.toml cannot be read"):
        read_overlay(tmp_path / "none.toml")


async def test_a_run_records_its_overlay_and_refuses_another_on_resume(
    data: Path, tmp_path: Path
) -> None:
    overlay_of(tmp_path, {"id": "q1", "evidence_pages": [1]}, {"id": "q3", "evidence_pages": [1]})
    settings = EvalSettings(
        benchmark="jsonl",
        data=data,
        overlay=tmp_path / "o.jsonl",
        run=tmp_path / "run",
        model=ModelSettings(spec="lexical"),
    )

    await evaluate(settings)

    run = open_run(tmp_path / "run")
    recorded = run.manifest.dataset.overlay
    assert recorded is not None
    assert (recorded.n_applied, recorded.n_unused, recorded.n_answers) == (1, 1, 0)
    assert [example.evidence_pages for example in run.examples.read()] == [(1,), (2,)]
    (tmp_path / "o.jsonl").rename(tmp_path / "moved.jsonl")
    await evaluate(settings.model_copy(update={"overlay": tmp_path / "moved.jsonl"}))
    with pytest.raises(RunMismatchError, match="overlay_hash"):
        await evaluate(settings.model_copy(update={"overlay": None}))
    overlay_of(tmp_path, {"id": "q1", "evidence_pages": [2]}, {"id": "q3", "evidence_pages": [1]})
    with pytest.raises(RunMismatchError, match="overlay_hash"):
        await evaluate(settings)


async def test_the_overlay_is_laid_over_a_benchmark_that_was_loaded_before(
    data: Path, benchmark: Benchmark, tmp_path: Path
) -> None:
    overlay_of(tmp_path, {"id": "q1", "evidence_pages": [1]})
    settings = EvalSettings(
        benchmark="jsonl",
        data=data,
        overlay=tmp_path / "o.jsonl",
        run=tmp_path / "run",
        model=ModelSettings(spec="lexical"),
    )

    run = open_run(await evaluate(settings, benchmark=benchmark))

    assert run.manifest.dataset.overlay is not None
