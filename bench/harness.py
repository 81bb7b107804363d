"""What the whole evaluation adds to a model server's own time, with everything it writes down.

    python bench/harness.py

Runs `evaluate()` against `bench/mock_server.py`, which answers after a fixed delay, over a
generated document of 30 pages. The ideal is calls x delay / questions in flight. A loop over the
official SDK's AsyncOpenAI, encoding pages as its users do, runs beside it on the same calls. Last,
the peak memory of 500 and of 5,000 questions, each in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop
from openai import AsyncOpenAI
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from awm.agent.episode import Setting
from awm.agent.prompt import BASELINE_SYSTEM, PAGE_LABEL
from awm.benchmarks.benchmark import Benchmark, Example, Gold, check_documents
from awm.documents import RenderCache, RenderSettings, open_document
from awm.evaluate import EvalSettings, evaluate
from awm.models.chat import ModelSettings
from awm.question import Question
from awm.runs import open_run
from awm.scoring import JUDGES

PAGES = 30
TURNS = 6


@dataclass(frozen=True, slots=True)
class Scenario:
    """One measured load and its target."""

    name: str
    setting: Setting
    n_questions: int
    in_flight: int
    calls_per_question: int
    extractor: bool
    target: float
    """Wall over ideal."""


SCENARIOS = (
    Scenario("one call, 3 pages", "rag", 640, 64, 1, False, 1.10),
    Scenario("one call, 3 pages", "rag", 1280, 256, 1, False, 1.35),
    Scenario("agent, 6 turns + reader + 2 extractions", "agent", 128, 64, TURNS + 3, True, 1.15),
)


def make_document(path: Path) -> None:
    """Write a PDF of 30 pages with text, a table's lines and bars, about 100 kB a drawn page."""
    canvas = Canvas(str(path), pagesize=A4, invariant=1)
    for page in range(1, PAGES + 1):
        canvas.setFont("Helvetica", 10)
        for line in range(45):
            canvas.drawString(
                50,
                790 - 14 * line,
                f"Page {page} line {line}: the value of item "
                f"{page * 100 + line} was {(page * 7919 + line * 104729) % 9973}.",
            )
        for bar in range(12):
            canvas.setFillGray(bar / 14)
            canvas.rect(60 + 38 * bar, 40, 30, 10 + (page * 31 + bar * 17) % 90, fill=1)
        canvas.setFillGray(0)
        canvas.showPage()
    canvas.save()


def make_benchmark(folder: Path, n_questions: int) -> Benchmark:
    """Make `n_questions` over the one document."""
    document = folder / "document.pdf"
    if not document.exists():
        make_document(document)
    examples = [
        Example(
            Question(f"q{i:05d}", f"What was the value of item {i % 3000 + 100}?", "document.pdf"),
            Gold(answer="42", answer_format="Int"),
        )
        for i in range(n_questions)
    ]
    return check_documents(
        examples,
        lambda name: open_document(folder / name, document_id=name),
        dataset_hash="bench",
        name="bench",
        judge=JUDGES["mmlongbench-doc"],
    )


