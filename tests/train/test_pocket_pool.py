"""Pairs of several seeds become one comparison with intervals over seeds and documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from awm.cli.main import app
from awm.errors import RunMismatchError, RunStoreError
from awm.rl.advantage import StepSummary
from awm.runs import Journal
from awm.scoring.outcome import Outcome
from awm.train.metrics import TrainingRecord
from awm.train.pocket import ArmResult, Reproduction
from awm.train.pocket_pool import pool_reproductions
from made_runs import Made, make_run

RIGHT = {"before": (8, 4), "answer_only": (8, 5), "awm": (9, 9)}
"""Of ten questions of ten documents: right final answers, and right memories among those."""


def _record(step: int, p_mmc: float | None) -> TrainingRecord:
    zero = dict.fromkeys(Outcome, 0)
    groups = StepSummary(
        n_groups=1,
        n_groups_with_signal=0,
        n_groups_with_answer_only_signal=0,
        n_trajectories=1,
        n_unmeasured=0,
        cells=zero,
        mean_reward=None,
        mean_reward_by_cell=dict.fromkeys(Outcome),
        mean_advantage_by_cell=dict.fromkeys(Outcome),
    )
    return TrainingRecord(
        step=step,
        final_accuracy=0.8,
        memory_accuracy=0.5,
        p_mmc=p_mmc,
        refusals=0,
        images=3,
        findings=1,
        turns=3,
        answered_share=1,
        cut_share=0,
        groups=groups,
    )


def _pair(folder: Path, seed: int, *, steps: int = 40, n: int = 10, shift: int = 0) -> Path:
    """Write what a finished pair leaves: three runs, two curves and the comparison."""
    arms = []
    for name, (n_right, n_stated) in RIGHT.items():
        stated = n_stated - shift * (name != "before")
        rows = [
            Made(
                f"q{i}",
                f"d{i}",
                "right",
                "right" if i < n_right else "wrong",
                "right" if i < stated else "wrong",
            )
            for i in range(n)
        ]
        make_run(folder / f"eval-{name}", rows)
        if name != "before":
            (folder / name).mkdir()
            curve = Journal(folder / name / "curve.jsonl", TrainingRecord)
            curve.open()
            for step in (0, steps):
                curve.append(_record(step, 0.5 if name == "answer_only" or not step else 0.1))
            curve.close()
        arms.append(
            ArmResult(
                name=name,
                n=n,
                n_unmeasured=0,
                accuracy=n_right / n,
                accuracy_interval=(0, 1),
                memory_accuracy=stated / n,
                p_mmc=(n_right - stated) / n_right,
                p_mmc_interval=(0, 1),
                cells={},
                groups_with_signal={"before": None, "answer_only": 2.0, "awm": 5.0 + seed}[name],
            )
        )
    pair = Reproduction(seed=seed, test_seed=1234, steps=steps, arms=tuple(arms))
    (folder / "comparison.json").write_text(pair.model_dump_json())
    return folder


@pytest.fixture
def pairs(tmp_path: Path) -> list[Path]:
    return [_pair(tmp_path / f"pair-{seed}", seed, shift=seed % 2) for seed in range(3)]


def test_figures_are_pooled_over_seeds_and_the_checkpoint_counts_once(pairs: list[Path]) -> None:
    pool = pool_reproductions(pairs)
    before, answer_only, awm = pool.arms

    assert pool.seeds == (0, 1, 2)
    assert before.figures["p_mmc"].value == 4 / 8
    assert before.figures["p_mmc"].method.startswith("cluster")  # one policy, no seeds
    assert answer_only.figures["p_mmc"].value == pytest.approx((3 + 4 + 3) / 24)
    assert awm.figures["p_mmc"].value == pytest.approx((0 + 1 + 0) / 27)
    assert awm.figures["accuracy"].value == pytest.approx(0.9)
    assert pool.differences["accuracy"].value == pytest.approx(0.1)
    assert pool.differences["p_mmc"].value == pytest.approx(1 / 27 - 10 / 24)
    assert pool.gaps == {
        0: pytest.approx(-3 / 8),
        1: pytest.approx(1 / 9 - 4 / 8),
        2: pytest.approx(-3 / 8),
    }
    assert (before.groups_with_signal, awm.groups_with_signal) == (None, 6.0)
    for figure in awm.figures.values():
        assert figure.interval is not None
        assert figure.value is not None
        assert figure.interval.low <= figure.value <= figure.interval.high
    assert [(curve.arm, curve.seed, len(curve.records)) for curve in pool.curves] == [
        (arm, seed, 2) for arm in ("answer_only", "awm") for seed in range(3)
    ]


def test_the_command_prints_the_pool_and_draws_the_curves(
    pairs: list[Path], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the extra `figures` is not installed")
    figure = tmp_path / "curves.svg"
    done = CliRunner().invoke(
        app, ["pocket", "pool", *map(str, pairs), "--figure", str(figure), "--json"]
    )

    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["seeds"] == [0, 1, 2]
    assert [arm["name"] for arm in told["arms"]] == ["before", "answer_only", "awm"]
    assert told["awm_minus_answer_only"]["p_mmc"]["interval"]["high"] < 1
    assert "AWM-GRPO" in figure.read_text()

    table = CliRunner().invoke(app, ["pocket", "pool", *map(str, pairs)])
    assert "P_mmc, AWM minus answer-only, by seed: 0: -0.375" in table.stdout


def test_two_seeds_are_pooled_with_a_warning(pairs: list[Path]) -> None:
    done = CliRunner().invoke(app, ["pocket", "pool", *map(str, pairs[:2])], env={"COLUMNS": "200"})

    assert "Two seeds say little about others" in done.stdout


def test_pairs_that_do_not_belong_together_are_refused(pairs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match="at least two seeds"):
        pool_reproductions(pairs[:1])
    with pytest.raises(RunMismatchError, match="seed 0 is given twice"):
        pool_reproductions([pairs[0], pairs[0]])
    with pytest.raises(RunMismatchError, match="pair-long made 80 steps"):
        pool_reproductions([pairs[0], _pair(tmp_path / "pair-long", 9, steps=80)])
    with pytest.raises(RunMismatchError, match="asked other questions than"):
        pool_reproductions([pairs[0], _pair(tmp_path / "pair-wide", 8, n=12)])


def test_a_pair_that_is_not_finished_is_named(pairs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "half" / "eval-before").mkdir(parents=True)
    with pytest.raises(
        RunStoreError, match=r"half holds no finished pair .*--seed S --out \S*half"
    ):
        pool_reproductions([pairs[0], tmp_path / "half"])
    (tmp_path / "half" / "comparison.json").write_text('{"seed": 3}')
    with pytest.raises(RunStoreError, match="is no comparison of awm pocket reproduce"):
        pool_reproductions([pairs[0], tmp_path / "half"])


def test_what_is_no_pair_at_all_is_said_to_be_none(pairs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text("{}")
    with pytest.raises(RunStoreError, match=r"run is no pair of awm pocket reproduce"):
        pool_reproductions([pairs[0], tmp_path / "run"])
    with pytest.raises(RunStoreError, match=r"manifest\.json is no pair of awm pocket reproduce"):
        pool_reproductions([pairs[0], tmp_path / "run" / "manifest.json"])
    with pytest.raises(RunStoreError, match=r"nowhere does not exist; name folders that"):
        pool_reproductions([pairs[0], tmp_path / "nowhere"])
