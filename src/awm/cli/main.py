"""`awm`: evaluate the working memory of long-document agents.

This module imports nothing of AWM until `main` runs: loading the commands takes a second or more,
and Ctrl-C in it should end the program, not print where an import stood.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from awm.cli.app import app as app

_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises:
        # Nothing has begun that would have to be ended. An exception could be swallowed or shown
        # by whatever is being imported.
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(_INTERRUPTED))
    from awm.cli.app import app

    if raises:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app(prog_name="awm")


def __getattr__(name: str) -> Any:
    """Give `app`, for programs that run commands in their own process."""
    if name == "app":
        from awm.cli.app import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
