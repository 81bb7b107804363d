from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PRINTED = {
    "02_diagnose_langgraph.py": ["'memory_missing_correct': 1", "P_mmc: 0.5", "gold: 0.5"],
    "03_diagnose_smolagents.py": ["final-answer accuracy: 1.0", "memory-only accuracy: 0.5"],
}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("[0-9]*.py")), ids=lambda path: path.name)
def test_every_example_is_short_and_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60
    for text in PRINTED.get(path.name, []):
        assert text in done.stdout
