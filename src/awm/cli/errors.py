"""Exit codes, and how a deliberate error is shown.

| code | meaning |
|---|---|
| 0 | done |
| 1 | a fault of AWM itself (a traceback follows) |
| 2 | the command line or a setting cannot be used (`UserError`) |
| 3 | a document, benchmark or run folder cannot be used (`DataError`) |
| 4 | a model server gave no usable answer (`EndpointError`) |
| 5 | the run is done, and some questions are unmeasured: start it again to retry them |
| 6 | `awm check --train` found that the training set overlaps the benchmark |
| 130 | interrupted; what is done is kept |
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer
from rich.console import Console
from rich.text import Text

from awm.cli.terminal import plain
from awm.errors import AwmError, DataError, EndpointError, UserError

USER_ERROR, DATA_ERROR, ENDPOINT_ERROR, UNMEASURED, INTERRUPTED = 2, 3, 4, 5, 130


@contextlib.contextmanager
def shown_errors(console: Console, *, interrupted: str = "Interrupted.") -> Iterator[None]:
    """Turn deliberate errors and Ctrl-C into a message on `console` and an exit code."""
    try:
        yield
    except AwmError as error:
        console.print(Text.assemble(("Error: ", "bold red"), plain(str(error))), soft_wrap=True)
        raise typer.Exit(_exit_code(error)) from None
    except KeyboardInterrupt:
        console.print(interrupted, markup=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None


def _exit_code(error: AwmError) -> int:
    for kind, code in (
        (UserError, USER_ERROR),
        (DataError, DATA_ERROR),
        (EndpointError, ENDPOINT_ERROR),
    ):
        if isinstance(error, kind):
            return code
    return 1
