"""The evaluation loop: what is measured, what is not, and what is done again."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from awm.analysis.summary import RunSummary, summarize
from awm.benchmarks import load_benchmark
from awm.documents import Document
from awm.errors import ConfigError, EndpointError, RunMismatchError
from awm.evaluate import EvalSettings, Progress, evaluate
from awm.models.chat import ModelSettings
from awm.runs import open_run
from towns import (
    agent_replies,
    call,
    question_row,
    read_jsonl,
    write_agent,
    write_corpus,
    write_jsonl,
    write_pdf,
    write_reader,
    write_script,
)

TIMEOUT = {"error": "timeout"}


class Stage:
    """A corpus, scripts for every model, and a run folder."""

    def __init__(self, folder: Path, n_questions: int = 4) -> None:
        self.n = n_questions
        self.data = write_corpus(folder / "corpus", n_questions)
        self.agent = write_agent(folder / "agent.jsonl", n_questions)
        self.reader = write_reader(folder / "reader.jsonl", n_questions)
        self.extractor = folder / "extractor.jsonl"
        self.run = folder / "run"

    def settings(self, **changes: Any) -> EvalSettings:
        fields: dict[str, Any] = {
            "benchmark": "jsonl",
            "data": self.data,
            "run": self.run,
            "model": ModelSettings(spec=f"scripted:{self.agent}"),
            "reader": ModelSettings(spec=f"scripted:{self.reader}"),
            "concurrency": 2,
        }
        return EvalSettings(**(fields | changes))

    async def evaluate(self, **changes: Any) -> RunSummary:
        return summarize(open_run(await evaluate(self.settings(**changes))))

    def records(self, name: str, run: Path | None = None) -> list[dict[str, Any]]:
        return read_jsonl((run or self.run) / f"{name}.jsonl")

    def count(self, name: str) -> Counter[str]:
        return Counter(record["question_id"] for record in self.records(name))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


ONCE = {f"town-{i:02}": 1 for i in range(4)}


async def test_a_run_measures_every_question_once(stage: Stage) -> None:
    summary = await stage.evaluate()

    assert (summary.n, summary.n_unmeasured) == (4, 0)
    assert (summary.final_accuracy.value, summary.memory_accuracy.value) == (1.0, 1.0)
    assert summary.p_mmc.value == 0.0
    assert summary.outcomes is not None
    assert summary.outcomes.as_dict() == {
        "memory_supported_correct": 4,
        "memory_missing_correct": 0,
        "answering_error": 0,
        "unresolved_error": 0,
    }
    assert summary.routing.n_checked == 4
    assert summary.routing.mismatched == ()
    assert stage.count("episodes") == stage.count("readings") == stage.count("scores") == ONCE


async def test_a_finished_run_is_not_touched_again_but_for_its_session(stage: Stage) -> None:
    first = await stage.evaluate()
    before = {name: (stage.run / name).read_bytes() for name in ("episodes.jsonl", "scores.jsonl")}
    stage.agent.write_text("")

    again = await stage.evaluate()

    assert again.as_json() == first.as_json()
    assert before == {name: (stage.run / name).read_bytes() for name in before}
    assert len(stage.records("sessions")) == 2


async def test_a_failed_reading_is_unmeasured_and_alone_done_again(stage: Stage) -> None:
    write_script(stage.reader, {0: ["100"], 1: [TIMEOUT], 2: ["102"], 3: ["wrong"]})
    first = await stage.evaluate()

    assert (first.n, first.n_unmeasured) == (3, 1)
    assert first.errors == {"EndpointTimeoutError": 1}
    assert (first.final_accuracy.value, first.final_accuracy.n) == (1.0, 4)
    assert first.memory_accuracy.value == pytest.approx(2 / 3)
    assert first.p_mmc.value == pytest.approx(1 / 3)
    assert (first.memory_accuracy.n, first.p_mmc.n) == (3, 3)
    assert first.outcomes is not None
    assert first.outcomes.n_unmeasured == 1

    write_reader(stage.reader, stage.n)
    second = await stage.evaluate()

    assert (second.n, second.n_unmeasured) == (4, 0)
    assert (second.memory_accuracy.value, second.errors) == (0.75, {})
    assert stage.count("episodes") == ONCE
    assert stage.count("readings") == stage.count("scores") == ONCE | {"town-01": 2}


async def test_a_failed_extraction_is_unmeasured_and_alone_done_again(stage: Stage) -> None:
    good = "Extracted answer: 100\nAnswer format: Integer"
    extractor = ModelSettings(spec=f"scripted:{stage.extractor}")
    # The extractor's conversation holds one assistant turn already, so its second reply counts.
    write_script(stage.extractor, {}, default=["", "It is 100, I think."])
    first = await stage.evaluate(extractor=extractor, limit=1)

    assert (first.n, first.n_unmeasured) == (0, 1)
    assert first.errors == {"EndpointReplyError": 1}
    assert first.final_accuracy.value is None
    assert first.memory_accuracy.value is None
    failed = stage.records("scores")[0]["final"]
    assert failed["score"] is None
    assert failed["extraction"]["raw"] == "It is 100, I think."

    write_script(stage.extractor, {}, default=["", good])
    second = await stage.evaluate(extractor=extractor, limit=1)

    assert (second.n, second.final_accuracy.value, second.memory_accuracy.value) == (1, 1.0, 1.0)
    # Three turns, one reading, two extractions that failed and two that did not.
    assert (first.spent.calls, second.spent.calls) == (6, 8)
    assert stage.count("episodes") == stage.count("readings") == {"town-00": 1}
    assert stage.count("scores") == {"town-00": 2}


async def test_an_extraction_is_kept_when_the_other_half_is_done_again(
    stage: Stage,
) -> None:
    extractor = ModelSettings(spec=f"scripted:{stage.extractor}")
    write_script(stage.extractor, {}, default=["", "Extracted answer: 100"])
    write_script(stage.reader, {0: [TIMEOUT]})
    await stage.evaluate(extractor=extractor, limit=1)
    write_reader(stage.reader, 1)
    summary = await stage.evaluate(extractor=extractor, limit=1)

    first, second = stage.records("scores")
    assert first["final"] == second["final"]
    assert second["memory"]["extraction"]["answer"] == "100"
    assert (summary.n, summary.spent.calls) == (1, 6)


async def test_a_failed_episode_stops_no_other_and_is_run_again(stage: Stage) -> None:
    replies = {i: agent_replies(i) for i in range(4)}
    write_script(stage.agent, replies | {2: [*agent_replies(2)[:2], TIMEOUT]})
    first = await stage.evaluate()

    assert (first.n, first.n_unmeasured) == (3, 1)
    assert first.stop_reasons == {"answered": 3, "error": 1}
    failed = next(e for e in stage.records("episodes") if e["stop_reason"] == "error")
    assert failed["error"]["type"] == "EndpointTimeoutError"
    assert failed["memory"] is None
    assert len(failed["messages"]) == 6
    assert stage.count("readings") == {id_: 1 for id_ in ONCE if id_ != "town-02"}

    write_agent(stage.agent, stage.n)
    second = await stage.evaluate()

    assert (second.n, second.stop_reasons) == (4, {"answered": 4})
    assert stage.count("episodes") == stage.count("scores") == ONCE | {"town-02": 2}
    assert stage.count("readings") == ONCE


async def test_a_document_that_breaks_during_the_run_is_unmeasured_by_name(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, n_questions=8)
    benchmark = load_benchmark("jsonl", stage.data)
    broken = stage.data / "towns_04.pdf"
    content = broken.read_bytes()
    broken.write_bytes(b"no longer a PDF")

    # Unreadable documents are no sign of an endpoint that is down.
    await evaluate(stage.settings(max_failures_in_a_row=2), benchmark=benchmark)

    first = summarize(open_run(stage.run))
    assert (first.n, first.errors) == (4, {"NotAPdfError": 4})
    errors = [e["error"]["message"] for e in stage.records("episodes") if e["error"]]
    assert all("towns_04.pdf" in message for message in errors)

    broken.write_bytes(content)
    await evaluate(stage.settings(), benchmark=benchmark)

    assert summarize(open_run(stage.run)).n == 8


async def test_the_gold_page_setting_leaves_out_questions_without_gold_pages(stage: Stage) -> None:
    rows = [question_row(i, "towns_00.pdf", i + 1) for i in range(4)]
    rows[1]["evidence_pages"] = []
    rows[2]["evidence_pages"] = [99]
    write_jsonl(stage.data / "questions.jsonl", rows)

    summary = await stage.evaluate(setting="ep-given")

    assert summary.n == 2
    assert summary.as_json()["n_excluded"] == 2
    shown = {e["question_id"]: e["pages_shown"] for e in stage.records("episodes")}
    assert shown == {"town-00": [1], "town-03": [4]}
    assert any("town-02" in problem for problem in summary.manifest.dataset.problems)


@pytest.mark.parametrize("setting", ["direct", "rag"])
async def test_a_baseline_without_a_memory_has_no_memory_figures(
    stage: Stage, setting: str
) -> None:
    write_script(stage.agent, {i: [str(100 + i % 2)] for i in range(4)})

    summary = (await stage.evaluate(setting=setting)).as_json()

    assert (summary["n"], summary["n_unmeasured"], summary["final_accuracy"]) == (4, 0, 0.5)
    assert summary["memory_accuracy"] is summary["p_mmc"] is summary["cells"] is None
    assert not (stage.run / "readings.jsonl").read_bytes()


async def test_without_a_reader_memories_are_kept_and_not_measured(stage: Stage) -> None:
    summary = (await stage.evaluate(reader=None)).as_json()

    assert (summary["n"], summary["final_accuracy"]) == (4, 1.0)
    assert summary["memory_accuracy"] is summary["p_mmc"] is summary["cells"] is None
    assert all(episode["memory"] for episode in stage.records("episodes"))


async def test_the_turn_limit_is_a_measured_zero_with_a_flag(stage: Stage) -> None:
    searching = [*agent_replies(0)[:2], call("retrieve", query="x"), call("retrieve", query="y")]
    write_script(stage.agent, {0: searching})

    summary = await stage.evaluate(limit=1, agent={"max_turns": 3})

    assert (summary.n, summary.n_unmeasured, summary.stop_reasons) == (1, 0, {"step_limit": 1})
    assert (summary.final_accuracy.value, summary.memory_accuracy.value) == (0.0, 1.0)
    record = stage.records("scores")[0]
    assert record["final"]["flags"] == ["no_answer"]
    assert record["outcome"] == "answering_error"


async def test_two_runs_of_the_same_settings_hold_the_same_results(stage: Stage) -> None:
    first = (await stage.evaluate(concurrency=1)).as_json()
    second_run = stage.run.with_name("second")
    second = (await stage.evaluate(run=second_run, concurrency=4)).as_json()

    assert first.pop("run") != second.pop("run")
    assert first == second
    for name in ("episodes", "readings", "scores"):
        assert by_question(stage.records(name)) == by_question(stage.records(name, second_run))


def by_question(records: list[dict[str, Any]]) -> dict[str, Any]:
    for record in records:
        for made in (*record.get("calls", ()), record.get("call") or {}):
            made.pop("latency_s", None)
    return {record["question_id"]: record for record in records}


async def test_a_run_cut_off_at_any_byte_ends_like_an_undisturbed_one(stage: Stage) -> None:
    write_script(stage.reader, {0: ["100"], 2: ["102"]}, default=["wrong"])
    undisturbed = (await stage.evaluate(concurrency=1)).as_json()
    written = in_order_of_writing(stage.run)
    n_bytes = sum(len(line) for _, line in written)
    moments = random.Random(20260102)

    for cut in [0, n_bytes - 1, *(moments.randrange(n_bytes) for _ in range(40))]:
        run = stage.run.with_name(f"cut at {cut}")
        run.mkdir()
        for name in ("manifest.json", "examples.jsonl", "sessions.jsonl"):
            shutil.copy(stage.run / name, run / name)
        left = cut
        for name, line in written:
            with (run / name).open("ab") as file:
                file.write(line[:left])
            left = max(0, left - len(line))

        resumed = (await stage.evaluate(run=run)).as_json()

        assert resumed | {"run": ""} == undisturbed | {"run": ""}, cut
        for name in ("episodes", "readings", "scores"):
            assert by_question(stage.records(name, run)) == by_question(stage.records(name)), cut
            assert len(stage.records(name, run)) == 4, cut


def in_order_of_writing(run: Path) -> list[tuple[str, bytes]]:
    """Give every line of a run that took one question at a time."""
    lines = {
        name: (run / name).read_bytes().splitlines(keepends=True)
        for name in ("documents.jsonl", "episodes.jsonl", "readings.jsonl", "scores.jsonl")
    }
    assert len(lines["documents.jsonl"]) == 1
    ordered = [("documents.jsonl", lines.pop("documents.jsonl")[0])]
    for i in range(4):
        ordered += [(name, lines[name][i]) for name in lines]
    return ordered


async def test_no_file_of_a_run_holds_image_bytes(stage: Stage) -> None:
    await stage.evaluate()

    episode = stage.records("episodes")[0]
    images = [b for m in episode["messages"] for b in m["content"] if b["image"] is not None]
    assert images
    assert all(len(block["image"]) == 64 for block in images)
    for file in stage.run.iterdir():
        content = file.read_bytes()
        for trace in (b";base64,", b"/9j/", b"iVBOR", b"\xff\xd8\xff", b"\x89PNG"):
            assert trace not in content, file.name
        assert len(content) < 40_000, file.name


async def test_a_run_stops_when_its_endpoint_is_down_and_goes_on_later(tmp_path: Path) -> None:
    stage = Stage(tmp_path, n_questions=12)
    write_script(stage.agent, {0: agent_replies(0)}, default=[TIMEOUT])

    with pytest.raises(EndpointError, match=r"3 questions in a row failed .*scripted timeout"):
        await stage.evaluate(max_failures_in_a_row=3, concurrency=1)

    assert len(stage.records("scores")) == 4
    write_agent(stage.agent, stage.n)
    summary = await stage.evaluate(max_failures_in_a_row=3)
    assert (summary.n, summary.final_accuracy.value) == (12, 1.0)


async def test_questions_that_always_fail_come_last_so_that_the_others_get_their_turn(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, n_questions=8)
    replies: dict[int, Any] = {i: [TIMEOUT] if i < 3 else agent_replies(i) for i in range(8)}
    write_script(stage.agent, replies)
    settings = {"max_failures_in_a_row": 3, "concurrency": 1}

    for _ in range(2):
        with pytest.raises(EndpointError, match="3 questions in a row failed"):
            await stage.evaluate(**settings)

    summary = summarize(open_run(stage.run))
    assert (summary.n, summary.n_unmeasured) == (5, 3)
    assert (summary.final_accuracy.value, summary.final_accuracy.n) == (1.0, 5)


async def test_an_answer_with_a_lone_surrogate_stops_nothing(stage: Stage) -> None:
    broken = '<tool_call>{"name": "\\ud800", "arguments": {}}</tool_call>'
    write_script(stage.agent, {0: [broken, *agent_replies(0)[1:]]}, default=["hm"])

    summary = await stage.evaluate(limit=1, agent={"max_turns": 2})

    assert (summary.n, summary.stop_reasons) == (1, {"step_limit": 1})


async def test_progress_counts_from_what_earlier_sessions_did(stage: Stage) -> None:
    write_script(stage.reader, {0: ["100"], 1: [TIMEOUT]}, default=["wrong"])
    await stage.evaluate()
    write_reader(stage.reader, stage.n)
    seen: list[tuple[int, int, int]] = []

    def note(progress: Progress) -> None:
        seen.append((progress.n_done, progress.n_at_start, progress.n_unmeasured))

    await evaluate(stage.settings(), on_progress=note)

    assert seen == [(3, 3, 0), (4, 3, 0)]


async def test_an_unknown_question_or_nothing_to_run_is_refused_before_a_folder_is_made(
    stage: Stage,
) -> None:
    with pytest.raises(ConfigError, match="no question that can run has the id 'town-77'"):
        await stage.evaluate(questions=("town-01", "town-77"))
    (stage.data / "towns_00.pdf").unlink()
    with pytest.raises(ConfigError, match=r"no question of jsonl can run.*towns_00\.pdf"):
        await stage.evaluate()

    assert not stage.run.exists()


async def test_a_folder_of_other_settings_is_refused_and_left_as_it_is(stage: Stage) -> None:
    await stage.evaluate(limit=2)
    before = {file.name: file.read_bytes() for file in stage.run.iterdir()}

    with pytest.raises(RunMismatchError, match="limit: 2 -> 1"):
        await stage.evaluate(limit=1)
    write_pdf(stage.data / "new.pdf", [4])
    rows = read_jsonl(stage.data / "questions.jsonl")
    write_jsonl(stage.data / "questions.jsonl", [*rows, question_row(4, "new.pdf", 1)])
    with pytest.raises(RunMismatchError, match="dataset_hash"):
        await stage.evaluate(limit=2)

    assert before == {file.name: file.read_bytes() for file in stage.run.iterdir()}


async def test_a_larger_limit_asks_the_further_questions_alone(stage: Stage) -> None:
    await stage.evaluate(limit=2)
    first = (stage.run / "episodes.jsonl").read_bytes()

    summary = await stage.evaluate(limit=3)

    assert (summary.n, summary.n_questions) == (3, 3)
    assert summary.manifest.settings["limit"] == 3
    episodes = (stage.run / "episodes.jsonl").read_bytes()
    assert episodes.startswith(first)
    assert len(episodes.splitlines()) == 3


async def test_a_larger_limit_with_another_reader_is_refused(stage: Stage) -> None:
    await stage.evaluate(limit=2)
    with pytest.raises(RunMismatchError, match="reader"):
        await stage.evaluate(limit=3, reader=ModelSettings(spec="lexical"))


async def test_a_document_that_came_later_adds_its_questions(tmp_path: Path) -> None:
    stage = Stage(tmp_path, n_questions=8)
    late = stage.data / "towns_04.pdf"
    content = late.read_bytes()
    late.unlink()
    await stage.evaluate()
    late.write_bytes(content)

    summary = await stage.evaluate()

    assert (summary.n, summary.n_unmeasured) == (8, 0)
    assert summary.manifest.dataset.missing_documents == ()
    assert len(read_jsonl(stage.run / "episodes.jsonl")) == 8


async def test_a_document_that_went_away_is_said_to_be_the_difference(tmp_path: Path) -> None:
    stage = Stage(tmp_path, n_questions=8)
    await stage.evaluate()
    (stage.data / "towns_04.pdf").unlink()

    with pytest.raises(RunMismatchError, match="n_missing_documents: 0 -> 1") as refused:
        await stage.evaluate()

    assert "n_questions: 8 -> 4" in str(refused.value)


async def test_a_folder_of_other_files_is_refused_and_left_as_it_is(stage: Stage) -> None:
    with pytest.raises(RunMismatchError, match="no run folder and not empty"):
        await stage.evaluate(run=stage.data)
    assert not (stage.data / "manifest.json").exists()


async def test_a_manifest_holds_all_that_decides_the_numbers(stage: Stage) -> None:
    await stage.evaluate(model=ModelSettings(spec=f"scripted:{stage.agent}", seed=7, top_p=0.9))

    manifest = json.loads((stage.run / "manifest.json").read_bytes())
    assert manifest["settings"]["model"]["seed"] == 7
    assert manifest["settings"]["model"]["top_p"] == 0.9
    assert manifest["settings"]["agent"]["max_turns"] == 12
    assert manifest["settings"]["render"]
    assert len(manifest["dataset"]["dataset_hash"]) == 64
    assert manifest["prompt_hash"]
    assert manifest["judge"] == "mmlongbench-doc"
    assert {"python", "awm", "pypdfium2"} <= manifest["versions"].keys()
    assert manifest["n_questions"] == 4
    session = stage.records("sessions")[0]
    assert session["settings"]["concurrency"] == 2


async def test_a_document_that_was_replaced_between_sessions_is_reported(stage: Stage) -> None:
    write_script(stage.agent, {i: agent_replies(i) for i in range(3)}, default=[TIMEOUT])
    await stage.evaluate()
    write_pdf(stage.data / "towns_00.pdf", [0, 1, 2, 3, 4])
    write_agent(stage.agent, stage.n)

    summary = await stage.evaluate()

    assert summary.routing.mismatched == ("town-03",)


async def test_a_fault_that_nobody_foresaw_is_recorded_and_its_siblings_go_on(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    benchmark = load_benchmark("jsonl", stage.data)
    first = benchmark.examples[0].question.document_id

    def open_document(document_id: str) -> Document:
        if document_id == first:
            raise KeyError("xref")
        return benchmark.open_document(document_id)

    faulty = replace(benchmark, open_document=open_document)
    summary = summarize(open_run(await evaluate(stage.settings(), benchmark=faulty)))

    n_lost = sum(e.question.document_id == first for e in benchmark.examples)
    assert (summary.n, summary.n_unmeasured) == (stage.n - n_lost, n_lost)
    assert summary.errors == {"KeyError": n_lost}
    assert "a fault of AWM or of an adapter" in caplog.text

    again = summarize(open_run(await evaluate(stage.settings(), benchmark=benchmark)))
    assert (again.n, again.n_unmeasured) == (stage.n, 0)
