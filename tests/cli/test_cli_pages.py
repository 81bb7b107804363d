"""docs/cli.md names every command and option, so that it cannot fall behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from rich.text import Text

from awm.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def commands(command: object, name: str) -> Iterator[tuple[str, list[str]]]:
    """Give every command's full name with its long options."""
    options = [
        option
        for parameter in getattr(command, "params", [])
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--") and not getattr(parameter, "hidden", False)
    ]
    yield name, options
    for sub_name, sub in getattr(command, "commands", {}).items():
        yield from commands(sub, f"{name} {sub_name}")


@pytest.mark.parametrize(("name", "options"), list(commands(typer.main.get_command(app), "awm")))
def test_the_page_shows_the_command_with_its_options(name: str, options: list[str]) -> None:
    heading = f"`{name}`\n"
    assert heading in PAGE, "run scripts/make_cli_docs.py"
    section = PAGE.partition(heading)[2].partition("\n## ")[0]
    missing = [option for option in options if option not in section]
    assert not missing, f"{name}: {missing} are not on the page; run scripts/make_cli_docs.py"


def help_texts(command: object, name: str) -> Iterator[tuple[str, str]]:
    """Give every help text of a command, of its options and of its commands."""
    for text in (getattr(command, "help", None), getattr(command, "epilog", None)):
        yield name, text or ""
    for parameter in getattr(command, "params", []):
        yield f"{name} {parameter.name}", getattr(parameter, "help", None) or ""
    for sub_name, sub in getattr(command, "commands", {}).items():
        yield from help_texts(sub, f"{name} {sub_name}")


def test_no_help_text_loses_a_bracketed_word_to_markup() -> None:
    lost = [
        (name, word)
        for name, text in help_texts(typer.main.get_command(app), "awm")
        for word in re.findall(r"\[[^\]]+\]", text)
        if word not in Text.from_markup(text).plain
    ]

    assert not lost, "write these words without brackets, or escape them"
