"""A manual audit: how far a person and the judge agree on a sample of answers.

The sample is stratified by outcome cell (`audit_sample`), so it is not the run, and every figure
is given twice: as counted in the sample, and weighted back to the run, each row by its cell's size
over the cell's judged rows.

Official scores above 0 count as right. The sample's agreement has Wilson's interval; the weighted
one has it with Kish's effective sample size (sum w)^2 / sum w^2. Both take the sampled questions
as independent, which those of one document are not quite.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from awm.analysis.manual_audit.sample import FILLED, SCORE_COLUMNS, STRATUM_COLUMNS
from awm.analysis.manual_audit.sheet import read_sheet
from awm.analysis.statistics.agreement import Agreement, cohen_kappa
from awm.analysis.statistics.intervals import STANDARD_NORMAL, Interval, sign_test, wilson_interval
from awm.errors import DataError

Verdict = Literal["yes", "no", "unclear"]
Kind = Literal[
    "alias",
    "list_format",
    "partial_credit",
    "number_format",
    "extraction",
    "gold_error",
    "other",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What a disagreement can be put down to: another name of the same thing, the form of a list,
credit for similar text, the form of a number or unit, a wrong short answer, a wrong gold answer."""
_VERDICTS: dict[str, Verdict] = {
    **dict.fromkeys(("yes", "y", "true", "1"), "yes"),
    **dict.fromkeys(("no", "n", "false", "0"), "no"),
    **dict.fromkeys(("unclear", "?"), "unclear"),
}
_NEEDED = ("question_id", *FILLED[:4], *SCORE_COLUMNS, *STRATUM_COLUMNS)

Aspect = Literal["final_correct", "memory_correct", "memory_supports"]
_OFFICIAL_OF: dict[Aspect, str] = {
    "final_correct": "final_official",
    "memory_correct": "memory_official",
    "memory_supports": "memory_official",
}
_REPAIRED_OF: dict[Aspect, str] = {
    "final_correct": "final_repaired",
    "memory_correct": "memory_repaired",
    "memory_supports": "memory_repaired",
}


@dataclass(frozen=True, slots=True)
class AspectAgreement:
    """How far the person agrees with the official scores in one question."""

    n: int
    """Rows with a verdict of yes or no and an official score."""
    n_unfilled: int
    n_unclear: int
    n_without_score: int
    """Rows without an official score to agree with, e.g. of a run without a reader."""
    n_agree: int
    agreement_interval: Interval | None
    """Wilson, 95 %."""
    kappa: Agreement
    """Cohen's, official against person."""
    kappa_repaired: Agreement
    """The same for the repaired scores."""
    n_too_generous: int
    """The official score says right, the person no."""
    n_too_strict: int
    """The official score says wrong, the person yes."""
    p_one_sided: float
    """Sign test, exact and two-sided, of as many too generous as too strict."""
    weighted_agreement: float | None
    """Estimate for the run; None without a row."""
    weighted_interval: Interval | None
    weighted_kappa: float | None
    weighted_right_by_person: float | None
    """Share that the person calls right, estimated for the run."""
    weighted_right_officially: float | None
    """Share that the official score calls right, over the same rows and weights."""

    @property
    def agreement(self) -> float | None:
        """Share of agreement in the sample; None without a row."""
        return self.n_agree / self.n if self.n else None

    def as_json(self) -> dict[str, Any]:
        """Give the fields as a JSON object."""
        return {**asdict(self), "agreement": self.agreement}


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What a filled-in sheet says."""

    n_rows: int
    n_untouched: int
    """Rows without any verdict."""
    aspects: dict[Aspect, AspectAgreement]
    kinds: dict[str, int]
    """Rows with a disagreement, by the kind that the person gave; "(none given)" without one."""
    cells_without_verdict: tuple[str, ...]
    """Cells of the sample for which no final answer is judged: weighted figures leave them out."""

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "n_rows": self.n_rows,
            "n_untouched": self.n_untouched,
            "aspects": {name: aspect.as_json() for name, aspect in self.aspects.items()},
            "kinds": self.kinds,
            "cells_without_verdict": list(self.cells_without_verdict),
        }


def read_audit(path: Path) -> AuditResult:
    """Read a sheet that is filled in, wholly or in part.

    Raises:
        DataError: the file cannot be used; the message names row and column.
    """
    rows = [_read_row(path, number, cells) for number, cells in read_sheet(path, _NEEDED)]
    if not rows:
        raise DataError(f"{path} has no rows under its header")
    seen: dict[str, int] = {}
    for row in rows:
        if row.question_id in seen:
            raise DataError(
                f"{path}, row {row.number}, column question_id: {row.question_id!r} stands in row "
                f"{seen[row.question_id]} already"
            )
        seen[row.question_id] = row.number
    judged_cells = {row.cell for row in rows if row.verdicts["final_correct"] in ("yes", "no")}
    kinds = Counter(row.kind or "(none given)" for row in rows if row.disagrees)
    return AuditResult(
        n_rows=len(rows),
        n_untouched=sum(not any(row.verdicts.values()) for row in rows),
        aspects={aspect: _agreement(rows, aspect) for aspect in _OFFICIAL_OF},
        kinds=dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
        cells_without_verdict=tuple(sorted({row.cell for row in rows} - judged_cells)),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the sheet, read."""

    number: int
    question_id: str
    cell: str
    cell_size: int
    verdicts: dict[Aspect, Verdict | None]
    """None: not filled in."""
    kind: Kind | None
    scores: dict[str, bool | None]
    """By column: whether the score is above 0; None without one."""

    def official(self, aspect: Aspect) -> bool | None:
        """Tell what the official score says."""
        return self.scores[_OFFICIAL_OF[aspect]]

    def person(self, aspect: Aspect) -> bool | None:
        """Tell what the person says; None: nothing, or unclear."""
        verdict = self.verdicts[aspect]
        return verdict == "yes" if verdict in ("yes", "no") else None

    @property
    def disagrees(self) -> bool:
        """Whether the person contradicts a score of either answer."""
        return any(
            None not in (self.official(aspect), self.person(aspect))
            and self.official(aspect) != self.person(aspect)
            for aspect in ("final_correct", "memory_correct")
        )


