"""`awm compare`: two runs on the same questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from awm.analysis.comparison import Line, compare_run_stores
from awm.cli.errors import shown_errors
from awm.cli.terminal import open_console
from awm.report.comparison_tables import print_comparison
from awm.runs import open_run


def compare(
    a: Annotated[Path, typer.Argument(help="A run folder, e.g. the baseline.")],
    b: Annotated[Path, typer.Argument(help="The run folder to compare with it.")],
    across_extractors: Annotated[
        bool,
        typer.Option(
            "--across-extractors", help="Compare though extractor or extraction prompt differ."
        ),
    ] = False,
    across_judges: Annotated[
        bool, typer.Option("--across-judges", help="Compare though the judges differ.")
    ] = False,
    across_datasets: Annotated[
        bool,
        typer.Option(
            "--across-datasets", help="Compare though dataset, release or overlay differ."
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Compare run B with run A, question by question; differences are B minus A.

    Questions are matched by id; those in only one run are counted and left out. Intervals come
    from a bootstrap over documents, p-values from McNemar's exact test. Runs with other datasets,
    judges or extractors are different measurements and refused, unless a flag says otherwise.
    """
    wanted: dict[Line, bool] = {
        "extractors": across_extractors,
        "judges": across_judges,
        "datasets": across_datasets,
    }
    with shown_errors(open_console(stderr=True)):
        across = [line for line, is_wanted in wanted.items() if is_wanted]
        compared = compare_run_stores(open_run(a), open_run(b), across=across)
    if json:
        typer.echo(orjson.dumps(compared.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        print_comparison(compared, open_console())
