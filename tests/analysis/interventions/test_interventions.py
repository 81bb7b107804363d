"""A controlled comparison over a finished run: what each model sees, what is kept, what resumes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, text_reply

from awm.analysis.interventions.memory_writer import refusal_reason
from awm.analysis.interventions.records import Arm, InterventionSettings
from awm.analysis.interventions.report import report_intervention
from awm.analysis.interventions.run import intervene
from awm.errors import ConfigError, DataError, EndpointError, RunMismatchError
from awm.evaluate import EvalSettings, evaluate
from awm.models.chat import ModelSettings
from town_server import town_server
from towns import (
    agent_replies,
    call,
    read_jsonl,
    town,
    write_corpus,
    write_jsonl,
    write_pdf,
    write_reader,
    write_script,
)

N = 4
PAGE_TEXT = "metres high"
"""Words of every page and of no question."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


@pytest.fixture(autouse=True)
async def _source_run(tmp_path: Path, source: Path) -> None:
    """Make a run of four questions: every answer is right, and the last memory says nothing."""
    write_corpus(tmp_path / "corpus", N)
    replies = {i: agent_replies(i) for i in range(N - 1)}
    last = N - 1
    replies[last] = [
        call("retrieve", query=town(last)),
        call("update_memory", page=last + 1, finding="The page tells about a tower."),
        str(100 + last),
    ]
    write_script(tmp_path / "agent.jsonl", replies)
    answers = {i: [str(100 + i)] for i in range(N - 1)}
    write_script(tmp_path / "reader.jsonl", answers, default=["Not answerable"])
    await evaluate(
        EvalSettings(
            benchmark="jsonl",
            data=tmp_path / "corpus",
            run=source,
            setting="ep-given",
            model=ModelSettings(spec=f"scripted:{tmp_path / 'agent.jsonl'}"),
            reader=ModelSettings(spec=f"scripted:{tmp_path / 'reader.jsonl'}"),
        )
    )


def settings(tmp_path: Path, arms: tuple[Arm, ...], **more: Any) -> InterventionSettings:
    values: dict[str, Any] = {
        "source": tmp_path / "source",
        "run": tmp_path / "comparison",
        "arms": arms,
        "generator": ModelSettings(spec="lexical"),
        "reader": ModelSettings(spec="lexical"),
        "concurrency": 2,
    }
    return InterventionSettings.model_validate(values | more)


def findings_of(*findings: tuple[int, str]) -> str:
    return json.dumps({"findings": [{"page": p, "finding": text} for p, text in findings]})


def scores_of(run: Path) -> dict[tuple[str, str], tuple[float | None, float | None]]:
    return {
        (row["question_id"], row["arm"]): (row["final"]["score"], row["memory"]["score"])
        for row in read_jsonl(run / "scores.jsonl")
    }


async def test_an_empty_memory_gives_generator_and_reader_no_way_to_see_the_pages(
    tmp_path: Path,
) -> None:
    async with ChatServer(default=text_reply("Not answerable")) as server:
        model = ModelSettings(spec=f"openai:m@{server.base_url}")
        await intervene(settings(tmp_path, ("empty",), generator=model, reader=model))
        requests = server.requests

    assert len(requests) == 2 * N
    for request in requests:
        sent = request.raw.decode()
        assert request.images == []
        assert "image" not in sent.replace("image_url", "image")
        assert PAGE_TEXT not in sent
        assert "(the memory is empty)" in sent
        assert "Townville" in sent  # the question itself


async def test_only_the_memory_differs_between_the_requests_of_two_memories(
    tmp_path: Path,
) -> None:
    async with ChatServer(default=text_reply("7")) as server:
        model = ModelSettings(spec=f"openai:m@{server.base_url}")
        both = settings(tmp_path, ("empty", "original"), generator=model, reader=model)
        await intervene(both.model_copy(update={"concurrency": 1}))
        requests = server.requests

    bodies = [json.dumps(request.messages) for request in requests]
    memories = [f"[p. {i + 1}] The tower of {town(i)} is {100 + i} {PAGE_TEXT}." for i in range(3)]
    memories.append("[p. 4] The page tells about a tower.")
    for i, memory in enumerate(memories):
        own = [body for body in bodies if town(i) in body.split("Question:")[1]]
        empty = {body for body in own if "(the memory is empty)" in body}
        assert {body.replace(memory, "(the memory is empty)") for body in own} == empty
        assert len(own) == 4


