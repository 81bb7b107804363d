"""The table of a controlled memory comparison, from a run of it or from a hand-made log.

Final-answer and memory-only rates are *binary* (score > 0), as the paper's Table 3 has them.
Differences are paired by question; intervals come from a bootstrap over documents, and McNemar's
exact test stands beside them. Everything that compares two memories rests on the questions that
both measured.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from awm.analysis.breakdowns import plan_resampling
from awm.analysis.echo import find_echo
from awm.analysis.interventions.figures import (
    MEASURES,
    UNMEASURED_CELL,
    ArmAudit,
    ArmDifference,
    ArmFigures,
    ArmRow,
    CellRow,
    InterventionReport,
)
from awm.analysis.interventions.memory_writer import MemoryWrite, refusal_reason
from awm.analysis.interventions.records import ARMS, Arm, ArmScore, open_intervention
from awm.analysis.statistics.bootstrap import ResamplingPlan, estimate, estimate_difference
from awm.analysis.statistics.paired import mcnemar
from awm.analysis.statistics.ratios import Ratio, mean_ratio, p_mmc_ratio
from awm.memory import render_findings, visible_line
from awm.scoring.outcome import Outcome, count_outcomes


def report_intervention(path: Path) -> InterventionReport:
    """Read a comparison's folder, finished or not.

    Raises:
        RunStoreError: it is none, or is damaged.
    """
    run = open_intervention(path)
    manifest = run.manifest
    settings = manifest.settings
    items = {item.example.question_id: item for item in run.items.read()}
    latest = {(r.question_id, r.arm): r for r in run.journal("scores", ArmScore).read()}
    rows = []
    for id_, item in items.items():
        for arm in settings["arms"]:
            record = latest.get((id_, arm))
            findings = record.findings if record else None
            rows.append(
                ArmRow(
                    question_id=id_,
                    document_id=item.example.document_id,
                    arm=arm,
                    final_score=record.final.score if record else None,
                    memory_score=record.memory.score if record else None,
                    memory=None if findings is None else render_findings(findings),
                    cited_pages=None if findings is None else tuple(f.page for f in findings),
                    gold_pages=item.example.evidence_pages,
                    gold=item.example.answer,
                    source_outcome=item.outcome,
                )
            )
    writer = settings["writer"]["spec"] if settings["writer"] else settings["improved"]
    title = {
        "run": str(path),
        "source": manifest.source.path,
        "source_setting": manifest.source.setting,
        "benchmark": manifest.dataset.benchmark,
        "generator": settings["generator"]["spec"],
        "generator_sees_pages": settings["generator_sees_pages"],
        "reader": settings["reader"]["spec"],
        "writer": writer,
        "judge": manifest.judge,
        "n_left_out": manifest.n_left_out,
        "n_memory_from_source": sum(r.memory_from_source for r in latest.values()),
    }
    warnings = [PAGES_SEEN] if settings["generator_sees_pages"] else []
    if manifest.source.setting != "ep-given":
        warnings.append(
            f"the source run's setting is {manifest.source.setting}: the paper replaces memories "
            "of ep-given runs, whose agents saw the gold pages"
        )
    writes = {write.question_id: write for write in run.journal("memories", MemoryWrite).read()}
    records = list(writes.values())
    warnings += _refused_writing(records)
    return make_report(rows, title, writing=_writing(records), warnings=warnings)


def make_report(
    rows: Sequence[ArmRow],
    title: dict[str, Any],
    *,
    writing: dict[str, int] | None = None,
    warnings: Sequence[str] = (),
) -> InterventionReport:
    """Compute the table from rows; every (question, memory) pair stands at most once."""
    by_arm = {
        arm: {row.question_id: row for row in rows if row.arm == arm}
        for arm in ARMS
        if any(row.arm == arm for row in rows)
    }
    documents = {row.question_id: row.document_id for row in rows}
    plan = plan_resampling(list(documents.values()))
    ids = list(documents)
    pairs = [("improved", "original"), ("original", "empty"), ("improved", "empty")]
    differences = [
        _difference(measure, a, b, by_arm, ids, plan)
        for a, b in pairs
        if a in by_arm and b in by_arm
        for measure in MEASURES
    ]
    by_cell, cells_from = _break_down(by_arm, ids)
    audits = tuple(_audit(arm, by_arm[arm], ids, plan) for arm in by_arm)
    notes = list(warnings)
    if any(audit.n_exact for audit in audits):
        notes.append(OTHER_SUBSET)
    return InterventionReport(
        title=title,
        n_questions=len(ids),
        arms=tuple(_figures(arm, by_arm[arm], ids, plan) for arm in by_arm),
        differences=tuple(differences),
        by_cell=by_cell,
        cells_from=cells_from,
        cell_transitions=_cell_transitions(by_arm),
        audits=audits,
        writing=writing,
        warnings=tuple(notes),
    )


OTHER_SUBSET = (
    "the questions whose memories do not hold the exact gold answer are another, harder subset: "
    "their rate is no like-for-like estimate of the whole"
)
PAGES_SEEN = (
    "the answer generator saw the gold pages: final answers do not rest on the memory alone "
    "(the other reading of the paper)"
)
MAX_REFUSAL = 200
"""Characters of a refusal that a warning quotes."""
_ByArm = dict[Arm, dict[str, ArmRow]]


def _scores(rows: dict[str, ArmRow], ids: Sequence[str], measure: str) -> list[float | None]:
    found = [rows[id_].measure(measure) if id_ in rows else None for id_ in ids]
    return [None if right is None else float(right) for right in found]


def _figures(
    arm: Arm, rows: dict[str, ArmRow], ids: Sequence[str], plan: ResamplingPlan
) -> ArmFigures:
    finals, memories = _scores(rows, ids, "final"), _scores(rows, ids, "memory")
    measured = [row for row in rows.values() if row.outcome is not None]
    return ArmFigures(
        arm=arm,
        n=len(rows),
        n_unmeasured=len(rows) - len(measured),
        final=estimate(mean_ratio(finals), plan),
        memory=estimate(mean_ratio(memories), plan),
        n_final=sum(score == 1 for score in finals),
        n_memory=sum(score == 1 for score in memories),
        p_mmc=estimate(p_mmc_ratio(finals, memories), plan),
        cells=count_outcomes(row.outcome for row in rows.values()),
    )


def _difference(
    measure: str, a: str, b: str, by_arm: _ByArm, ids: Sequence[str], plan: ResamplingPlan
) -> ArmDifference:
    minuend, subtrahend = _as_arm(a), _as_arm(b)
    pairs = list(
        zip(
            _scores(by_arm[minuend], ids, measure),
            _scores(by_arm[subtrahend], ids, measure),
            strict=True,
        )
    )
    both = [(x, y) if x is not None and y is not None else (None, None) for x, y in pairs]
    xs, ys = [x for x, _ in both], [y for _, y in both]
    return ArmDifference(
        measure=measure,
        minuend=minuend,
        subtrahend=subtrahend,
        difference=estimate_difference(mean_ratio(xs), mean_ratio(ys), plan),
        test=mcnemar(
            [None if x is None else x > 0 for x in xs], [None if y is None else y > 0 for y in ys]
        ),
    )


def _as_arm(name: str) -> Arm:
    return next(arm for arm in ARMS if arm == name)


def _break_down(by_arm: _ByArm, ids: Sequence[str]) -> tuple[tuple[CellRow, ...], str]:
    """Group by the cell of the source run where it is known, else of the original memory."""
    any_rows = [rows[id_] for id_ in ids for rows in by_arm.values() if id_ in rows]
    from_source = any(row.source_outcome is not None for row in any_rows)
    if from_source:
        cells = {row.question_id: row.source_outcome for row in any_rows}
    else:
        original = by_arm.get("original", {})
        cells = {id_: original[id_].outcome if id_ in original else None for id_ in ids}
    names = [*(cell.value for cell in Outcome), UNMEASURED_CELL]
    groups: dict[str, list[str]] = {name: [] for name in names}
    for id_ in ids:
        cell = cells.get(id_)
        groups[cell.value if cell is not None else UNMEASURED_CELL].append(id_)
    rows = tuple(
        CellRow(
            cell=cell,
            n=len(members),
            counts={
                arm: {
                    m: sum(arm_rows[i].measure(m) is True for i in members if i in arm_rows)
                    for m in MEASURES
                }
                for arm, arm_rows in by_arm.items()
            },
        )
        for cell, members in groups.items()
        if members or cell != UNMEASURED_CELL
    )
    return rows, "the source run" if from_source else "the original memory"


def _cell_transitions(by_arm: _ByArm) -> dict[str, dict[str, int]]:
    if "original" not in by_arm or "improved" not in by_arm:
        return {}
    counts: Counter[tuple[Outcome, Outcome]] = Counter()
    for id_, before in by_arm["original"].items():
        after = by_arm["improved"].get(id_)
        if after is not None and before.outcome is not None and after.outcome is not None:
            counts[before.outcome, after.outcome] += 1
    return {a.value: {b.value: counts[a, b] for b in Outcome} for a in Outcome}


def _audit(arm: Arm, rows: dict[str, ArmRow], ids: Sequence[str], plan: ResamplingPlan) -> ArmAudit:
    known = [row for row in rows.values() if row.memory is not None]
    cited = [
        (row.cited_pages, row.gold_pages)
        for row in known
        if row.cited_pages and row.gold_pages is not None
    ]
    echoes = {
        row.question_id: find_echo(row.memory or "", row.gold)
        for row in known
        if row.gold is not None
    }
    exact = {id_ for id_, echo in echoes.items() if echo is not None and echo.exact}
    known_ids = {row.question_id for row in known}
    remaining: list[float | None] = [
        score if id_ in known_ids and id_ not in exact else None
        for id_, score in zip(ids, _scores(rows, ids, "memory"), strict=True)
    ]
    ratio: Ratio = mean_ratio(remaining)
    return ArmAudit(
        arm=arm,
        n_memories=len(known),
        n_empty=sum(row.cited_pages == () for row in known),
        n_with_pages=len(cited),
        n_cite_gold=sum(bool(set(pages) & set(gold)) for pages, gold in cited),
        n_cite_only_gold=sum(set(pages) <= set(gold) for pages, gold in cited),
        n_exact_known=sum(echo is not None for echo in echoes.values()),
        n_exact=len(exact),
        n_remaining=len(known) - len(exact),
        n_remaining_positive=sum(score == 1 for score in remaining),
        remaining=estimate(ratio, plan),
    )


def _refused_writing(records: Sequence[MemoryWrite]) -> list[str]:
    """Warn where improved memories are empty because all that was written was refused."""
    empty = [
        write for write in records if write.error is None and not write.findings and write.refusals
    ]
    if not empty:
        return []
    consequence = (
        "what differs from them says nothing about better memories"
        if len(empty) == len(records)
        else "there the comparison is with an empty memory and says nothing about better ones"
    )
    return [
        f"{len(empty)} of {len(records)} improved memories are empty because their writing was "
        f"refused, most often so: {_most_frequent(empty)} - {consequence}"
    ]


def _most_frequent(writes: Sequence[MemoryWrite]) -> str:
    """Quote the most frequent refusal; those that differ in a number or in brackets are one."""
    reasons = [refusal_reason(refusal) for write in writes for refusal in write.refusals]
    kinds = [re.sub(r"\(.*\)|\d+", "", reason) for reason in reasons]
    (kind, n), *_ = Counter(kinds).most_common(1)
    example = visible_line(reasons[kinds.index(kind)])
    return f"{example[:MAX_REFUSAL]!r} ({n} of {len(reasons)} refusals)"


def _writing(records: Sequence[MemoryWrite]) -> dict[str, int] | None:
    if not records:
        return None
    return {
        "n_memories": len(records),
        "n_findings": sum(len(write.findings) for write in records),
        "n_refusals": sum(len(write.refusals) for write in records),
        "n_retried": sum(len(write.replies) > 1 for write in records),
        "n_lost": sum(write.n_lost for write in records),
        "n_empty": sum(not write.findings and write.error is None for write in records),
        "n_unmeasured": sum(write.error is not None for write in records),
    }
