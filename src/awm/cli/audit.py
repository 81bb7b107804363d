"""`awm audit`: audits of a run, each a command of its own."""

from __future__ import annotations

import typer

from awm.cli.audit_judgements import audit_read_command, audit_sample_command
from awm.cli.audit_memory import audit_memory_command

audit_app = typer.Typer(
    help="Audit a run: its memories, its judgements.",
    no_args_is_help=True,
    add_completion=False,
)
audit_app.command("memory")(audit_memory_command)
audit_app.command("sample")(audit_sample_command)
audit_app.command("read")(audit_read_command)
