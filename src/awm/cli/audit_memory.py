"""`awm audit memory`: audits of a run's memories, and the two controls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from pydantic import ValidationError
from rich.console import Console

from awm.analysis.audits import AuditSummary
from awm.analysis.breakdowns import (
    Breakdown,
    Failures,
    break_down,
    count_failures,
    plan_resampling,
)
from awm.analysis.controls import Control, Lift, control_source, measure_lift
from awm.analysis.rereading import Judging, extraction_prompt, reread
from awm.analysis.run_results import RunResults, audit_run, memory_source, read_results
from awm.cli.async_run import run_async
from awm.cli.errors import UNMEASURED, shown_errors
from awm.cli.progress import ProgressBar
from awm.cli.settings import build_settings, merge, read_config
from awm.cli.terminal import open_console
from awm.errors import ConfigError
from awm.models.build import build_model
from awm.models.chat import ModelSettings
from awm.report.diagnosis_tables import (
    print_audits,
    print_breakdowns,
    print_failures,
    print_lifts,
)
from awm.runs import open_run
from awm.scoring.extraction import ExtractionPrompt

_CONTROLS: tuple[Control, ...] = ("question-only", "shuffled")


@dataclass(frozen=True, slots=True)
class MemoryAudit:
    """What `awm audit memory` prints."""

    run: Path
    run_reader: str | None
    """The reader of the run; None: nothing was answered from its memories."""
    audits: AuditSummary
    breakdowns: tuple[Breakdown, ...]
    failures: Failures
    reader: str | None
    """Of the controls; None without any."""
    lifts: tuple[Lift, ...]
    n_failed: int
    """Readings of the controls that failed."""

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "run": str(self.run),
            "run_reader": self.run_reader,
            "audits": self.audits.as_json(),
            "breakdowns": {
                each.by: {
                    "groups": [group.as_json() for group in each.groups],
                    "n_unknown": each.n_unknown,
                }
                for each in self.breakdowns
            },
            "failures": self.failures.as_json(),
            "reader": self.reader,
            "lift": {lift.control: lift.as_json() for lift in self.lifts},
            "n_failed": self.n_failed,
        }


def audit_memory_command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    controls: Annotated[
        str | None,
        typer.Option(
            help="question-only,shuffled: what the memory adds to what a reader guesses.",
            metavar="NAMES",
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            help="Of the controls (default: the run's). Another one reads the memories, too.",
            metavar="SPEC",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--run", help="Folder of the controls (default: RUN-controls); resumed."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the shuffled control.", min=0)] = 0,
    concurrency: Annotated[int, typer.Option(help="Questions under way at once.", min=1)] = 8,
    config: Annotated[Path | None, typer.Option(help="A TOML file; of it, reader counts.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting, e.g. reader.temperature=0.", metavar="NAME=VALUE"),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Audit the memories of a run: schema, cited pages, echo of the answer, generic findings.

    With --controls, the run's reader answers again from an empty memory and from the memory of
    another question of the same document. RUN itself is only read.
    """
    stderr = open_console(stderr=True)
    resume = "Interrupted. What is done is kept; start the same command again to resume."
    with shown_errors(stderr, interrupted=resume):
        values = merge(read_config(config), {"reader": reader}, assignments or ())
        found = audit(
            run,
            _parse_controls(controls),
            values.get("reader"),
            out,
            seed=seed,
            concurrency=concurrency,
            console=stderr,
        )
    if json:
        typer.echo(orjson.dumps(found.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        _print(found, open_console())
    if found.n_failed:
        raise typer.Exit(UNMEASURED)


def audit(
    run: Path,
    controls: tuple[Control, ...],
    reader: dict[str, Any] | None,
    out: Path | None,
    *,
    seed: int,
    concurrency: int,
    console: Console,
) -> MemoryAudit:
    """Audit a run, and run the controls.

    Raises:
        UserError: the run keeps no memory, or a setting cannot be used.
        DataError: a run folder cannot be read.
        EndpointError: the reader's endpoint is down.
    """
    results = read_results(open_run(run))
    audits = audit_run(results)
    plan = plan_resampling([example.document_id for example in results.examples])
    measured = results.results()
    lifts: list[Lift] = []
    n_failed = 0
    used: ModelSettings | None = None
    if controls:
        used, is_other = _reader(results, reader)
        folder = out or run.with_name(f"{run.name}-controls")
        answerable = [result.is_answerable for result in measured]
        memory_scores: list[float | None] = results.memory_scores()
        for control in ("memory", *controls) if is_other else controls:
            columns, failed = _run_control(
                results, control, used, folder / control, seed, concurrency, console
            )
            n_failed += failed
            if control == "memory":
                memory_scores = columns
            else:
                lifts.append(measure_lift(control, memory_scores, columns, answerable, plan))
    elif reader is not None:
        raise ConfigError("--reader is for the controls: name them, --controls question-only")
    return MemoryAudit(
        run=run,
        run_reader=_recorded_spec(results),
        audits=audits,
        breakdowns=break_down(measured, plan),
        failures=count_failures(measured),
        reader=used.spec if used else None,
        lifts=tuple(lifts),
        n_failed=n_failed,
    )


def _run_control(
    results: RunResults,
    control: Control,
    reader: ModelSettings,
    folder: Path,
    seed: int,
    concurrency: int,
    console: Console,
) -> tuple[list[float | None], int]:
    """Read the memories under a control; give a score a question, and how many failed."""
    manifest = results.store.manifest
    source = control_source(memory_source(results), control, seed)
    if not source.examples:
        raise ConfigError(
            f"--controls {control}: no document of {results.store.path} has two questions with a "
            "memory; leave the control out"
        )
    extractor_settings = manifest.settings.get("extractor")
    settings = {
        "setting": "audit-memory",
        "control": control,
        "seed": seed,
        "source": {
            "created_at": manifest.created_at,
            "question_ids_hash": manifest.question_ids_hash,
        },
        "data": str(results.store.path),
        "model": manifest.settings.get("model"),
        "reader": reader.model_dump(mode="json"),
        "extractor": extractor_settings,
        "run": str(folder),
        "concurrency": concurrency,
    }

    async def work() -> None:
        model = build_model(reader, role="--reader")
        extractor = build_model(ModelSettings(**extractor_settings)) if extractor_settings else None
        judging = Judging(manifest.judge, extractor, _prompt(results))
        try:
            with ProgressBar(console) as bar:
                await reread(
                    source,
                    model,
                    judging,
                    folder,
                    settings,
                    concurrency=concurrency,
                    on_progress=bar,
                )
        finally:
            await model.aclose()
            if extractor is not None:
                await extractor.aclose()

    run_async(work())
    records = {record.question_id: record for record in open_run(folder).final_scores()}
    scores = [
        record.memory.score if record is not None and record.memory is not None else None
        for record in (records.get(example.question_id) for example in results.examples)
    ]
    n_failed = sum(
        record.memory is not None and record.memory.score is None for record in records.values()
    )
    return scores, n_failed


def _parse_controls(text: str | None) -> tuple[Control, ...]:
    names = [] if text is None else [name.strip() for name in text.split(",") if name.strip()]
    chosen: list[Control] = []
    for name in dict.fromkeys(names):
        known = [control for control in _CONTROLS if control == name]
        if not known:
            raise ConfigError(f"--controls {name!r}: it must be of {', '.join(_CONTROLS)}")
        chosen += known
    return tuple(chosen)


def _reader(results: RunResults, named: dict[str, Any] | None) -> tuple[ModelSettings, bool]:
    """Give the reader, and whether it is another one than the run's."""
    recorded = results.store.manifest.settings.get("reader")
    try:
        own = ModelSettings(**recorded) if recorded else None
    except ValidationError as error:
        raise ConfigError(f"the reader of {results.store.path}: {error}") from error
    if named is None and own is None:
        raise ConfigError(f"{results.store.path} has no reader of its own: name a --reader")
    if named is None:
        assert own is not None
        return own, False
    base = own.model_dump() if own is not None and "spec" not in named else {}
    wanted = build_settings(ModelSettings, base | named)
    return wanted, own is None or _identity(wanted) != _identity(own)


def _recorded_spec(results: RunResults) -> str | None:
    recorded = results.store.manifest.settings.get("reader")
    return recorded["spec"] if recorded else None


def _identity(reader: ModelSettings) -> dict[str, Any]:
    return reader.model_dump(exclude={"timeout_s", "max_retries", "max_in_flight", "api_key_env"})


def _prompt(results: RunResults) -> ExtractionPrompt | None:
    """Give the extraction prompt of the run.

    Raises:
        ConfigError: the file that it was read from now holds another one.
    """
    manifest = results.store.manifest
    if not manifest.settings.get("extractor"):
        return None
    path = manifest.settings.get("extraction_prompt")
    prompt = extraction_prompt(manifest.judge, Path(path) if path else None)
    if f"{prompt.source}:{prompt.digest}" != manifest.extraction_prompt:
        raise ConfigError(
            f"the run was judged with the extraction prompt {manifest.extraction_prompt}, and "
            f"{path or 'the one of this AWM'} is {prompt.source}:{prompt.digest}: restore it"
        )
    return prompt


def _print(found: MemoryAudit, console: Console) -> None:
    if found.run_reader is None:
        console.print(
            f"{found.run} has no reader: what takes a memory-only answer is not measured below "
            "(memory-only accuracy, P_mmc, cells, verdicts). Make the run with a --reader for it.",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    print_audits(found.audits, console)
    print_lifts(found.lifts, console)
    print_failures(found.failures, console)
    print_breakdowns(found.breakdowns, console)
