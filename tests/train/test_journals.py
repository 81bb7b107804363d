"""A resumed training writes the curve that an uninterrupted one would have written."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_world import grpo_settings

from awm.errors import RunMismatchError
from awm.train.journals import TrainingJournals, newest_checkpoint
from awm.train.metrics import TrainingRecord, summarise
from awm.train.reward import ScoredTrajectory


def record(step: int) -> TrainingRecord:
    one = ScoredTrajectory("q", 1.0, 1.0, 1.0, {}, 0, 3, 1, 3, is_answered=True)
    return summarise([one] * 4, 4, step)


def checkpoint(folder: Path, step: int, *, is_whole: bool = True) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    if is_whole:
        (path / "trainer_state.json").write_text("{}", encoding="utf-8")
    return path


def test_records_after_the_checkpoint_are_cut_off_on_resume(tmp_path: Path) -> None:
    settings = grpo_settings(tmp_path / "policy", tmp_path / "out")
    journals = TrainingJournals(settings.out, settings)
    for step in (1, 2, 3):
        journals.append("train", record(step))
    journals.append("eval", record(0))
    journals.append("eval", record(3))
    journals.close()
    checkpoint(settings.out, 2)

    resumed = TrainingJournals(settings.out, settings)

    assert resumed.checkpoint == settings.out / "checkpoint-2"
    assert [r.step for r in resumed.read("train")] == [1, 2]
    assert [r.step for r in resumed.read("eval")] == [0]
    resumed.append("train", record(3))
    assert [r.step for r in resumed.read("train")] == [1, 2, 3]
    resumed.close()


def test_without_a_checkpoint_a_training_begins_anew(tmp_path: Path) -> None:
    settings = grpo_settings(tmp_path / "policy", tmp_path / "out")
    journals = TrainingJournals(settings.out, settings)
    journals.append("train", record(1))
    journals.close()

    again = TrainingJournals(settings.out, settings)

    assert again.checkpoint is None
    assert again.read("train") == []
    again.close()


def test_a_checkpoint_whose_writing_was_interrupted_does_not_count(tmp_path: Path) -> None:
    whole = checkpoint(tmp_path, 9)
    checkpoint(tmp_path, 10, is_whole=False)

    assert newest_checkpoint(tmp_path) == whole


def test_other_settings_do_not_go_on_in_the_same_folder(tmp_path: Path) -> None:
    settings = grpo_settings(tmp_path / "policy", tmp_path / "out")
    TrainingJournals(settings.out, settings).close()

    longer = settings.model_copy(update={"steps": 9})
    TrainingJournals(settings.out, longer).close()
    with pytest.raises(RunMismatchError, match=r"learning_rate: 0\.001 -> 0\.1"):
        TrainingJournals(settings.out, settings.model_copy(update={"learning_rate": 0.1}))
