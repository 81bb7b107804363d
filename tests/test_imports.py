"""`import awm` is light, and all that it names is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import awm

STATEMENTS = ("import awm", "import awm.cli.app", "import awm.agent.episode, awm.agent.reader")
HEAVY = {"torch", "transformers", "trl", "verl", "ray", "vllm", "fastapi", "openai", "pandas"}


def loaded_by(statement: str) -> set[str]:
    """Run a statement in a fresh interpreter and give the modules that are loaded after it."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return set(ran.stdout.split())


@pytest.mark.parametrize("statement", STATEMENTS)
def test_nothing_heavy_is_imported(statement: str) -> None:
    assert loaded_by(statement) & HEAVY == set()


@pytest.mark.parametrize("statement", STATEMENTS[1:])
def test_scipy_is_not_imported(statement: str) -> None:
    assert loaded_by(statement) & {"scipy", "statsmodels"} == set()


def test_importing_awm_loads_none_of_its_parts() -> None:
    assert {name for name in loaded_by("import awm") if name.startswith("awm.")} == set()


def test_the_entry_point_loads_no_command_before_it_can_be_interrupted() -> None:
    loaded = loaded_by("import awm.cli.main")

    assert {name for name in loaded if name.startswith("awm.")} == {"awm.cli", "awm.cli.main"}


@pytest.mark.parametrize("name", awm.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(awm, name) is not None
    assert name in dir(awm)


def test_the_public_surface_stays_small() -> None:
    assert len(awm.__all__) == len(set(awm.__all__)) <= 25


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Workingmemory'"):
        awm.Workingmemory  # noqa: B018
