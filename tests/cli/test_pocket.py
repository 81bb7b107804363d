"""`awm pocket`: what a user is told."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from awm.cli import pocket
from awm.cli.main import app


def test_an_interrupted_training_says_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(module: str, extra: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pocket, "require", interrupt)
    result = CliRunner().invoke(app, ["pocket", "train", "--out", "models"])

    assert result.exit_code == 130
    told = " ".join(result.stderr.split())
    assert "Nothing is kept before the end of a stage: the policy is written before" in told


def test_the_help_of_pool_says_what_the_folders_are() -> None:
    result = CliRunner().invoke(app, ["pocket", "pool", "--help"], env={"COLUMNS": "250"})

    assert "awm pocket reproduce --seed S --out FOLDER" in result.stdout