async def test_improved_memories_are_written_from_the_images_of_the_gold_pages(
    tmp_path: Path,
) -> None:
    async with ChatServer(default=text_reply(findings_of((1, "It is high.")))) as server:
        writer = ModelSettings(spec=f"openai:w@{server.base_url}")
        await intervene(settings(tmp_path, ("improved",), writer=writer))
        first = server.requests[0]

    assert len(first.images) == 1
    assert "100" not in json.dumps(first.messages[-1]["content"][-1])  # no gold answer
    memories = {
        row["question_id"]: row for row in read_jsonl(tmp_path / "comparison/memories.jsonl")
    }
    # Page 1 is the gold page of question 0 alone: elsewhere the finding is refused, asked for
    # again, and refused for good.
    assert [len(memories[f"town-{i:02}"]["findings"]) for i in range(N)] == [1, 0, 0, 0]
    report = report_intervention(tmp_path / "comparison")
    assert report.writing == {
        "n_memories": 4,
        "n_findings": 1,
        "n_refusals": 6,
        "n_retried": 3,
        "n_lost": 3,
        "n_empty": 3,
        "n_unmeasured": 0,
    }


async def test_a_writer_is_told_what_was_refused_and_may_write_once_more(tmp_path: Path) -> None:
    good, long = (1, "The tower is 100 metres high."), (1, "word " * 41)
    replies = [findings_of(good, long), findings_of((1, "It was built in 1900."))]
    write_script(tmp_path / "writer.jsonl", {0: replies}, default=["no JSON"])
    writer = ModelSettings(spec=f"scripted:{tmp_path / 'writer.jsonl'}")

    await intervene(settings(tmp_path, ("improved",), writer=writer))

    by_id = {r["question_id"]: r for r in read_jsonl(tmp_path / "comparison/memories.jsonl")}
    assert [f["text"] for f in by_id["town-00"]["findings"]] == [good[1], "It was built in 1900."]
    assert "41 words; the limit is 40" in by_id["town-00"]["refusals"][0]
    assert by_id["town-00"]["n_lost"] == 0
    assert by_id["town-01"]["findings"] == []
    assert "not one JSON object" in by_id["town-01"]["refusals"][1]
    assert by_id["town-01"]["error"] is None


async def test_the_embedded_models_improve_a_memory_that_says_nothing(tmp_path: Path) -> None:
    lexical = ModelSettings(spec="lexical")

    await intervene(settings(tmp_path, ("empty", "original", "improved"), writer=lexical))

    # The lexical reader is not the source's, so the original memories are read again.
    scores = scores_of(tmp_path / "comparison")
    assert {scores[f"town-{i:02}", "empty"] for i in range(N)} == {(0.0, 0.0)}
    assert [scores[f"town-{i:02}", "original"][1] for i in range(N)] == [1, 1, 1, 0]
    assert [scores[f"town-{i:02}", "improved"] for i in range(N)] == [(1, 1)] * N
    report = report_intervention(tmp_path / "comparison")
    audit = next(audit for audit in report.audits if audit.arm == "improved")
    assert (audit.n_with_pages, audit.n_cite_only_gold) == (N, N)
    missing = next(row for row in report.by_cell if row.cell == "memory_missing_correct")
    assert report.cells_from == "the source run"
    assert (missing.n, missing.counts["improved"]["memory"]) == (1, 1)