@contextlib.contextmanager
def mock_server(delay_ms: float) -> Iterator[str]:
    """Start the mock server; give its base URL."""
    script = Path(__file__).with_name("mock_server.py")
    command = [sys.executable, str(script), "--port", "0", "--delay-ms", str(delay_ms)]
    command += ["--turns", str(TURNS), "--save-and-retrieve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            ready = re.search(r"http://\S+", server.stdout.readline())
            assert ready is not None, "the mock server did not start"
            yield ready[0]
        finally:
            server.terminate()


def cpu_s() -> float:
    """Give this process's CPU time so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def settings_of(scenario: Scenario, base_url: str, folder: Path, run: Path) -> EvalSettings:
    model = ModelSettings(spec=f"openai:mock@{base_url}", max_in_flight=scenario.in_flight)
    agent = scenario.setting == "agent"
    return EvalSettings(
        benchmark="bench",
        run=run,
        setting=scenario.setting,
        model=model,
        reader=model if agent else None,
        extractor=model if scenario.extractor else None,
        concurrency=scenario.in_flight,
        cache_dir=folder / "cache",
    )


def measure(scenario: Scenario, base_url: str, folder: Path, delay_s: float) -> bool:
    """Run one scenario and print its line; say whether the target was met."""
    benchmark = make_benchmark(folder, scenario.n_questions)
    run = Path(tempfile.mkdtemp(dir=folder)) / "run"
    settings = settings_of(scenario, base_url, folder, run)
    cpu_before_s, started_s = cpu_s(), time.perf_counter()
    uvloop.run(evaluate(settings, benchmark=benchmark))
    wall_s, used_s = time.perf_counter() - started_s, cpu_s() - cpu_before_s
    records = list(open_run(run).final_scores())
    assert len(records) == scenario.n_questions, len(records)
    assert all(record.is_final and record.final.score == 1.0 for record in records)
    n_calls = scenario.n_questions * scenario.calls_per_question
    print_line("awm " + scenario.name, n_calls, scenario.in_flight, delay_s, wall_s, used_s)
    return wall_s <= scenario.target * n_calls * delay_s / scenario.in_flight


def print_line(
    name: str, n_calls: int, in_flight: int, delay_s: float, wall_s: float, used_s: float
) -> None:
    ideal_s = n_calls * delay_s / in_flight
    print(
        f"{name:<45} {n_calls:>5} calls, {in_flight:>3} in flight: wall {wall_s:6.2f} s, "
        f"ideal {ideal_s:5.2f} s, {wall_s / ideal_s:5.2f}x, {1000 * used_s / n_calls:5.2f} CPU-ms "
        "a call",
        flush=True,
    )


async def naive_loop(scenario: Scenario, base_url: str, pages: list[bytes]) -> None:
    """Do a scenario's calls with AsyncOpenAI, encoding the pages for each."""
    client = AsyncOpenAI(base_url=base_url, api_key="none")
    limit = asyncio.Semaphore(scenario.in_flight)

    async def ask(i: int) -> None:
        async with limit:
            content: list[dict[str, object]] = []
            for k in range(3):
                number = (3 * i + k) % PAGES
                text = PAGE_LABEL.format(page=number + 1, page_count=PAGES)
                data = base64.b64encode(pages[number]).decode()
                url = {"url": f"data:image/jpeg;base64,{data}"}
                content += [{"type": "text", "text": text}, {"type": "image_url", "image_url": url}]
            content.append({"type": "text", "text": f"Question: what is item {i}?"})
            messages = [
                {"role": "system", "content": BASELINE_SYSTEM},
                {"role": "user", "content": content},
            ]
            await client.chat.completions.create(model="mock", messages=messages)  # type: ignore[arg-type]

    await asyncio.gather(*(ask(i) for i in range(scenario.n_questions)))
    await client.close()


def measure_naive(scenario: Scenario, base_url: str, folder: Path, delay_s: float) -> None:
    """Run the SDK's loop on a one-call scenario."""
    make_benchmark(folder, 1)
    with open_document(folder / "document.pdf") as document:
        cache = RenderCache(folder / "cache")
        pages = [document.page(n).image(RenderSettings(), cache).data for n in range(1, PAGES + 1)]
    cpu_before_s, started_s = cpu_s(), time.perf_counter()
    asyncio.run(naive_loop(scenario, base_url, pages))
    wall_s, used_s = time.perf_counter() - started_s, cpu_s() - cpu_before_s
    name = "AsyncOpenAI loop, " + scenario.name
    print_line(name, scenario.n_questions, scenario.in_flight, delay_s, wall_s, used_s)


def warm_up(base_url: str, folder: Path) -> None:
    """Draw every page into the cache, and import what a first search imports."""
    benchmark = make_benchmark(folder, 1)
    settings: tuple[Setting, ...] = ("direct", "rag")
    for setting in settings:
        scenario = Scenario("warm-up", setting, 1, 1, 1, False, 1.0)
        run = folder / f"warm-{setting}"
        uvloop.run(evaluate(settings_of(scenario, base_url, folder, run), benchmark=benchmark))


def peak_mib(n_questions: int, base_url: str, folder: Path) -> float:
    """Run agent questions in a process of their own; give its peak memory in MiB."""
    command = [sys.executable, __file__, "--probe", str(n_questions), base_url, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["peak_mib"])


def probe(n_questions: int, base_url: str, folder: Path) -> None:
    """Run in the probe process."""
    scenario = Scenario("memory", "agent", n_questions, 64, TURNS + 1, False, 0.0)
    run = Path(tempfile.mkdtemp(dir=folder)) / "run"
    settings = settings_of(scenario, base_url, folder, run)
    uvloop.run(evaluate(settings, benchmark=make_benchmark(folder, n_questions)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"peak_mib": peak}))


def main() -> None:
    """Measure, print, and exit with 1 where a target was missed."""
    parser = argparse.ArgumentParser(description="Measure the evaluation loop.")
    parser.add_argument("--delay-ms", type=float, default=200.0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--no-memory", action="store_true", help="leave out the memory probe")
    parser.add_argument("--probe", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.probe:
        n, base_url, folder = arguments.probe
        probe(int(n), base_url, Path(folder))
        return
    delay_s = arguments.delay_ms / 1000
    met = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with mock_server(arguments.delay_ms) as base_url:
            warm_up(base_url, folder)
            for _ in range(arguments.repeats):
                for scenario in SCENARIOS:
                    met &= measure(scenario, base_url, folder, delay_s)
                for scenario in SCENARIOS[:2]:
                    measure_naive(scenario, base_url, folder, delay_s)
        if not arguments.no_memory:
            with mock_server(1.0) as base_url:
                few, many = (peak_mib(n, base_url, folder) for n in (500, 5000))
            growth = many / few - 1
            print(
                f"peak memory: {few:.0f} MiB for 500 questions, {many:.0f} MiB for 5,000: "
                f"{100 * growth:+.1f} %"
            )
            met &= growth < 0.10
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
