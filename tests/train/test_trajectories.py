"""What is imitated: chosen by outcome, said once, with the very pages that the agent saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from training_world import make_run

from awm.errors import ConfigError, DataError
from awm.models.chat import count_images
from awm.scoring.outcome import Outcome
from awm.train.config import PolicySettings, SFTSettings
from awm.train.dataset import TrajectorySet


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("teacher"), generic=[1, 3], clumsy=[2])


def chosen(*runs: Path, **changes: Any) -> TrajectorySet:
    values: dict[str, Any] = {
        "policy": PolicySettings(path="unused"),
        "out": Path("unused"),
        "runs": runs,
    }
    return TrajectorySet(SFTSettings(**{**values, **changes}))


def test_the_kept_cell_without_refusals_is_imitated(run: Path) -> None:
    selection = chosen(run).selection

    assert len(selection.trajectories) == 3
    assert selection.n_left_out == {
        "memory_missing_correct": 2,
        "with more than 0 refusals": 1,
    }
    assert "3 trajectories kept; left out: " in selection.describe()


def test_other_cells_and_refusals_can_be_kept(run: Path) -> None:
    cells = (Outcome.MEMORY_SUPPORTED_CORRECT, Outcome.MEMORY_MISSING_CORRECT)

    assert len(chosen(run, keep=cells, max_refusals=1).selection.trajectories) == 6


def test_what_was_said_before_is_imitated_once(run: Path) -> None:
    selection = chosen(run, run).selection

    assert len(selection.trajectories) == 3
    assert selection.n_left_out["said before, word by word"] == 3


def test_the_pages_are_drawn_again_as_the_agent_saw_them(run: Path) -> None:
    trajectories = chosen(run)
    for trajectory in trajectories.selection.trajectories:
        messages = trajectories.messages(trajectory)
        recorded = [b.image for m in trajectory.messages for b in m.content if b.image]
        assert count_images(messages) == 3
        assert [b.image.digest for m in messages for b in m.images] == recorded
        assert [m.role for m in messages] == [m.role for m in trajectory.messages]


def edit_manifest(run: Path, folder: Path, **settings: Any) -> Path:
    """Copy a run and change settings of its manifest."""
    folder.mkdir()
    for path in run.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["settings"] |= settings
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def test_a_page_that_is_drawn_differently_is_refused(run: Path, tmp_path: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    render = manifest["settings"]["render"] | {"jpeg_quality": 40}
    trajectories = chosen(edit_manifest(run, tmp_path / "run", render=render))

    with pytest.raises(DataError, match=r"page \d+ of 'pocket-5-\d' gives the image"):
        trajectories.messages(trajectories.selection.trajectories[0])


def test_another_document_under_the_same_name_is_refused(run: Path, tmp_path: Path) -> None:
    trajectories = chosen(edit_manifest(run, tmp_path / "run", benchmark="pocket-blank"))

    with pytest.raises(DataError, match=r"is not the file that .* read"):
        trajectories.messages(trajectories.selection.trajectories[0])


def test_nothing_left_says_why(run: Path) -> None:
    with pytest.raises(ConfigError, match="4 memory_supported_correct, 2 memory_missing"):
        chosen(run, keep=(Outcome.UNRESOLVED_ERROR,))


def test_a_run_without_tools_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the setting 'rag', which has no tools"):
        chosen(edit_manifest(run, tmp_path / "run", setting="rag"))
