from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from awm.scoring.metrics import (
    LONGDOCURL_COUNTS,
    LONGDOCURL_N_QUESTIONS,
    GroupAccuracy,
    ScoredRow,
    longdocurl_metrics,
    mmlongbench_doc_metrics,
)
from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge

NOT_ANSWERABLE = "Not answerable"


def group(groups: tuple[GroupAccuracy, ...], name: str) -> GroupAccuracy:
    (found,) = [candidate for candidate in groups if candidate.name == name]
    return found


def test_mmlongbench_doc_f1_by_hand() -> None:
    rows = [
        ScoredRow(1.0, "a", "a"),
        ScoredRow(0.5, "b", "c"),
        ScoredRow(0.0, NOT_ANSWERABLE, "d"),
        ScoredRow(1.0, NOT_ANSWERABLE, NOT_ANSWERABLE),
        ScoredRow(0.0, "e", NOT_ANSWERABLE),
    ]

    metrics = mmlongbench_doc_metrics(rows)

    assert metrics.accuracy == pytest.approx(2.5 / 5)
    assert metrics.recall == pytest.approx(1.5 / 3)
    assert metrics.precision == pytest.approx(1.5 / 3)  # "a", "b" and "e" are no abstentions
    assert metrics.f1 == pytest.approx(0.5)
    assert (metrics.n, metrics.n_unmeasured) == (5, 0)


def test_only_the_exact_wording_counts_as_abstaining() -> None:
    rows = [
        ScoredRow(1.0, "a", "a"),
        ScoredRow(1.0, "not answerable", NOT_ANSWERABLE),
        ScoredRow(0.0, "Fail to answer", NOT_ANSWERABLE),
    ]

    metrics = mmlongbench_doc_metrics(rows)

    assert metrics.precision == pytest.approx(1 / 3)
    assert metrics.recall == 1.0
    assert metrics.f1 == pytest.approx(0.5)


def test_f1_is_zero_where_recall_or_precision_is_undefined() -> None:
    always_abstains = mmlongbench_doc_metrics([ScoredRow(0.0, NOT_ANSWERABLE, "a")])
    no_answerable = mmlongbench_doc_metrics([ScoredRow(0.0, "a", NOT_ANSWERABLE)])

    assert (always_abstains.precision, always_abstains.f1) == (None, 0.0)
    assert (no_answerable.recall, no_answerable.f1) == (None, 0.0)


def test_unmeasured_rows_are_counted_and_left_out() -> None:
    rows = [
        ScoredRow(1.0, "a", "a", evidence_pages=(1,), evidence_sources=("Chart",)),
        ScoredRow(None, None, "b", evidence_pages=(1,), evidence_sources=("Chart",)),
    ]

    metrics = mmlongbench_doc_metrics(rows)

    assert (metrics.accuracy, metrics.f1, metrics.n, metrics.n_unmeasured) == (1.0, 1.0, 1, 1)
    chart = group(metrics.groups, "source: Chart")
    assert (chart.accuracy, chart.n, chart.n_unmeasured) == (1.0, 1, 1)


def test_nothing_measured_gives_no_number() -> None:
    unmeasured = [ScoredRow(None, None, "a", task_tag="Reasoning")]

    for rows in ([], unmeasured):
        mmlongbench = mmlongbench_doc_metrics(rows)
        longdocurl = longdocurl_metrics(rows)
        assert mmlongbench.accuracy is mmlongbench.f1 is mmlongbench.recall is None
        assert longdocurl.generalized_accuracy is longdocurl.rectified_accuracy is None
        assert all(one.accuracy is None for one in (*mmlongbench.groups, *longdocurl.groups))
        assert all(one.official_accuracy is None for one in longdocurl.groups)


def test_mmlongbench_doc_groups_overlap() -> None:
    rows = [
        ScoredRow(1.0, "a", "a", evidence_pages=(3,), evidence_sources=("Chart", "Table")),
        ScoredRow(0.0, "b", "c", evidence_pages=(3, 4), evidence_sources=("Chart",)),
        ScoredRow(0.6, "b", "c", evidence_pages=(), document_type="Brochure"),
        ScoredRow(1.0, "x", NOT_ANSWERABLE, evidence_pages=(9,)),
        ScoredRow(0.0, "x", NOT_ANSWERABLE, evidence_pages=(), document_type="Other"),
    ]

    groups = mmlongbench_doc_metrics(rows).groups
    found = {one.name: (one.accuracy, one.n) for one in groups if one.n}

    assert found == {
        "single-page": (1.0, 2),  # the unanswerable one with a page is in two groups
        "cross-page": (0.3, 2),  # and a question without a page is a cross-page one
        "unanswerable": (0.5, 2),
        "source: Chart": (0.5, 2),
        "source: Table": (1.0, 1),
        "document: Brochure": (0.6, 1),
        "document: Other": (0.0, 1),
    }


