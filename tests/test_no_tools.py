"""A model that never calls a tool is pointed out: it looks like a result, and is a set-up fault."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from awm.cli.main import app
from towns import write_corpus, write_reader, write_script


def run(folder: Path, agent: Path) -> str:
    reader = write_reader(folder / "reader.jsonl", 4)
    arguments = ["eval", "--benchmark", "jsonl", "--data", str(folder / "corpus")]
    arguments += ["--model", f"scripted:{agent}", "--reader", f"scripted:{reader}"]
    return CliRunner().invoke(app, [*arguments, "--run", str(folder / "run")]).output


def test_episodes_that_looked_at_no_page_are_counted_in_the_summary(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", 4)
    prose = write_script(tmp_path / "prose.jsonl", {}, default=["I would look it up."])

    output = " ".join(run(tmp_path, prose).split())

    assert "4 of 4 episodes looked at no page at all: does the server parse tool calls?" in output
