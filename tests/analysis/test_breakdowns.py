from __future__ import annotations

import pytest

from awm.analysis.breakdowns import (
    MAX_CLUSTERS,
    MAX_GROUPS,
    QuestionResult,
    Verdict,
    break_down,
    count_failures,
    judge_failure,
    plan_resampling,
    source_group,
)

TEXT, LAYOUT = "Pure-text (Plain-text)", "Generalized-text (Layout)"


@pytest.mark.parametrize(
    ("sources", "group"),
    [
        ((), "none"),
        (("Table",), "table"),
        ((LAYOUT,), "layout"),
        ((TEXT,), "text"),
        (("Text",), "text"),
        (("Chart",), "chart"),
        (("Figure", "Figure"), "figure"),
        ((TEXT, "Table"), "multi-text"),
        ((TEXT, LAYOUT), "multi-text"),
        ((TEXT, "Chart"), "mixed"),
        (("Table", "Figure"), "mixed"),
        (("Chart", "Figure"), "multi-visual"),
        (("Sound",), "other"),
        (("Sound", TEXT), "other"),
    ],
)
def test_each_question_has_one_source_group(sources: tuple[str, ...], group: str) -> None:
    assert source_group(sources) == group


def result(
    final: float | None,
    memory: float | None,
    gold: tuple[int, ...] | None = (2, 3),
    shown: tuple[int, ...] | None = (2, 3),
    *,
    document: str = "a",
    sources: tuple[str, ...] | None = None,
) -> QuestionResult:
    return QuestionResult(
        id=f"{document}-{final}-{memory}-{shown}",
        cluster=document,
        final_score=final,
        memory_score=memory,
        evidence_pages=gold,
        pages_shown=shown,
        evidence_sources=sources,
    )


@pytest.mark.parametrize(
    ("shown", "final", "memory", "verdict"),
    [
        ((2, 3), 1.0, 1.0, Verdict.SUPPORTED),
        ((), 0.4, 0.2, Verdict.SUPPORTED),
        ((2, 3), 1.0, 0.0, Verdict.MEMORY_FAILURE),
        ((2, 9), 1.0, 0.0, Verdict.MEMORY_FAILURE),
        ((9,), 1.0, 0.0, Verdict.RIGHT_WITHOUT_GOLD_PAGE),
        ((2, 3), 0.0, 1.0, Verdict.ANSWERING_FAILURE),
        ((9,), 0.0, 1.0, Verdict.ANSWERING_FAILURE),
        ((9,), 0.0, 0.0, Verdict.RETRIEVAL_FAILURE),
        ((3,), 0.0, 0.0, Verdict.PARTIAL_RETRIEVAL),
        ((1, 2, 3), 0.0, 0.0, Verdict.READING_FAILURE),
        ((2, 3), None, 1.0, None),
        ((2, 3), 1.0, None, None),
        (None, 1.0, 1.0, None),
    ],
)
def test_the_decision_table_tells_the_failures_apart(
    shown: tuple[int, ...] | None,
    final: float | None,
    memory: float | None,
    verdict: Verdict | None,
) -> None:
    assert judge_failure(result(final, memory, shown=shown)) is verdict


def test_questions_without_gold_pages_have_no_verdict() -> None:
    failures = count_failures(
        [
            result(1, 1),
            result(0, 0, shown=(9,)),
            result(None, 0),
            result(1, 1, gold=()),
            result(1, 1, gold=None),
        ]
    )

    assert (failures.n, failures.n_unmeasured, failures.n_unknown) == (2, 1, 2)
    assert failures.counts[Verdict.SUPPORTED] == 1
    assert failures.counts[Verdict.RETRIEVAL_FAILURE] == 1


def test_groups_have_the_figures_of_their_own_questions() -> None:
    results = [
        result(1.0, 1.0, document="a", sources=("Table",)),
        result(1.0, 0.0, document="b", sources=("Table",)),
        result(0.5, 0.0, document="b", sources=("Table",)),
        result(0.0, 0.5, document="c", sources=("Table",)),
        result(None, 1.0, document="c", sources=("Table",)),
        result(0.0, 0.0, document="c", sources=("Chart", TEXT)),
        result(1.0, 1.0, document="c"),
    ]

    by = {b.by: b for b in break_down(results, plan_resampling([r.cluster for r in results]))}

    source = by["evidence source"]
    assert [group.name for group in source.groups] == ["mixed", "table"]
    assert source.n_unknown == 1
    table = source.groups[1]
    # 5 tables, one final unmeasured: its memory score does not enter either
    assert (table.n, table.n_unmeasured) == (4, 1)
    assert table.final_accuracy.value == (1 + 1 + 0.5 + 0) / 4
    assert table.memory_accuracy.value == (1 + 0 + 0 + 0.5 + 1) / 5
    # right: three, of which two are memory-missing
    assert table.p_mmc.value == pytest.approx(2 / 3)
    assert table.p_mmc.n == 3
    assert list(table.outcomes.as_dict().values()) == [1, 2, 1, 0]
    assert table.final_accuracy.interval is not None


def test_a_way_that_no_question_knows_is_left_out() -> None:
    results = [QuestionResult("1", "a", 1.0, 1.0, answer_format="Int")]

    assert [b.by for b in break_down(results, plan_resampling(["a"]))] == ["answer format"]


def test_many_groups_end_in_one_of_the_rest() -> None:
    results = [
        QuestionResult(str(i), i, 1.0, 1.0, document_type=f"type {i}")
        for i in range(MAX_GROUPS + 3)
    ]

    (by_type,) = break_down(results, plan_resampling([r.cluster for r in results]))

    assert len(by_type.groups) == MAX_GROUPS + 1
    assert by_type.groups[-1].name == "3 others"
    assert sum(group.n for group in by_type.groups) == MAX_GROUPS + 3


def test_many_documents_are_dealt_to_random_groups_that_keep_them_whole() -> None:
    documents = [f"d{i // 2}" for i in range(2 * (MAX_CLUSTERS + 500))]

    plan = plan_resampling(documents)

    assert plan.n_clusters == MAX_CLUSTERS
    assert (plan.cluster_N[::2] == plan.cluster_N[1::2]).all()
    # in the order of the log neighbours would fall into neighbouring groups
    steps = plan.cluster_N[2::2] - plan.cluster_N[:-2:2]
    assert len(set(steps.tolist())) > 100
