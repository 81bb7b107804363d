"""The command line as a whole: help, version, `python -m awm`."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import metadata

import pytest
from typer.testing import CliRunner

from awm.benchmarks import BENCHMARKS, GENERATED
from awm.cli.eval import evaluate_command
from awm.cli.main import app

COMMANDS = ["ask", "eval", "show", "score", "demo"]


def test_the_help_lists_every_command_and_exit_code() -> None:
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "300"})

    assert result.exit_code == 0
    for command in COMMANDS:
        assert f" {command} " in result.stdout
    for code in ("0 done", "2 the command line", "3 a document", "4 a model", "5 the run", "130 "):
        assert code in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_page(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})

    assert result.exit_code == 0
    assert f"Usage: awm {command}" in result.stdout.replace("root", "awm")


def test_an_evaluation_has_the_documented_flags() -> None:
    result = CliRunner().invoke(app, ["eval", "--help"], env={"COLUMNS": "200"})

    for flag in (
        *("--benchmark", "--data", "--model", "--reader", "--extractor", "--setting", "--limit"),
        *("--concurrency", "--run", "--json", "--config", "--set"),
    ):
        assert flag in result.stdout


@pytest.mark.parametrize("command", ["eval", "check"])
def test_every_benchmark_stands_in_the_help(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "250"})

    for name in ("demo", *GENERATED, *BENCHMARKS):
        assert re.search(rf"[ ,]{name}[ ,.]", result.stdout)


def test_it_runs_as_a_module_and_says_its_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "awm", "--version"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"awm {metadata.version('awm')}\n"


def test_the_paragraphs_of_a_help_page_flow_to_the_terminal_s_width() -> None:
    result = CliRunner().invoke(app, ["eval", "--help"], env={"COLUMNS": "200"})

    written = inspect.getdoc(evaluate_command)
    assert written is not None
    assert "\n" in written.split("\n\n")[1]
    assert " ".join(written.split("\n\n")[1].split()) in result.stdout


def test_an_interrupt_while_the_commands_load_ends_it_quietly() -> None:
    # The interrupt comes at a fixed point: when the first command is about to be imported.
    script = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "awm.cli.ask":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from awm.cli.main import main
sys.argv = ["awm", "demo"]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_without_a_command_it_shows_its_help() -> None:
    assert "Usage: " in CliRunner().invoke(app, []).output


def test_an_unknown_command_is_refused() -> None:
    result = CliRunner().invoke(app, ["evaluate"])

    assert result.exit_code == 2
    assert "No such command 'evaluate'" in result.stderr
