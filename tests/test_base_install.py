"""The base install: no extra is there, and everything that does not name one works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITHOUT_EXTRAS = """
import sys
for name in (
    "torch", "transformers", "tokenizers", "safetensors", "trl", "peft", "accelerate", "datasets",
    "matplotlib", "pyarrow", "pandas", "scipy",
):
    sys.modules[name] = None  # an import of it now fails, as if it were not installed
from awm.cli.main import main
sys.argv = ["awm", *sys.argv[1:]]
main()
"""


def _awm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_demo_needs_no_extra(tmp_path: Path) -> None:
    done = _awm("demo", "--run", str(tmp_path / "run"))

    assert done.returncode == 0, done.stderr
    assert "P_mmc" in done.stdout


def test_the_simulation_needs_no_extra_without_its_figure() -> None:
    done = _awm("simulate", "--mixture", "0.4,0.2,0.1,0.3", "--json")

    assert done.returncode == 0, done.stderr
    assert '"awm"' in done.stdout


def test_a_training_names_the_extra_that_it_needs() -> None:
    done = _awm("pocket", "reproduce", "--seed", "0", "--out", "anywhere")

    assert done.returncode == 2
    assert "pip install -e '.[" in done.stderr
    assert "Traceback" not in done.stderr
