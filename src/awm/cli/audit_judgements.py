"""`awm audit sample` and `awm audit read`: a manual audit of a run's judgements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from awm.analysis.manual_audit.sample import draw_sample
from awm.analysis.manual_audit.verdicts import KINDS, read_audit
from awm.cli.errors import shown_errors
from awm.cli.terminal import open_console
from awm.counted import counted
from awm.report.audit_tables import cell_title, print_audit
from awm.runs import open_run


def audit_sample_command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option(help="The sheet to write, e.g. audit.csv.")],
    n: Annotated[int, typer.Option("-n", "--n", help="Rows to draw.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="The same seed draws the same rows.")] = 0,
) -> None:
    """Draw a sample of a run's answers for a person to judge, as a spreadsheet (CSV, UTF-8).

    The sample is stratified by outcome cell, as equally as the cells' sizes allow. Fill in, row by
    row and in any order: final_correct, memory_correct and memory_supports with yes, no or
    unclear; kind and note where you disagree with a score. The scores stand in the last columns.
    """
    stderr = open_console(stderr=True)
    with shown_errors(stderr):
        sample = draw_sample(open_run(run), n, seed, out)
    drawn = ", ".join(
        f"{cell_title(cell)} {k} of {sample.n_in_run[cell]}" for cell, k in sample.n_drawn.items()
    )
    lines = [f"Wrote {counted(sum(sample.n_drawn.values()), 'row', 'rows')} to {out}: {drawn}."]
    if sample.n_unmeasured:
        lacking = counted(sample.n_unmeasured, "question lacks", "questions lack")
        lines.append(f"{lacking} a score and cannot be drawn.")
    lines += [
        "Fill in final_correct, memory_correct, memory_supports: yes, no or unclear.",
        f"Where you disagree with a score, kind: {', '.join(KINDS)}.",
        "An apostrophe before a text keeps the spreadsheet from changing it. Save as CSV (UTF-8).",
        f"Then: awm audit read {out}",
    ]
    for line in lines:
        stderr.print(line, markup=False, highlight=False, soft_wrap=True)


def audit_read_command(
    sheet: Annotated[Path, typer.Argument(help="The sheet, filled in wholly or in part.")],
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Read a filled-in audit: agreement with the scores, Cohen's kappa, one-sidedness, kinds.

    Every figure is given for the sample as counted, and weighted back to the run.
    """
    with shown_errors(open_console(stderr=True)):
        result = read_audit(sheet)
    if json:
        typer.echo(orjson.dumps(result.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        print_audit(result, open_console())