async def test_the_original_reading_is_the_source_runs_own_where_the_reader_is(
    tmp_path: Path,
) -> None:
    reader = ModelSettings(spec=f"scripted:{tmp_path / 'reader.jsonl'}", timeout_s=7)

    await intervene(settings(tmp_path, ("original",), reader=reader))

    assert read_jsonl(tmp_path / "comparison/readings.jsonl") == []
    rows = read_jsonl(tmp_path / "comparison/scores.jsonl")
    assert all(row["memory_from_source"] for row in rows)
    assert [row["memory"]["score"] for row in sorted(rows, key=lambda r: str(r))] == [1, 1, 1, 0]


async def test_pages_are_shown_to_the_generator_only_when_that_is_asked_for(
    tmp_path: Path,
) -> None:
    async with ChatServer(default=text_reply("7")) as server:
        generator = ModelSettings(spec=f"openai:m@{server.base_url}")
        await intervene(
            settings(tmp_path, ("empty",), generator=generator, generator_sees_pages=True)
        )
        shown = [len(request.images) for request in server.requests]

    assert shown == [1] * N
    report = report_intervention(tmp_path / "comparison")
    assert report.as_json()["generator_sees_pages"] is True
    assert any("saw the gold pages" in warning for warning in report.warnings)


async def test_improved_memories_can_come_from_a_file(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "question_id": f"town-{i:02}",
            "findings": [{"page": 1, "finding": f"The tower of {town(i)} is {100 + i} m high."}],
        }
        for i in range(N)
    ]
    file = write_jsonl(tmp_path / "improved.jsonl", rows)

    await intervene(settings(tmp_path, ("improved",), improved=file))

    report = report_intervention(tmp_path / "comparison")
    (audit,) = report.audits
    # All cite page 1, which is the gold page of the first question alone.
    assert (audit.n_with_pages, audit.n_cite_gold) == (N, 1)
    write_jsonl(file, [*rows[:3], {**rows[3], "findings": []}])
    with pytest.raises(RunMismatchError, match="file improved: "):
        await intervene(settings(tmp_path, ("improved",), improved=file))


@pytest.mark.parametrize(
    ("findings", "message"),
    [
        ([{"page": 1, "finding": "word " * 41}], r"line 1, findings\[0\].*limit is 40"),
        ([{"page": 9, "finding": "x"}], r"findings\[0\]: There is no page 9 here"),
        ([{"page": True, "finding": "x"}], "page must be a whole number"),
        (["x"], "exactly"),
    ],
)
async def test_a_file_with_a_bad_finding_is_refused_with_its_line(
    tmp_path: Path, findings: list[Any], message: str
) -> None:
    row = {"question_id": "town-00", "findings": findings}
    file = write_jsonl(tmp_path / "improved.jsonl", [row])

    with pytest.raises(DataError, match=message):
        await intervene(settings(tmp_path, ("improved",), improved=file))


async def test_a_file_without_every_question_is_refused(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"question_id": "town-00", "findings": []}]
    file = write_jsonl(tmp_path / "improved.jsonl", rows)

    with pytest.raises(ConfigError, match="lacks the memories of 3 of 4 questions"):
        await intervene(settings(tmp_path, ("improved",), improved=file))


def test_improved_memories_need_one_origin(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="exactly one of a writer"):
        settings(tmp_path, ("original", "improved"))
    with pytest.raises(ValueError, match="the other memories neither"):
        settings(tmp_path, ("original",), writer=ModelSettings(spec="lexical"))


async def test_another_setting_is_refused_and_named(tmp_path: Path) -> None:
    await intervene(settings(tmp_path, ("empty",)))

    with pytest.raises(RunMismatchError, match="generator_sees_pages: False -> True"):
        await intervene(settings(tmp_path, ("empty",), generator_sees_pages=True))