def _read_row(path: Path, number: int, cells: Mapping[str, str]) -> _Row:
    where = f"{path}, row {number}, column"
    kind = cells["kind"].strip().lower().replace(" ", "_")
    if kind and kind not in KINDS:
        raise DataError(f"{where} kind: {cells['kind']!r} is none of: {', '.join(KINDS)}")
    size = cells["cell_size"].strip().removesuffix(".0")
    if not size.isdecimal() or int(size) < 1:
        raise DataError(f"{where} cell_size: {size!r} is no count of at least 1")
    return _Row(
        number=number,
        question_id=cells["question_id"],
        cell=cells["cell"].strip(),
        cell_size=int(size),
        verdicts={aspect: _read_verdict(where, aspect, cells[aspect]) for aspect in _OFFICIAL_OF},
        kind=next((known for known in KINDS if known == kind), None),
        scores={name: _read_score(where, name, cells[name]) for name in SCORE_COLUMNS},
    )


def _read_verdict(where: str, column: str, text: str) -> Verdict | None:
    if not text.strip():
        return None
    verdict = _VERDICTS.get(text.strip().lower())
    if verdict is None:
        raise DataError(f"{where} {column}: {text!r} is none of: yes, no, unclear, or empty")
    return verdict


def _read_score(where: str, column: str, text: str) -> bool | None:
    if not text.strip():
        return None
    try:
        score = float(text.strip().replace(",", "."))
    except ValueError:
        score = math.nan
    if not 0 <= score <= 1:
        raise DataError(f"{where} {column}: {text!r} is no score in [0, 1]; leave it as it was")
    return score > 0


def _agreement(rows: Sequence[_Row], aspect: Aspect) -> AspectAgreement:
    scored = [row for row in rows if row.official(aspect) is not None]
    judged = [row for row in scored if row.person(aspect) is not None]
    official = [row.official(aspect) for row in judged]
    person = [row.person(aspect) for row in judged]
    repaired = [row.scores[_REPAIRED_OF[aspect]] for row in judged]
    agree = [one == other for one, other in zip(official, person, strict=True)]
    n_generous = sum(bool(o) and not p for o, p in zip(official, person, strict=True))
    n_strict = sum(bool(p) and not o for o, p in zip(official, person, strict=True))
    weights = _weights(judged)
    share = _weighted_share(agree, weights)
    by_person = _weighted_share([bool(p) for p in person], weights)
    by_score = _weighted_share([bool(o) for o in official], weights)
    return AspectAgreement(
        n=len(judged),
        n_unfilled=sum(row.verdicts[aspect] is None for row in scored),
        n_unclear=sum(row.verdicts[aspect] == "unclear" for row in scored),
        n_without_score=len(rows) - len(scored),
        n_agree=sum(agree),
        agreement_interval=wilson_interval(sum(agree), len(judged)),
        kappa=cohen_kappa(official, person),
        kappa_repaired=cohen_kappa(repaired, person),
        n_too_generous=n_generous,
        n_too_strict=n_strict,
        p_one_sided=sign_test(n_generous, n_strict),
        weighted_agreement=share,
        weighted_interval=_effective_wilson(share, weights),
        weighted_kappa=_weighted_kappa(share, by_score, by_person),
        weighted_right_by_person=by_person,
        weighted_right_officially=by_score,
    )


def _weights(judged: Sequence[_Row]) -> list[float]:
    """Weight each row by how many questions of its cell it stands for."""
    n_judged = Counter(row.cell for row in judged)
    return [row.cell_size / n_judged[row.cell] for row in judged]


def _weighted_share(flags: Sequence[bool], weights: Sequence[float]) -> float | None:
    if not weights:
        return None
    return math.fsum(w for flag, w in zip(flags, weights, strict=True) if flag) / math.fsum(weights)


def _weighted_kappa(
    observed: float | None, by_score: float | None, by_person: float | None
) -> float | None:
    """Return Cohen's kappa of weighted shares; None where chance would agree on everything."""
    if observed is None or by_score is None or by_person is None:
        return None
    expected = by_score * by_person + (1 - by_score) * (1 - by_person)
    return None if expected > 1 - 1e-12 else (observed - expected) / (1 - expected)


def _effective_wilson(
    share: float | None, weights: Sequence[float], level: float = 0.95
) -> Interval | None:
    """Return Wilson's interval of a weighted share, for Kish's effective number of rows."""
    if share is None:
        return None
    n = math.fsum(weights) ** 2 / math.fsum(w * w for w in weights)
    z = STANDARD_NORMAL.inv_cdf(0.5 + level / 2)
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    return Interval(max(0.0, centre - half), min(1.0, centre + half), level)
