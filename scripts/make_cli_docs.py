"""Write docs/cli.md, the help pages of every command, from the commands themselves.

python scripts/make_cli_docs.py
"""

from __future__ import annotations

import html
import subprocess
import sys
import tempfile
from pathlib import Path

OUT = Path(__file__).parents[1] / "docs" / "cli.md"
HEADER = "<!-- Made by scripts/make_cli_docs.py: change the commands' help, not this page. -->\n\n"


def make_pages() -> str:
    """Give the help pages as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "cli.md"
        command = [sys.executable, "-m", "typer", "awm.cli.app", "utils", "docs"]
        subprocess.run(
            [*command, "--name", "awm", "--output", str(out)], check=True, capture_output=True
        )
        text = html.unescape(out.read_text(encoding="utf-8"))
    return HEADER + "\n".join(line.rstrip() for line in text.splitlines()).rstrip() + "\n"


if __name__ == "__main__":
    OUT.write_text(make_pages(), encoding="utf-8")
    print(f"{OUT} is written")
