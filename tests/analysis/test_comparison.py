"""Two runs compared question by question; counts and differences computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awm.analysis.comparison import compare_run_stores
from awm.errors import RunMismatchError
from awm.runs import RunStore
from awm.scoring.outcome import Outcome
from made_runs import FAILED, Made, make_run

SUPPORTED, MISSING = Outcome.MEMORY_SUPPORTED_CORRECT, Outcome.MEMORY_MISSING_CORRECT
ANSWERING, UNRESOLVED = Outcome.ANSWERING_ERROR, Outcome.UNRESOLVED_ERROR


def rows(answers: str) -> list[Made]:
    """One question a letter pair: "+" is right, "-" wrong, "?" failed; final, then memory."""
    said = {"+": "Oslo", "-": "Rome", "?": FAILED}
    return [
        Made(f"q{i}", f"d{i % 4}", "Oslo", said[pair[0]], said[pair[1]])
        for i, pair in enumerate(answers.split())
    ]


def made(path: Path, answers: str, **manifest: Any) -> RunStore:
    return make_run(path, rows(answers), **manifest)


@pytest.fixture
def a(tmp_path: Path) -> RunStore:
    return made(tmp_path / "a", "++ +- +- -- -+ ++ -- ++")


def test_differences_are_b_minus_a_over_the_questions_that_both_measured(
    tmp_path: Path, a: RunStore
) -> None:
    b = made(tmp_path / "b", "++ ++ ++ +- -- ++ ?? ++", setting="ep-given")

    compared = compare_run_stores(a, b)

    accuracy, memory, p_mmc = compared.figures
    # over q0..q5 and q7: A is right on 5 of 7, B on 6; memory-only answers: 4 and 5.
    assert (accuracy.a, accuracy.b) == (5 / 7, 6 / 7)
    assert accuracy.difference.value == pytest.approx(1 / 7)
    assert accuracy.difference.n == 7
    assert (memory.a, memory.b) == (4 / 7, 5 / 7)
    # A: q1 and q2 of 5 right; B: q3 of 6
    assert (p_mmc.a, p_mmc.b) == (2 / 5, 1 / 6)
    assert p_mmc.difference.value == pytest.approx(1 / 6 - 2 / 5)
    assert (compared.n_pairs, compared.n_answer_unmeasured, compared.n_memory_unmeasured) == (
        8,
        1,
        1,
    )
    assert compared.settings == ("setting: 'agent' -> 'ep-given'",)


def test_mcnemar_counts_discordant_questions(tmp_path: Path, a: RunStore) -> None:
    b = made(tmp_path / "b", "++ ++ ++ +- -- ++ ?? ++")

    tests = compare_run_stores(a, b).tests

    right = tests["s_ans"]
    assert (right.n_both, right.n_only_a, right.n_only_b, right.n_neither) == (5, 0, 1, 1)
    assert (right.n_left_out, right.p_exact) == (1, 1.0)
    memory = tests["s_mem"]
    # q1 and q2 only in B, q4 only in A: two-sided p of 1 in 3 is min(1, 2 * 4/8)
    assert (memory.n_only_a, memory.n_only_b, memory.p_exact) == (1, 2, 1.0)
    missing = tests[MISSING.value]
    assert (missing.n_both, missing.n_only_a, missing.n_only_b) == (0, 2, 1)


def test_transitions_count_moves_between_cells(tmp_path: Path, a: RunStore) -> None:
    b = made(tmp_path / "b", "++ ++ ++ +- -- ++ ?? ++")

    assert compare_run_stores(a, b).transitions == {
        (SUPPORTED, SUPPORTED): 3,
        (MISSING, SUPPORTED): 2,
        (ANSWERING, UNRESOLVED): 1,
        (UNRESOLVED, MISSING): 1,
        (UNRESOLVED, None): 1,
    }


def test_a_clear_difference_has_a_small_exact_p(tmp_path: Path) -> None:
    a = made(tmp_path / "a", " ".join(["--"] * 6))
    b = made(tmp_path / "b", " ".join(["++"] * 6))

    compared = compare_run_stores(a, b)

    assert compared.tests["s_ans"].p_exact == pytest.approx(2 / 2**6)
    assert compared.figures[0].difference.value == 1.0


def test_questions_of_one_run_only_are_named_and_left_out(tmp_path: Path, a: RunStore) -> None:
    b = make_run(tmp_path / "b", [*rows("++ ++"), Made("new", "d9", "Oslo", "Oslo", "Oslo")])

    compared = compare_run_stores(a, b)

    assert compared.n_pairs == 2
    assert compared.only_in_a == ("q2", "q3", "q4", "q5", "q6", "q7")
    assert compared.only_in_b == ("new",)
    assert compared.figures[0].difference.n == 2


@pytest.mark.parametrize(
    ("line", "manifest", "difference"),
    [
        ("extractors", {"extractor": "openai:m"}, "extractor: None -> 'openai:m'"),
        ("extractors", {"extraction_prompt": "official.md:1"}, "extraction_prompt: None -> "),
        ("judges", {"judge": "longdocurl"}, "judge: 'mmlongbench-doc' -> 'longdocurl'"),
        ("datasets", {"dataset": {"dataset_hash": "e" * 64}}, "dataset_hash: 'ddd"),
    ],
)
def test_other_measurements_are_refused_unless_told_to(
    tmp_path: Path, a: RunStore, line: Any, manifest: dict[str, Any], difference: str
) -> None:
    b = made(tmp_path / "b", "++ ++", **manifest)

    with pytest.raises(RunMismatchError) as caught:
        compare_run_stores(a, b)
    assert f"other {line}:" in str(caught.value)
    assert f"--across-{line}" in str(caught.value)

    crossed = compare_run_stores(a, b, across=["extractors", "judges", "datasets"]).crossed
    assert any(what.startswith(difference) for what in crossed[line])


def test_runs_without_a_common_question_are_refused(tmp_path: Path, a: RunStore) -> None:
    b = make_run(tmp_path / "b", [Made("other", "d1", "Oslo", "Oslo")])

    with pytest.raises(RunMismatchError, match="no question in common"):
        compare_run_stores(a, b)


def test_one_id_on_two_documents_is_refused(tmp_path: Path, a: RunStore) -> None:
    b = make_run(tmp_path / "b", [Made("q0", "another", "Oslo", "Oslo", "Oslo")])

    with pytest.raises(RunMismatchError, match="'q0' is about 'd0' in the first run"):
        compare_run_stores(a, b)


def test_runs_without_a_memory_have_no_memory_figures(tmp_path: Path) -> None:
    direct = [Made(f"q{i}", f"d{i}", "Oslo", "Oslo") for i in range(3)]
    a, b = make_run(tmp_path / "a", direct), make_run(tmp_path / "b", direct)

    compared = compare_run_stores(a, b)

    memory, p_mmc = compared.figures[1:]
    assert (memory.a, memory.b, memory.difference.value) == (None, None, None)
    assert (p_mmc.a, p_mmc.b, p_mmc.difference.value) == (None, None, None)
    assert compared.transitions == {(None, None): 3}
    assert compared.n_memory_unmeasured == 3
