"""The arithmetic of the controlled comparison, on logs with known answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from awm.analysis.interventions.figures import InterventionReport
from awm.analysis.interventions.log import read_intervention_log
from awm.analysis.interventions.report import OTHER_SUBSET, make_report
from awm.errors import DataError

# Table 3 of the paper, re-enacted: (final, memory) by question under each memory.
# Original: 104 supported, 77 missing, 47 answering errors, 272 unresolved of 500, so 181 right
# finals (36.2 %) and 151 memory-answerable questions (30.2 %); P_mmc = 77 / 181 = 42.5 %.
CELLS = [(1, 1)] * 104 + [(1, 0)] * 77 + [(0, 1)] * 47 + [(0, 0)] * 272
# Improved, cell by cell: memory-answerable 95 + 44 + 35 + 50 = 224 (44.8 %), final-right
# 98 + 60 + 24 + 40 = 222 (44.4 %). Gained 44 + 50 = 94, lost 9 + 12 = 21: 94 - 21 = +73.
IMPROVED_MEMORY = {(1, 1): 95, (1, 0): 44, (0, 1): 35, (0, 0): 50}
IMPROVED_FINAL = {(1, 1): 98, (1, 0): 60, (0, 1): 24, (0, 0): 40}


def table_3() -> Iterator[dict[str, Any]]:
    seen = dict.fromkeys(IMPROVED_MEMORY, 0)
    for number, cell in enumerate(CELLS):
        place = seen[cell]
        seen[cell] += 1
        question = {"question_id": f"q{number}", "document_id": f"d{number // 4}"}
        yield question | {"arm": "empty", "final_score": int(number < 14), "memory_score": 0}
        yield question | {"arm": "original", "final_score": cell[0], "memory_score": cell[1]}
        yield question | {
            "arm": "improved",
            "final_score": float(place < IMPROVED_FINAL[cell]),
            "memory_score": 0.5 if place < IMPROVED_MEMORY[cell] else 0.0,
        }


def write_log(path: Path, rows: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def report_of(path: Path) -> InterventionReport:
    return make_report(read_intervention_log(path), {"log": str(path)})


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> InterventionReport:
    return report_of(write_log(tmp_path_factory.mktemp("log") / "log.jsonl", table_3()))


def test_table_3_gives_its_rates(report: InterventionReport) -> None:
    rates = {f.arm: (f.final.value, f.memory.value) for f in report.arms}

    assert rates["empty"] == (14 / 500, 0)
    assert rates["original"] == (181 / 500, 151 / 500)
    assert rates["improved"] == (222 / 500, 224 / 500)
    original = next(f for f in report.arms if f.arm == "original")
    assert original.p_mmc.value == pytest.approx(77 / 181)


def test_table_3_gains_73_memory_answerable_questions(report: InterventionReport) -> None:
    gain = next(
        d for d in report.differences if (d.measure, d.subtrahend) == ("memory", "original")
    )

    assert (gain.test.n_only_a, gain.test.n_only_b, gain.change) == (94, 21, 73)
    assert gain.difference.value == pytest.approx(0.146)
    assert gain.difference.interval is not None
    assert gain.difference.interval.low > 0
    assert gain.test.p_exact < 1e-9


def test_the_breakdown_by_original_cell_adds_up(report: InterventionReport) -> None:
    assert [row.n for row in report.by_cell] == [104, 77, 47, 272]
    assert report.cells_from == "the original memory"
    for figures in report.arms:
        counts = [row.counts[figures.arm] for row in report.by_cell]
        assert sum(count["memory"] for count in counts) == figures.n_memory
        assert sum(count["final"] for count in counts) == figures.n_final
    improved = [row.counts["improved"]["memory"] for row in report.by_cell]
    assert improved == [95, 44, 35, 50]


def test_the_cell_transitions_add_up(report: InterventionReport) -> None:
    # Within a cell both answers are right for the first so many questions, so from the 104
    # supported ones min(98, 95) = 95 stay supported, 3 become missing, and 6 unresolved.
    rows = report.cell_transitions

    assert rows["memory_supported_correct"] == {
        "memory_supported_correct": 95,
        "memory_missing_correct": 3,
        "answering_error": 0,
        "unresolved_error": 6,
    }
    assert sum(sum(row.values()) for row in rows.values()) == 500


def rows_of(*pairs: tuple[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"question_id": "q", "arm": arm, "final_score": 0, "memory_score": 0} | dict(more)
        for arm, more in pairs
    ]


def test_the_page_audit_tells_gold_pages_from_others(tmp_path: Path) -> None:
    findings = [{"text": "Sales were 4.", "page": 2}, {"text": "Costs were 3.", "page": 9}]
    rows = [
        {**row, "question_id": f"q{i}", "evidence_pages": [2, 3]}
        for i, row in enumerate(
            rows_of(
                ("improved", {"memory": findings}),
                ("improved", {"memory": findings[:1]}),
                ("improved", {"memory": []}),
                ("improved", {"memory": "Costs were 3.", "cited_pages": [9]}),
            )
        )
    ]

    (audit,) = report_of(write_log(tmp_path / "log.jsonl", rows)).audits

    assert (audit.n_memories, audit.n_empty, audit.n_with_pages) == (4, 1, 3)
    assert (audit.n_cite_gold, audit.n_cite_only_gold) == (2, 1)


def test_the_exact_filter_gives_the_rate_of_the_rest_and_a_warning(tmp_path: Path) -> None:
    # "12" stands in the first memory; "1" is not in "12"; 1 of the 3 others is positive.
    rows = [
        {**row, "question_id": f"q{i}"}
        for i, row in enumerate(
            rows_of(
                ("improved", {"memory": "It had 12 rooms.", "gold": "12", "memory_score": 1}),
                ("improved", {"memory": "It had 12 rooms.", "gold": "1", "memory_score": 1}),
                ("improved", {"memory": "It had rooms.", "gold": 12}),
                ("improved", {"memory": "It had rooms."}),
            )
        )
    ]

    report = report_of(write_log(tmp_path / "log.jsonl", rows))

    (audit,) = report.audits
    assert (audit.n_exact, audit.n_remaining, audit.n_remaining_positive) == (1, 3, 1)
    assert audit.remaining.value == pytest.approx(1 / 3)
    assert OTHER_SUBSET in report.warnings


def test_a_score_that_is_not_measured_is_in_no_rate_and_no_difference(tmp_path: Path) -> None:
    rows = rows_of(("original", {}), ("improved", {"memory_score": None, "final_score": 1}))
    rows += [{**row, "question_id": "r"} for row in rows_of(("original", {}), ("improved", {}))]

    report = report_of(write_log(tmp_path / "log.jsonl", rows))

    improved = next(f for f in report.arms if f.arm == "improved")
    assert (improved.memory.value, improved.memory.n, improved.n_unmeasured) == (0, 1, 1)
    memory = next(d for d in report.differences if d.measure == "memory")
    assert (memory.difference.n, memory.test.n_left_out) == (1, 1)
    assert sum(sum(row.values()) for row in report.cell_transitions.values()) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"question_id": "q"}', "line 2, arm: Field required"),
        ('{"question_id": "q", "arm": "better"}', "line 2, arm: Input should be 'empty'"),
        (
            '{"question_id": "q", "arm": "empty", "final_score": 2, "memory_score": 0}',
            "line 2, final_score: Input should be less than or equal to 1",
        ),
        (
            '{"question_id": "q", "arm": "empty", "final_score": 1, "memory_score": 0, "x": 1}',
            "line 2, x: Extra inputs are not permitted",
        ),
        ("{", "line 2, the line: Invalid JSON"),
        (
            '{"question_id": "p", "arm": "empty", "final_score": 0, "memory_score": 0}',
            "line 2: question 'p' has the memory 'empty' twice",
        ),
        (
            '{"question_id": "p", "arm": "original", "final_score": 0, "memory_score": 0, '
            '"document_id": "d"}',
            "line 2, document_id: 'd', and another row of question 'p' has 'p'",
        ),
    ],
)
def test_a_bad_row_is_named_with_line_and_field(tmp_path: Path, row: str, message: str) -> None:
    good = '{"question_id": "p", "arm": "empty", "final_score": null, "memory_score": true}'
    path = tmp_path / "log.jsonl"
    path.write_text(f"{good}\n{row}\n", encoding="utf-8")

    with pytest.raises(DataError) as caught:
        read_intervention_log(path)

    assert message in str(caught.value)
