"""The paper's comparison in the pocket world: `awm pocket reproduce`.

From one imitation checkpoint, answer-only GRPO and AWM-GRPO with the same questions, budget and
random seed; then the checkpoint and both policies answer the same unseen questions at temperature
1. Everything can be interrupted and goes on where it was.

`reproduce` needs the extras `local` and `train`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from pydantic import BaseModel, ConfigDict

from awm._extras import require
from awm.analysis.statistics.intervals import wilson_interval
from awm.evaluate import EvalSettings, evaluate
from awm.models.chat import ModelSettings
from awm.models.pocket import pocket_weights
from awm.pocket import grpo as pocket
from awm.rl.reward import RewardKind, RewardSettings
from awm.runs import Journal, open_run, write_atomically
from awm.scoring.outcome import OutcomeCounts, count_outcomes
from awm.train.config import DataSource, GRPOSettings, PolicySettings
from awm.train.metrics import TrainingRecord

_log = logging.getLogger(__name__)
_FROZEN = ConfigDict(frozen=True, extra="forbid")

ARMS: tuple[RewardKind, ...] = ("answer_only", "awm")


class ArmResult(BaseModel):
    """One policy on the unseen questions, at temperature 1."""

    model_config = _FROZEN

    name: str
    """before, answer_only or awm."""
    n: int
    """Questions with both scores."""
    n_unmeasured: int
    accuracy: float
    """Share of final answers with a score above 0."""
    accuracy_interval: tuple[float, float]
    """Wilson, 95 %."""
    memory_accuracy: float
    p_mmc: float | None
    p_mmc_interval: tuple[float, float] | None
    cells: dict[str, int]
    groups_with_signal: float | None = None
    """Of the training: groups of a step in which two rewards differ, mean over the steps; None
    where nothing was trained."""


class Reproduction(BaseModel):
    """A pair of trainings."""

    model_config = _FROZEN

    seed: int
    test_seed: int
    steps: int
    arms: tuple[ArmResult, ...]


def pocket_grpo_settings(
    kind: RewardKind,
    seed: int,
    out: Path,
    *,
    policy: Path,
    reader: str = "pocket",
    steps: int = pocket.STEPS,
    n_curve: int = pocket.N_CURVE,
) -> GRPOSettings:
    """Give the settings of an arm; `kind` and `out` are all that differs between two."""
    return GRPOSettings(
        policy=PolicySettings(path=str(policy), dtype="float32"),
        out=out,
        train=DataSource(
            benchmark="pocket-train", seed=seed, limit=pocket.QUESTIONS_PER_STEP * steps
        ),
        evaluation=DataSource(benchmark="pocket", seed=pocket.CURVE_SEED, limit=n_curve),
        evaluate_every=pocket.EVALUATE_EVERY,
        reader=ModelSettings(spec=reader),
        reward=RewardSettings(kind=kind),
        learning_rate=pocket.LEARNING_RATE,
        seed=seed,
        steps=steps,
        questions_per_step=pocket.QUESTIONS_PER_STEP,
        group_size=pocket.GROUP_SIZE,
        micro_batch=pocket.QUESTIONS_PER_STEP * pocket.GROUP_SIZE,
        max_completion_tokens=pocket.MAX_COMPLETION_TOKENS,
        max_turn_tokens=pocket.MAX_TURN_TOKENS,
        save_every=20,
        keep_checkpoints=1,
    )


def reproduce(
    seed: int,
    out: Path,
    *,
    weights: Path | None = None,
    steps: int = pocket.STEPS,
    n_test: int = pocket.N_TEST,
    n_curve: int = pocket.N_CURVE,
    threads: int = 1,
    arms: tuple[RewardKind, ...] = ARMS,
    tell: Callable[[str], None] = _log.info,
) -> Reproduction:
    """Train the arms from one checkpoint, and compare them on unseen questions.

    Args:
        seed: of the trainings; another seed has other training questions.
        out: folder of everything; resumed where it exists.
        weights: folder with `policy` and `reader`; None: those that ship with AWM.
        steps: updates of each arm.
        n_test: unseen questions of the comparison.
        n_curve: held-out questions of each point of the curve.
        threads: of torch.
        arms: which rewards to train.
        tell: told what happens.
    """
    torch = require("torch", "local")
    require("trl", "train")
    from awm.train.grpo import run_grpo

    torch.set_num_threads(threads)
    folder = weights or pocket_weights()
    reader = f"pocket:{folder}" if weights else "pocket"
    results = [measure("before", folder / "policy", reader, out / "eval-before", n_test)]
    tell(describe(results[-1]))
    for kind in arms:
        settings = pocket_grpo_settings(
            kind,
            seed,
            out / kind,
            policy=folder / "policy",
            reader=reader,
            steps=steps,
            n_curve=n_curve,
        )
        final = settings.out / "final"
        if not (final / "config.json").is_file():
            run_grpo(settings, tell)
        result = measure(kind, final, reader, out / f"eval-{kind}", n_test)
        steps_made = list(Journal(settings.out / "steps.jsonl", TrainingRecord).read())
        signal = fmean(record.groups.n_groups_with_signal for record in steps_made)
        results.append(result.model_copy(update={"groups_with_signal": round(signal, 2)}))
        tell(describe(results[-1]))
    reproduction = Reproduction(
        seed=seed, test_seed=pocket.TEST_SEED, steps=steps, arms=tuple(results)
    )
    written = reproduction.model_dump_json(indent=2).encode() + b"\n"
    write_atomically(out / "comparison.json", written)
    return reproduction


def measure(name: str, policy: Path, reader: str, run: Path, n_test: int) -> ArmResult:
    """Let a policy answer the unseen questions at temperature 1."""
    settings = EvalSettings(
        benchmark="pocket",
        seed=pocket.TEST_SEED,
        limit=n_test,
        run=run,
        model=ModelSettings(
            spec=f"transformers:{policy}",
            temperature=1.0,
            seed=0,
            max_tokens=pocket.MAX_TURN_TOKENS,
        ),
        reader=ModelSettings(spec=reader),
        concurrency=64,
    )
    run.parent.mkdir(parents=True, exist_ok=True)
    asyncio.run(evaluate(settings))
    return _result(name, count_outcomes(r.outcome for r in open_run(run).final_scores()))


def _result(name: str, cells: OutcomeCounts) -> ArmResult:
    answerable = cells.memory_supported_correct + cells.answering_error
    return ArmResult(
        name=name,
        n=cells.n,
        n_unmeasured=cells.n_unmeasured,
        accuracy=cells.n_correct / cells.n,
        accuracy_interval=_interval(cells.n_correct, cells.n) or (0.0, 1.0),
        memory_accuracy=answerable / cells.n,
        p_mmc=cells.p_mmc,
        p_mmc_interval=_interval(cells.memory_missing_correct, cells.n_correct),
        cells=cells.as_dict(),
    )


def _interval(n_successes: int, n_trials: int) -> tuple[float, float] | None:
    found = wilson_interval(n_successes, n_trials)
    return (round(found.low, 4), round(found.high, 4)) if found else None


def describe(result: ArmResult) -> str:
    """Say a result in a line."""
    p_mmc = (
        "—" if result.p_mmc is None else f"{result.p_mmc:.3f} {list(result.p_mmc_interval or ())}"
    )
    signal = result.groups_with_signal
    learned = "" if signal is None else f", groups with signal {signal:.1f} a step"
    return (
        f"{result.name}: accuracy {result.accuracy:.3f} {list(result.accuracy_interval)}, "
        f"memory-only {result.memory_accuracy:.3f}, P_mmc {p_mmc} (n = {result.n}, "
        f"unmeasured {result.n_unmeasured}){learned}"
    )
