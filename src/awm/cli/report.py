"""`awm report`: a run's figures by its benchmark's own metrics, on the terminal and in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from awm.analysis.benchmark_report import pool_runs, report_run
from awm.cli.errors import shown_errors
from awm.cli.terminal import open_console
from awm.errors import ConfigError
from awm.faults import reason
from awm.report.markdown import render_markdown
from awm.report.report_tables import print_reports
from awm.runs import open_run


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    markdown: Annotated[
        Path | None, typer.Option(help="Also write the report to this file.", metavar="FILE")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Let --markdown replace a file that is there.")
    ] = False,
    pool: Annotated[
        bool, typer.Option("--pool", help="Pool runs that differ in nothing but seeds.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Report runs by the official metrics and groups, with repaired scores beside them.

    Every figure has its n and a 95 % interval from a bootstrap over documents. The official score
    is the headline. With --pool, runs of several seeds become one figure whose interval speaks of
    new seeds, too; runs that differ in anything else are refused.
    """
    stderr = open_console(stderr=True)
    with shown_errors(stderr):
        if markdown is not None and markdown.exists() and not force:
            raise ConfigError(f"--markdown {markdown} is there already: --force replaces it")
        stores = [open_run(run) for run in runs]
        pooled = pool_runs(stores) if pool else None
        reports = [report_run(store) for store in stores]
        if markdown is not None:
            _write(markdown, render_markdown(reports, pooled))
    if json:
        found = {
            "runs": [one.as_json() for one in reports],
            "pooled": pooled.as_json() if pooled else None,
        }
        typer.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    print_reports(reports, pooled, open_console())
    if markdown is not None:
        stderr.print(f"Wrote {markdown}", markup=False, highlight=False, soft_wrap=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"--markdown {path}: {reason(error)}") from error
