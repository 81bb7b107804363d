"""`awm runs export`: what it writes and says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from awm.cli.main import app


def awm(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = awm("demo", "--run", "demo")
    assert result.exit_code == 0, result.output
    return tmp_path / "demo"


def test_an_export_says_what_it_wrote_and_whose_it_is(run: Path) -> None:
    result = awm("runs", "export", run, "--to", "jsonl", "--out", "out", "--images")

    assert result.exit_code == 0, result.output
    assert "20 trajectories in out/trajectories.jsonl" in result.stdout
    assert "The content is the benchmark's: read out/README.md first." in result.stdout
    assert len((Path("out") / "trajectories.jsonl").read_text().splitlines()) == 20
    assert any((Path("out") / "images").iterdir())


def test_json_is_one_object(run: Path) -> None:
    result = awm("runs", "export", run, "--to", "jsonl", "--out", "out", "--json")

    facts = json.loads(result.stdout)
    assert (facts["n_rows"], facts["n_images"]) == (20, None)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("demo", "--to", "csv", "--out", "out"), 2, "'csv' is none of: jsonl, parquet, hf"),
        (("demo", "--to", "jsonl", "--out", "demo"), 2, "is not empty"),
        (("nowhere", "--to", "jsonl", "--out", "out"), 3, "is not a run"),
    ],
)
def test_what_cannot_be_exported_is_said(
    run: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = awm("runs", "export", *arguments)

    assert result.exit_code == code
    assert message in " ".join(result.stderr.split())
