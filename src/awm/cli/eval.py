"""`awm eval`: run or resume an evaluation."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.markup import escape

from awm.analysis.summary import RunSummary, summarize
from awm.benchmarks import BENCHMARKS, Benchmark, load_benchmark
from awm.cli.async_run import run_async
from awm.cli.errors import UNMEASURED, shown_errors
from awm.cli.progress import ProgressBar
from awm.cli.settings import build_settings, merge, read_config
from awm.cli.terminal import open_console, plain
from awm.counted import counted
from awm.evaluate import EvalSettings, evaluate
from awm.report.diagnosis_tables import print_readers, print_rollouts
from awm.report.tables import print_summary
from awm.runs import open_run

_OPERATIONAL = ("concurrency", "cache_dir", "max_failures_in_a_row")
"""Settings that do not change the name of a run's default folder."""


def default_cache_dir() -> Path:
    """Give the folder that keeps drawn pages: $XDG_CACHE_HOME/awm/pages."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "awm" / "pages"


def evaluate_command(
    benchmark: Annotated[
        str | None,
        typer.Option(
            help="demo, pocket, pocket-blank, jsonl, mmlongbench-doc or longdocurl.", metavar="NAME"
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The benchmark's folder or file.")] = None,
    overlay: Annotated[
        Path | None, typer.Option(help="Corrections of its annotations, .toml or .jsonl.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Which set of generated questions (pocket; default 0).")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The agent: lexical, pocket, scripted:FILE, transformers:PATH or "
            "openai:MODEL@BASE_URL.",
            metavar="SPEC",
        ),
    ] = None,
    reader: Annotated[
        list[str] | None,
        typer.Option(
            help="The frozen reader of the memory; more than one: the first one's figures are the "
            "run's, the others are compared. 'none' measures final answers only.",
            metavar="SPEC",
        ),
    ] = None,
    reader_samples: Annotated[
        int | None, typer.Option(help="Readings of each memory by each reader (default 1).")
    ] = None,
    extractor: Annotated[
        str | None,
        typer.Option(help="Shortens answers before they are judged.", metavar="SPEC"),
    ] = None,
    extraction_prompt: Annotated[
        Path | None, typer.Option(help="The benchmark's own prompt file; default: AWM's.")
    ] = None,
    setting: Annotated[
        str | None, typer.Option(help="agent (default), ep-given, direct or rag.", metavar="NAME")
    ] = None,
    subset: Annotated[
        str | None,
        typer.Option(help="A fixed subset: answerable-500 of mmlongbench-doc.", metavar="NAME"),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N questions.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Questions under way at once (default 8).")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="The run folder; resumed if it exists (default: runs/BENCHMARK-HASH, the same for "
            "the same settings)."
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file; flags win over it.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any setting, e.g. reader.temperature=0; the value is TOML.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Keeps drawn pages (default: ~/.cache/awm/pages).")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Let an agent answer a benchmark's questions, and a frozen reader answer from its memory.

    The run folder keeps everything. The same command resumes an interrupted run, and retries what
    is unmeasured.
    """
    stderr = open_console(stderr=True)
    flags = {
        "benchmark": benchmark,
        "data": data,
        "overlay": overlay,
        "seed": seed,
        "model": model,
        "reader": reader[0] if reader else None,
        "readers": [{"spec": spec} for spec in reader[1:]] if reader and len(reader) > 1 else None,
        "reader_samples": reader_samples,
        "extractor": extractor,
        "extraction_prompt": extraction_prompt,
        "setting": setting,
        "subset": subset,
        "limit": limit,
        "concurrency": concurrency,
        "run": run,
        "cache_dir": cache_dir,
    }
    resume = "Interrupted. What is done is kept; start the same command again to resume."
    with shown_errors(stderr, interrupted=resume):
        settings = eval_settings(config, flags, assignments or ())
        loaded = load_benchmark(settings.benchmark, settings.data, settings.overlay, settings.seed)
        if not json and not (settings.run / "manifest.json").exists():
            _tell_problems(loaded, stderr)
        summary = run_evaluation(settings, loaded, stderr)
    if json:
        typer.echo(orjson.dumps(summary.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        stdout = open_console()
        print_run(summary, stdout)
        print_next(settings.run, stdout)
    if summary.n_unmeasured or summary.n_unmeasured_rereadings:
        raise typer.Exit(UNMEASURED)


def eval_settings(
    config: Path | None, flags: dict[str, Any], assignments: Sequence[str]
) -> EvalSettings:
    """Merge a config, flags and assignments into settings.

    Raises:
        ConfigError: they cannot be used, or leave out what a user must decide.
    """
    values = merge(read_config(config), flags, assignments)
    keeps_memory = values.get("setting", "agent") in ("agent", "ep-given")
    missing = {}
    benchmark = values.get("benchmark")
    if isinstance(benchmark, str) and benchmark in BENCHMARKS and values.get("data") is None:
        missing["data"] = f"the folder or file that {benchmark} is read from"
    if keeps_memory and "reader" not in values:
        missing["reader"] = (
            "the model that answers from the memory alone (it may be the same as --model), or "
            "'none' to measure final answers only"
        )
    if not keeps_memory:
        values |= {"reader": None, "readers": [], "reader_samples": 1}
    values.setdefault("run", _default_run(values))
    values.setdefault("cache_dir", default_cache_dir())
    return build_settings(EvalSettings, values, flags, missing)


def _default_run(values: dict[str, Any]) -> Path:
    """Name a run folder after the settings, so that the same command finds it again."""
    named = {name: value for name, value in values.items() if name not in _OPERATIONAL}
    digest = hashlib.sha256(orjson.dumps(named, default=str, option=orjson.OPT_SORT_KEYS))
    return Path("runs") / f"{values.get('benchmark', 'eval')}-{digest.hexdigest()[:8]}"


def run_evaluation(settings: EvalSettings, benchmark: Benchmark, console: Console) -> RunSummary:
    """Evaluate with a progress bar, and summarize."""
    with ProgressBar(console) as bar:
        run_async(evaluate(settings, benchmark=benchmark, on_progress=bar))
    return summarize(open_run(settings.run))


def print_run(summary: RunSummary, console: Console) -> None:
    """Print a run's summary, and what its further readings say."""
    print_summary(summary, console)
    if summary.readers is not None:
        print_readers(summary.readers, console)
    for rollouts in summary.rollouts:
        print_rollouts(rollouts, console)
    if summary.n_unmeasured_rereadings:
        console.print(
            f"Further readings unmeasured: {summary.n_unmeasured_rereadings}; the same command "
            "retries what failed.",
            highlight=False,
            soft_wrap=True,
        )


def print_next(run: Path, console: Console) -> None:
    """Say how to look into a run."""
    show = escape(f"{_program()} show {shlex.quote(str(run))}")
    console.print(
        f"\nNext: [bold]{show}[/bold] lists the questions, "
        f"[bold]{show} 1[/bold] walks through the first episode.",
        highlight=False,
        soft_wrap=True,
    )


def _program() -> str:
    """Give the command that reaches this program from here: a venv's may not be on the path."""
    started = Path(sys.argv[0])
    if shutil.which("awm") is None and started.name == "awm" and started.exists():
        return shlex.quote(os.path.relpath(started))
    return "awm"


def _tell_problems(benchmark: Benchmark, console: Console) -> None:
    missing = benchmark.missing_documents
    if missing:
        n_questions = sum(p.n_questions for p in benchmark.problems if p.kind == "missing_document")
        documents = counted(len(missing), "document is", "documents are")
        _tell(
            f"{documents} missing, so {n_questions} of {benchmark.n_dataset} questions are left "
            f"out: {', '.join(missing)}",
            console,
        )
    for problem in benchmark.problems:
        if problem.kind != "missing_document":
            _tell(f"{problem.kind.replace('_', ' ')}: {problem.message}", console)


def _tell(text: str, console: Console) -> None:
    console.print(plain(text), markup=False, highlight=False, soft_wrap=not console.is_terminal)