async def test_what_failed_is_unmeasured_and_retried(tmp_path: Path) -> None:
    write_script(tmp_path / "generator.jsonl", {0: ["100"], 1: [{"error": "timeout"}]})
    generator = ModelSettings(spec=f"scripted:{tmp_path / 'generator.jsonl'}")
    given = settings(tmp_path, ("empty",), generator=generator)

    await intervene(given)

    scores = scores_of(tmp_path / "comparison")
    assert scores["town-00", "empty"][0] == 1
    assert scores["town-01", "empty"][0] is None
    assert report_intervention(tmp_path / "comparison").n_unmeasured == 3
    write_script(tmp_path / "generator.jsonl", {i: ["9"] for i in range(N)})
    await intervene(given)
    assert scores_of(tmp_path / "comparison")["town-00", "empty"][0] == 1  # not asked again
    assert report_intervention(tmp_path / "comparison").n_unmeasured == 0


async def test_a_dead_endpoint_ends_the_work(tmp_path: Path) -> None:
    write_script(tmp_path / "generator.jsonl", {}, default=[{"error": "timeout"}])
    generator = ModelSettings(spec=f"scripted:{tmp_path / 'generator.jsonl'}")

    with pytest.raises(EndpointError, match="2 items in a row failed"):
        await intervene(
            settings(tmp_path, ("empty",), generator=generator, max_failures_in_a_row=2)
        )


async def test_another_document_than_the_runs_is_not_shown_to_the_writer(tmp_path: Path) -> None:
    write_pdf(tmp_path / "corpus" / "towns_00.pdf", [9, 8, 7, 6])

    await intervene(settings(tmp_path, ("improved",), writer=ModelSettings(spec="lexical")))

    errors = [row["error"] for row in read_jsonl(tmp_path / "comparison/memories.jsonl")]
    assert all("is not the file that the source run read" in e["message"] for e in errors)
    assert report_intervention(tmp_path / "comparison").n_unmeasured == N


async def test_a_run_without_memories_is_refused(tmp_path: Path) -> None:
    write_reader(tmp_path / "rag.jsonl", N)
    await evaluate(
        EvalSettings(
            benchmark="jsonl",
            data=tmp_path / "corpus",
            run=tmp_path / "rag",
            setting="rag",
            model=ModelSettings(spec=f"scripted:{tmp_path / 'rag.jsonl'}"),
        )
    )

    with pytest.raises(ConfigError, match="'rag', which keeps no memory"):
        await intervene(settings(tmp_path, ("empty",), source=tmp_path / "rag"))


def test_a_killed_comparison_resumes_and_does_nothing_twice(tmp_path: Path) -> None:
    with town_server(delay_ms=60) as base_url:
        spec = f"openai:towns@{base_url}"
        command = [
            *(sys.executable, "-m", "awm", "intervene", str(tmp_path / "source")),
            *("--memory", "empty,original", "--generator", spec, "--reader", spec),
            *("--concurrency", "1", "--run", str(tmp_path / "comparison"), "--json"),
        ]
        chance = random.Random(1)
        for _ in range(3):
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            deadline = time.monotonic() + 10
            answers = tmp_path / "comparison" / "answers.jsonl"
            before = answers.stat().st_size if answers.exists() else 0
            while time.monotonic() < deadline and process.poll() is None:
                if answers.exists() and answers.stat().st_size > before:
                    break
                time.sleep(0.01)
            time.sleep(chance.random() * 0.1)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    # The town server reads questions 0 and 2 right, without a memory, too.
    assert {arm: f["n_memory"] for arm, f in report["arms"].items()} == {"empty": 2, "original": 2}
    keys = [(r["question_id"], r["arm"]) for r in read_jsonl(tmp_path / "comparison/scores.jsonl")]
    assert len(keys) == len(set(keys)) == 2 * N


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ('"findings" must be a list.', '"findings" must be a list.'),
        ("The reply is not one JSON object (x: y).", "The reply is not one JSON object (x: y)."),
        ('{"page": 9, "finding": "a: b"}: No page 9.', "No page 9."),
        ('{"finding": "' + "x" * 187 + ": Too long.", "Too long."),
    ],
)
def test_the_reason_of_a_refusal_stands_without_the_finding(refusal: str, reason: str) -> None:
    assert refusal_reason(refusal) == reason
