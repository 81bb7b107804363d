from __future__ import annotations

import pytest

from awm.analysis.breakdowns import plan_resampling
from awm.analysis.readers import compare_readers, summarize_rollouts
from awm.scoring.outcome import Outcome

FINALS = [1, 1, 1, 1, 1, 0, 0, 0, None, 1]
A = [1, 1, 1, 0, 0, 1, 0, 0, 1, None]
B = [1, 1, 0, 0, 1, 1, 0, 1, 1, 1]
C = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
PLAN = plan_resampling(list(range(10)))


def test_each_reader_has_its_own_memory_figures() -> None:
    found = compare_readers(FINALS, {"a": A, "b": B, "c": C}, PLAN)

    a, b, c = found.readers
    assert a.memory_accuracy.value == 5 / 9  # the last is unmeasured
    assert b.memory_accuracy.value == 7 / 10
    assert c.memory_accuracy.value == 1 / 10
    # right and measured: a 5, of which 2 missing; b 6, 2; c 6, 5
    assert (a.p_mmc.value, a.p_mmc.n) == (2 / 5, 5)
    assert (b.p_mmc.value, b.p_mmc.n) == (2 / 6, 6)
    assert (c.p_mmc.value, c.p_mmc.n) == (5 / 6, 6)


def test_missing_for_every_reader_counts_right_answers_that_all_measured() -> None:
    found = compare_readers(FINALS, {"a": A, "b": B, "c": C}, PLAN)

    # right and measured by all: the first five. Question 4 is missing for a, b and c; 2 to 5 for
    # at least one of them.
    assert (found.missing_for_every.value, found.missing_for_every.n) == (1 / 5, 5)
    assert (found.missing_for_any.value, found.missing_for_any.n) == (4 / 5, 5)


def test_kappas_are_those_worked_out_by_hand() -> None:
    found = compare_readers(FINALS, {"a": A, "b": B, "c": C}, PLAN)

    a_b = found.migrations[0]
    # 9 pairs, equal in 1, 2, 4, 6, 7, 9: observed 6/9. a says yes 5/9, b 6/9:
    # expected (5*6 + 4*3) / 81 = 42/81; kappa = (54 - 42) / (81 - 42) = 12/39
    assert a_b.kappa.kappa == pytest.approx(12 / 39)
    assert a_b.kappa.n_left_out == 1
    # Fleiss, 9 questions, 3 readers; yes per question: 3 2 1 0 1 2 0 1 2 -> 12 of 27.
    # Agreeing pairs of 3: 3 1 1 3 1 1 3 1 1 -> 15 of 27. Expected (12^2 + 15^2) / 27^2 = 369/729.
    assert found.kappa is not None
    assert found.kappa.kappa == pytest.approx((15 / 27 - 369 / 729) / (1 - 369 / 729))


def test_cells_migrate_only_within_the_same_final_answer() -> None:
    found = compare_readers(FINALS, {"a": A, "b": B}, PLAN)

    (moved,) = found.migrations
    supported, missing = Outcome.MEMORY_SUPPORTED_CORRECT, Outcome.MEMORY_MISSING_CORRECT
    answering, unresolved = Outcome.ANSWERING_ERROR, Outcome.UNRESOLVED_ERROR
    # right: 1, 2 stay, 3 is lost, 4 stays missing, 5 is won; wrong: 6 stays, 7 stays, 8 is won
    assert moved.counts[supported][supported] == 2
    assert moved.counts[supported][missing] == 1
    assert moved.counts[missing][missing] == 1
    assert moved.counts[missing][supported] == 1
    assert moved.counts[answering][answering] == 1
    assert moved.counts[unresolved][unresolved] == 1
    assert moved.counts[unresolved][answering] == 1
    assert sum(n for row in moved.counts.values() for n in row.values()) == 8
    assert moved.n_moved == 3


def test_one_reader_has_no_kappa() -> None:
    found = compare_readers([1], {"a": [0]}, plan_resampling(["d"]))

    assert found.kappa is None
    assert found.migrations == ()
    assert found.missing_for_every.value == 1.0


def test_rollouts_give_variance_consistency_and_pass_at_k() -> None:
    found = summarize_rollouts(
        "r",
        [[1, 0, 1, 1], [0, 0, 0, 0], [1, None, 0], []],
        [["12", "12 ", "13", "12"], ["a", "b", "b", "a"], ["Oslo", None, "oslo"], []],
        plan_resampling(["a", "b", "c", "d"]),
    )

    assert found.n_rollouts == 4
    # means 3/4, 0, 1/2; the last question has no rollout
    assert found.mean_accuracy.value == pytest.approx((0.75 + 0 + 0.5) / 3)
    assert found.mean_accuracy.n == 3
    # unbiased: 3/4 * 1/4 * 4/3 = 1/4; 0; 1/2 * 1/2 * 2 = 1/2
    assert found.mean_variance == pytest.approx((0.25 + 0 + 0.5) / 3)
    # majority 3 of 4, 2 of 4 (tied), 2 of 2
    assert found.self_consistency.value == pytest.approx((0.75 + 0.5 + 1) / 3)
    assert found.n_tied == 1
    assert list(found.pass_at) == [1, 2, 4]
    assert found.pass_at[1].value == pytest.approx((0.75 + 0 + 0.5) / 3)
    # k = 2: 1 - C(1,2)/C(4,2) = 1; 0; 1 - C(1,2)/C(2,2) = 1
    assert found.pass_at[2].value == pytest.approx(2 / 3)
    assert (found.pass_at[4].value, found.pass_at[4].n) == (0.5, 2)