def test_the_always_not_answerable_predictor_on_the_full_set(shared_folder: Path) -> None:
    path = shared_folder / "data" / "mmlongbench-doc" / "samples.json"
    if not path.is_file():
        pytest.skip(f"no MMLongBench-Doc questions at {path}")
    judge = MMLongBenchDocJudge()
    rows = [
        ScoredRow(
            judge.score(sample["answer"], NOT_ANSWERABLE, sample["answer_format"]).value,
            NOT_ANSWERABLE,
            sample["answer"],
            answer_format=sample["answer_format"],
            evidence_pages=tuple(ast.literal_eval(sample["evidence_pages"])),
            evidence_sources=tuple(ast.literal_eval(sample["evidence_sources"])),
            document_type=sample["doc_type"],
        )
        for sample in json.loads(path.read_text(encoding="utf-8"))
    ]

    metrics = mmlongbench_doc_metrics(rows)

    assert metrics.n == 1082
    assert metrics.accuracy == pytest.approx(223 / 1082)
    assert round(metrics.accuracy or 0.0, 3) == 0.206
    assert metrics.f1 == 0.0
    names = ("single-page", "cross-page", "unanswerable")
    assert [group(metrics.groups, name).n for name in names] == [494, 372, 223]
    assert len(metrics.groups) == 3 + 5 + 7
    assert sum(one.n for one in metrics.groups if one.name.startswith("document: ")) == 1082


def test_longdocurl_accuracy_by_hand() -> None:
    metrics = longdocurl_metrics(
        [ScoredRow(1.0, "a", "a"), ScoredRow(0.5, "a", "b"), ScoredRow(None, None, "c")]
    )

    assert metrics.generalized_accuracy == pytest.approx(0.75)
    assert metrics.rectified_accuracy == pytest.approx(0.75 * 2 / 2325)
    assert (metrics.n, metrics.n_unmeasured) == (2, 1)


def test_longdocurl_groups_by_fixed_and_by_present_counts() -> None:
    rows = [
        ScoredRow(1.0, "a", "a", evidence_pages=(5,), evidence_sources=("Text", "Table"),
                  task_tag="Understanding"),
        ScoredRow(0.5, "a", "a", evidence_pages=(5, 6), evidence_sources=("Text", "Other"),
                  task_tag="Reasoning"),
        ScoredRow(0.8, "a", "a", evidence_pages=(7, 8), evidence_sources=("Layout",),
                  task_tag="Locating", question_type="summary2title"),
        ScoredRow(1.0, "a", "a", evidence_pages=(7,), task_tag="Locating", question_type="new"),
    ]  # fmt: skip

    groups = longdocurl_metrics(rows).groups
    found = {one.name: (one.accuracy, one.n) for one in groups if one.n}

    assert found == {
        "Understanding": (1.0, 1),
        "Reasoning": (0.5, 1),
        "Locating": (0.9, 2),
        "Text": (0.75, 2),
        "Layout": (0.8, 1),
        "Table": (1.0, 1),
        "single-page": (1.0, 2),
        "multi-page": (0.65, 2),
        "cross-element": (0.75, 2),
        "Understanding/single-page/Text": (1.0, 1),
        "Understanding/single-page/Table": (1.0, 1),
        "Reasoning/multi-page/Text": (0.5, 1),
        "Locating/para-title": (0.8, 1),
    }
    locating = group(groups, "Locating")
    assert locating.official_n == 695
    assert locating.official_accuracy == pytest.approx(1.8 / 695)
    assert group(groups, "multi-page").official_accuracy == pytest.approx(1.3 / 1230)


@pytest.mark.parametrize("position", [0, 1])
def test_a_question_without_pages_neither_crashes_nor_leaks(position: int) -> None:
    rows = [
        ScoredRow(0.0, "a", "b", evidence_pages=(1,), evidence_sources=("Text",),
                  task_tag="Reasoning")
    ]  # fmt: skip
    rows.insert(
        position,
        ScoredRow(1.0, "a", "a", evidence_sources=("Text",), task_tag="Reasoning"),
    )

    groups = longdocurl_metrics(rows).groups

    assert group(groups, "Reasoning/single-page/Text").accuracy == 0.0
    assert group(groups, "Reasoning/single-page/Text").n == 1
    assert group(groups, "Reasoning/multi-page/Text").n == 0
    assert group(groups, "Reasoning").accuracy == 0.5
    assert group(groups, "Text").n == 2


def test_the_fixed_counts_add_up() -> None:
    tasks = ("Understanding", "Reasoning", "Locating")
    locating = [count for name, count in LONGDOCURL_COUNTS.items() if name.startswith("Locating/")]

    assert sum(LONGDOCURL_COUNTS[task] for task in tasks) == LONGDOCURL_N_QUESTIONS
    assert sum(locating) == LONGDOCURL_COUNTS["Locating"]
    assert LONGDOCURL_COUNTS["single-page"] + LONGDOCURL_COUNTS["multi-page"] == 2323
