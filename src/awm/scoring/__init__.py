"""Scoring: official judges that execute nothing, extraction, and the outcome cells."""

from __future__ import annotations

from awm.scoring.longdocurl import LongDocURLJudge
from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge
from awm.scoring.score import Judge

JUDGES: dict[str, Judge] = {
    judge.name: judge for judge in (MMLongBenchDocJudge(), LongDocURLJudge())
}
"""The judges by their names on the command line."""
