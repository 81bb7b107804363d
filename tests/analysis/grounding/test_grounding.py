"""Grounding of a run: verdicts kept, failures retried, and the cross table's arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, text_reply

from awm.analysis.grounding.report import (
    MemoryRow,
    Support,
    make_grounding_report,
    report_grounding,
)
from awm.analysis.grounding.run import GroundingSettings, ground
from awm.analysis.grounding.text_verifier import Verdict
from awm.analysis.grounding.verifiers import parse_verdict
from awm.errors import ConfigError, RunMismatchError
from awm.evaluate import EvalSettings, evaluate
from awm.models.chat import ModelSettings
from towns import (
    agent_replies,
    call,
    read_jsonl,
    town,
    write_corpus,
    write_pdf,
    write_reader,
    write_script,
)

N = 4
YES, WRONG, ABSENT = Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.NOT_FOUND
BLANK = Verdict.UNREADABLE


@pytest.fixture(autouse=True)
async def _source_run(tmp_path: Path) -> None:
    """Make a run: two true findings, a wrong number, and no finding at all; all read right."""
    write_corpus(tmp_path / "corpus", N)
    replies = {i: agent_replies(i) for i in range(2)}
    replies[2] = [
        call("retrieve", query=town(2)),
        call("update_memory", page=3, finding=f"The tower of {town(2)} is 777 metres high."),
        "102",
    ]
    replies[3] = ["103"]
    write_script(tmp_path / "agent.jsonl", replies)
    write_reader(tmp_path / "reader.jsonl", N)
    await evaluate(
        EvalSettings(
            benchmark="jsonl",
            data=tmp_path / "corpus",
            run=tmp_path / "source",
            setting="ep-given",
            model=ModelSettings(spec=f"scripted:{tmp_path / 'agent.jsonl'}"),
            reader=ModelSettings(spec=f"scripted:{tmp_path / 'reader.jsonl'}"),
        )
    )


def settings(tmp_path: Path, **more: Any) -> GroundingSettings:
    values = {"source": tmp_path / "source", "run": tmp_path / "verdicts", "concurrency": 1}
    return GroundingSettings.model_validate(values | more)


def verdicts_of(tmp_path: Path) -> dict[str, str | None]:
    return {
        r["question_id"]: r["verdict"] for r in read_jsonl(tmp_path / "verdicts/verdicts.jsonl")
    }


async def test_every_finding_gets_a_verdict_with_its_evidence(tmp_path: Path) -> None:
    await ground(settings(tmp_path))

    rows = read_jsonl(tmp_path / "verdicts/verdicts.jsonl")
    assert [row["verdict"] for row in rows] == ["supported", "supported", "contradicted"]
    assert rows[2]["evidence"] == f"The tower of {town(2)} is 102 metres high."
    assert rows[2]["finding"]["page"] == 3


async def test_the_cross_table_shows_guesses_the_reader_answers_from(tmp_path: Path) -> None:
    await ground(settings(tmp_path))

    report = report_grounding(tmp_path / "verdicts")
    assert report.cross["grounded"]["answerable"] == 2
    assert report.cross["ungrounded"]["answerable"] == 1
    assert report.cross["empty"]["answerable"] == 1
    assert report.guesses == ("town-02", "town-03")
    assert report.unsupported_guesses.value == 2 / 4
    json.dumps(report.as_json())


async def test_a_resumed_grounding_checks_what_is_left_and_nothing_twice(tmp_path: Path) -> None:
    await ground(settings(tmp_path))
    file = tmp_path / "verdicts" / "verdicts.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) - 40])  # a kill in the middle of the last line

    await ground(settings(tmp_path))

    assert file.read_bytes() == whole
    await ground(settings(tmp_path))
    assert file.read_bytes() == whole


async def test_a_server_that_moved_is_no_other_verifier(tmp_path: Path) -> None:
    verdict = json.dumps({"verdict": "supported", "evidence": "101 metres"})
    for _ in range(2):  # each server has another port
        async with ChatServer(default=text_reply(f"```json\n{verdict}\n```")) as server:
            model = ModelSettings(spec=f"openai:v@{server.base_url}", timeout_s=30)
            await ground(settings(tmp_path, verifier=model))
            n_requests = len(server.requests)

    assert n_requests == 0  # all was done


async def test_another_source_or_verifier_is_refused_and_named(tmp_path: Path) -> None:
    await ground(settings(tmp_path))

    with pytest.raises(RunMismatchError, match=r"verifier\.spec: 'text' -> 'openai:m'"):
        await ground(settings(tmp_path, verifier=ModelSettings(spec="openai:m")))
    with pytest.raises(ConfigError, match="another folder"):
        await ground(settings(tmp_path, run=tmp_path / "source"))
    with pytest.raises(ConfigError, match="the embedded verifier is 'text'"):
        await ground(settings(tmp_path, verifier=ModelSettings(spec="lexical")))


async def test_a_model_verifier_sees_the_cited_page_and_the_finding_alone(tmp_path: Path) -> None:
    verdict = json.dumps({"verdict": "supported", "evidence": "101 metres"})
    async with ChatServer(default=text_reply(f"```json\n{verdict}\n```")) as server:
        model = ModelSettings(spec=f"openai:v@{server.base_url}")
        await ground(settings(tmp_path, verifier=model))
        requests = server.requests

    assert [len(request.images) for request in requests] == [1, 1, 1]
    sent = json.dumps([m for m in requests[1].messages if m["role"] == "user"])
    assert "Statement: The tower of Townville01 is 101 metres high." in sent
    assert "page 2 of 4" in sent
    assert "How high" not in sent  # neither the question nor its gold
    assert set(verdicts_of(tmp_path).values()) == {"supported"}


async def test_a_reply_that_is_no_verdict_is_unmeasured_and_asked_again(tmp_path: Path) -> None:
    bad = text_reply("I think it is supported.")
    good = text_reply('{"verdict": "not_found", "evidence": ""}')
    async with ChatServer(bad, default=good) as server:
        model = ModelSettings(spec=f"openai:v@{server.base_url}")
        await ground(settings(tmp_path, verifier=model))
        assert verdicts_of(tmp_path)["town-00"] is None
        assert report_grounding(tmp_path / "verdicts").n_unmeasured == 1

        await ground(settings(tmp_path, verifier=model))
        n_requests = len(server.requests)

    assert n_requests == 4
    assert set(verdicts_of(tmp_path).values()) == {"not_found"}


async def test_another_document_than_the_runs_is_not_checked_against(tmp_path: Path) -> None:
    write_pdf(tmp_path / "corpus" / "towns_00.pdf", [0, 1, 2, 5])

    await ground(settings(tmp_path))

    rows = read_jsonl(tmp_path / "verdicts/verdicts.jsonl")
    assert {row["verdict"] for row in rows} == {None}
    assert "is not the file that the source run read" in rows[0]["error"]["message"]


@pytest.mark.parametrize(
    "reply",
    [
        "supported",
        '{"verdict": "supported"}',
        '{"verdict": "maybe", "evidence": ""}',
        '{"verdict": "supported", "evidence": 1}',
        '{"verdict": "supported", "evidence": "", "confidence": 1}',
        '[{"verdict": "supported", "evidence": ""}]',
        '{"verdict": "supported", "evidence": ""} Hope this helps',
        "[" * 100_000,
    ],
)
def test_a_verdict_is_parsed_strictly(reply: str) -> None:
    with pytest.raises(ValueError, match=r"not|is none of"):
        parse_verdict(reply)


def memory(
    document: str, score: float | None, *verdicts: Verdict | None, number: int = 0
) -> MemoryRow:
    return MemoryRow(f"{document}-{number}", document, verdicts, score, None)


@pytest.mark.parametrize(
    ("verdicts", "support"),
    [
        ((), Support.EMPTY),
        ((YES, YES), Support.GROUNDED),
        ((YES, WRONG), Support.PARTLY),
        ((ABSENT, BLANK), Support.UNGROUNDED),
        ((YES, BLANK), Support.UNCHECKED),
        ((YES, None), Support.UNCHECKED),
        ((YES, ABSENT, None), Support.PARTLY),
        ((BLANK,), Support.UNCHECKED),
    ],
)
def test_a_memory_is_as_grounded_as_its_findings(
    verdicts: tuple[Verdict | None, ...], support: Support
) -> None:
    assert memory("d", 1.0, *verdicts).support is support


def test_the_rates_count_what_they_say() -> None:
    rows = [
        memory("a", 1.0, YES, YES),  # grounded, answerable
        memory("a", 0.0, YES, number=1),  # grounded, omits what is needed
        memory("b", 0.5, WRONG),  # a guess: answerable, no support
        memory("b", 1.0, YES, ABSENT, number=1),  # partly
        memory("c", 1.0),  # a guess from nothing
        memory("c", None, YES, number=1),  # grounded, the reader failed
        memory("d", 0.0, BLANK),  # unchecked
        memory("d", 1.0, None, number=1),  # unchecked, unmeasured
    ]

    report = make_grounding_report(rows, {})

    # Checked findings: YES x5, WRONG x1, ABSENT x1 = 7.
    assert report.supported.value == pytest.approx(5 / 7)
    assert report.contradicted.value == pytest.approx(1 / 7)
    assert (report.n_findings, report.n_unmeasured) == (9, 1)
    # Checked memories: 6, of which 3 grounded.
    assert report.grounded.value == pytest.approx(3 / 6)
    # Answerable and checked: rows 1, 3, 4, 5; guesses: 3 and 5.
    assert report.unsupported_guesses.value == pytest.approx(2 / 4)
    # Grounded with a measured reading: rows 1 and 2; one omits.
    assert report.omissions.value == pytest.approx(1 / 2)
    assert report.omitting == ("a-1",)
    assert sum(sum(row.values()) for row in report.cross.values()) == 8
