"""A run's figures by its benchmark's own metrics, and pooled seeds: values computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from awm.analysis.benchmark_report import pool_runs, report_run
from awm.errors import RunMismatchError
from awm.runs import open_run
from awm.scoring.outcome import Outcome
from made_runs import FAILED, Made, make_run

N_A = "Not answerable"
ROWS = (
    # final score, memory score
    Made("q1", "d1", "Oslo", "Oslo", "Oslo", sources=("Table",), document_type="Guidebook"),
    Made("q2", "d1", "Oslo", "Oslo", "Rome", sources=("Table", "Chart")),  # 1, 0
    Made("q3", "d2", "1234", "1,234", "1234", format="Int", pages=(1, 2)),  # 0 (repaired 1), 1
    Made("q4", "d2", N_A, N_A, N_A, format="None", pages=()),  # 1, 1
    Made("q5", "d3", N_A, "Paris", "Rome", format="None", pages=()),  # 0, 0
    Made("q6", "d3", "Bern", FAILED, FAILED, pages=(2,)),  # unmeasured
    Made("q7", "d3", "Bern", N_A, "Rome", pages=()),  # 0, 0
)


def test_accuracy_and_f1_are_the_originals(tmp_path: Path) -> None:
    figures = report_run(make_run(tmp_path / "run", ROWS)).figures

    accuracy = figures.figure("accuracy").official
    assert (accuracy.value, accuracy.n, accuracy.n_clusters) == (3 / 6, 6, 3)
    assert accuracy.interval is not None
    # answerable and measured: q1 q2 q3 q7, their scores sum to 2: recall 2/4. Predictions other
    # than "Not answerable": q1 q2 q3 q5: precision 2/4.
    assert figures.figure("f1").official.value == pytest.approx(0.5)


def test_repaired_figures_stand_beside_the_official_ones(tmp_path: Path) -> None:
    report = report_run(make_run(tmp_path / "run", ROWS))

    accuracy = report.figures.figure("accuracy")
    assert (accuracy.official.value, accuracy.repaired.value) == (3 / 6, 4 / 6)
    # recall 3/4, precision 3/4
    assert report.figures.figure("f1").repaired.value == pytest.approx(0.75)
    assert report.n_answers == 12
    (row,) = report.differences
    assert (row.question_id, row.answer, row.official, row.repaired) == ("q3", "final", 0.0, 1.0)
    assert "thousands_separators" in row.rules
    assert report.rule_counts["thousands_separators"] == 1


def test_memory_figures_and_cells_leave_out_what_is_unmeasured(tmp_path: Path) -> None:
    report = report_run(make_run(tmp_path / "run", ROWS))

    memory = report.figures.figure("memory_accuracy").official
    assert (memory.value, memory.n) == (3 / 6, 6)
    p_mmc = report.figures.figure("p_mmc").official
    assert (p_mmc.value, p_mmc.n) == (1 / 3, 3)
    assert report.figures.cells is not None
    shares = {cell: share.value for cell, share in report.figures.cells.items()}
    assert shares == {
        Outcome.MEMORY_SUPPORTED_CORRECT: 2 / 6,
        Outcome.MEMORY_MISSING_CORRECT: 1 / 6,
        Outcome.ANSWERING_ERROR: 1 / 6,
        Outcome.UNRESOLVED_ERROR: 2 / 6,
    }
    assert report.summary.n_unmeasured == 1


def test_groups_overlap_and_count_what_is_unmeasured(tmp_path: Path) -> None:
    report = report_run(make_run(tmp_path / "run", ROWS))

    groups = {group.name: group for group in report.figures.groups}
    found = {name: (g.accuracy.value, g.accuracy.n, g.n_unmeasured) for name, g in groups.items()}
    assert found["single-page"] == (1.0, 2, 1)
    assert found["cross-page"] == (0.0, 2, 0)  # q3, and q7, which has no page
    assert found["unanswerable"] == (0.5, 2, 0)
    assert found["source: Table"] == (1.0, 2, 0)
    assert found["source: Chart"] == (1.0, 1, 0)
    assert found["source: Figure"] == (None, 0, 0)
    assert found["document: Guidebook"] == (1.0, 1, 0)
    assert groups["source: Chart"].accuracy.interval is None  # one document


def test_always_not_answerable_has_f1_of_zero(tmp_path: Path) -> None:
    rows = [
        Made(f"q{i}", f"d{i % 3}", N_A if i < 2 else "Oslo", N_A, N_A, format="None")
        for i in range(10)
    ]

    figures = report_run(make_run(tmp_path / "run", rows)).figures

    assert figures.figure("accuracy").official.value == 0.2
    assert figures.figure("f1").official.value == 0.0


def test_an_f1_above_one_is_kept_without_an_interval(tmp_path: Path) -> None:
    # "Not answerable" earns partial credit for a gold that looks like it: recall 1.8/2, precision
    # 1.8/1.
    rows = [
        Made("q1", "d1", "Oslo", "Oslo"),
        Made("q2", "d2", "Not answerably", N_A),
    ]

    f1 = report_run(make_run(tmp_path / "run", rows)).figures.figure("f1").official

    credit = 1 + 13 / 14
    assert f1.value == pytest.approx(2 * (credit / 2) * credit / (credit / 2 + credit))
    assert f1.value is not None
    assert f1.value > 1
    assert f1.interval is None


LONG = (
    Made("l1", "d1", "Oslo", "Oslo", format="String", sources=("Text",), task_tag="Understanding"),
    Made("l2", "d2", 5, "6", format="Integer", sources=("Table",), task_tag="Reasoning"),
    Made("l3", "d2", 5, "5", format="Integer", pages=(), task_tag="Reasoning"),
    Made("l4", "d3", 5, FAILED, format="Integer", pages=(1, 2), task_tag="Reasoning"),
)


def test_longdocurl_has_generalized_and_rectified_accuracy(tmp_path: Path) -> None:
    figures = report_run(make_run(tmp_path / "run", LONG, judge="longdocurl")).figures

    generalized = figures.figure("generalized_accuracy").official
    rectified = figures.figure("rectified_accuracy").official
    assert (generalized.value, generalized.n) == (2 / 3, 3)
    assert rectified.value == pytest.approx(2 / 2325)
    assert generalized.interval is not None
    assert rectified.interval is not None
    assert rectified.interval.high == pytest.approx(generalized.interval.high * 3 / 2325)


def test_longdocurl_groups_give_the_fixed_count_and_the_present_one(tmp_path: Path) -> None:
    report = report_run(make_run(tmp_path / "run", LONG, judge="longdocurl"))

    groups = {group.name: group for group in report.figures.groups}
    reasoning, single = groups["Reasoning"], groups["single-page"]
    assert (reasoning.accuracy.value, reasoning.accuracy.n) == (0.5, 2)
    assert (reasoning.official_accuracy, reasoning.official_n) == (1 / 387, 387)
    assert reasoning.n_unmeasured == 1
    assert (single.accuracy.value, single.official_accuracy) == (0.5, 1 / 1093)
    assert groups["multi-page"].accuracy.value is None  # l3 has no page and is in neither group


def test_questions_that_were_not_run_are_unmeasured(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", ROWS)
    path = tmp_path / "run" / "scores.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))

    report = report_run(store)

    assert report.figures.figure("accuracy").official.n == 2
    assert report.summary.n_unmeasured == 5


def test_the_name_tells_all_that_a_result_depends_on(tmp_path: Path) -> None:
    store = make_run(
        tmp_path / "run",
        ROWS,
        model={"temperature": 0.7, "seed": 3},
        extractor="openai:gpt-4o@http://x",
        extraction_prompt="official.md:0123456789abcdef",
    )

    name = str(report_run(store).name)

    assert name == (
        "benchmark mmlongbench-doc; release made by hand, hash dddddddddddd; setting agent; "
        "model lexical (temperature 0.7, seed 3); reader lexical; extractor "
        "openai:gpt-4o@http://x (temperature 0.0, max_tokens 256), prompt "
        "official.md:0123456789abcdef; judge mmlongbench-doc; "
        "prompts 1 (aaaaaaaaaaaa)"
    )


def test_notes_say_what_keeps_figures_from_being_compared(tmp_path: Path) -> None:
    dataset = {
        "n_dataset": 1082,
        "missing_documents": ("a.pdf",),
        "problems": ("missing_document: a.pdf is not there",),
        "overlay": {
            "name": "fixes.toml",
            "digest": "f" * 64,
            "n_applied": 2,
            "n_unused": 0,
            "n_answers": 1,
        },
    }
    notes = report_run(make_run(tmp_path / "run", ROWS, dataset=dataset)).notes

    text = "\n".join(notes)
    assert "7 of the dataset's 1,082 questions were asked" in text
    assert "No extractor" in text
    assert "fixes.toml replaced 1 gold answer: no figure here is official" in text
    assert "1 of 7 questions are not fully measured (EndpointTimeoutError x1)" in text
    assert "1 document is missing: a.pdf." in text


def seeds(tmp_path: Path, finals: dict[int, str]) -> list[Path]:
    rows = {
        seed: [
            Made("q1", "d1", "Oslo", final, "Oslo"),
            Made("q2", "d2", "Oslo", "Oslo", "Rome"),
            Made("q3", "d3", "Oslo", "Rome", "Rome"),
        ]
        for seed, final in finals.items()
    }
    for seed, made in rows.items():
        make_run(tmp_path / str(seed), made, model={"seed": seed})
    return [tmp_path / str(seed) for seed in finals]


def test_pooled_seeds_pool_their_sums(tmp_path: Path) -> None:
    pooled = pool_runs(
        [open_run(path) for path in seeds(tmp_path, {1: "Oslo", 2: "Rome", 3: "Rome"})]
    )

    assert pooled.seeds == (1, 2, 3)
    assert pooled.name.model == "lexical, seeds 1, 2, 3"
    # accuracies 2/3, 1/3, 1/3
    accuracy = pooled.figures.figure("accuracy").official
    assert accuracy.value == pytest.approx(4 / 9)
    assert "runs" in accuracy.method
    # correct: q1 q2 | q2 | q2; memory-missing among them: q2 | q2 | q2
    assert pooled.figures.figure("p_mmc").official.value == pytest.approx(3 / 4)
    assert pooled.figures.outcomes is not None
    assert pooled.figures.outcomes.n == 9
    # recall 4/9, precision 4/9
    assert pooled.figures.figure("f1").official.value == pytest.approx(4 / 9)
    assert pooled.notes == ()


def test_runs_that_differ_in_more_than_seeds_are_not_pooled(tmp_path: Path) -> None:
    rows = [Made("q1", "d1", "Oslo", "Oslo")]
    a = make_run(tmp_path / "a", rows, model={"seed": 1, "temperature": 0.7})
    b = make_run(tmp_path / "b", rows, model={"seed": 2, "temperature": 1.0})

    with pytest.raises(RunMismatchError, match=r"model\.temperature: 0\.7 -> 1\.0") as caught:
        pool_runs([a, b])
    assert "seed:" not in str(caught.value)


def test_a_run_is_not_pooled_with_itself_or_alone(tmp_path: Path) -> None:
    store = make_run(tmp_path / "a", [Made("q1", "d1", "Oslo", "Oslo")])

    with pytest.raises(RunMismatchError, match="is given twice"):
        pool_runs([store, store])
    with pytest.raises(RunMismatchError, match="at least two runs"):
        pool_runs([store])


def test_equal_seeds_are_pointed_out(tmp_path: Path) -> None:
    rows = [Made("q1", "d1", "Oslo", "Oslo")]
    stores = [make_run(tmp_path / name, rows, model={"seed": 7}) for name in ("a", "b", "c")]

    (note,) = pool_runs(stores).notes

    assert "the seed 7" in note
