"""Running episodes over the demo corpus: what is recorded when it goes well, and when not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_world import QUESTION as PAPER_QUESTION
from agent_world import (
    BlindModel,
    call,
    note,
    pages_in_order,
    paper_document,
    retrieve,
    scripted,
    tagged,
    turn,
)

import awm
from awm.agent.environment import AgentSettings, DocumentEnvironment, DrawnPages
from awm.agent.episode import Episode, record_message, run_episode
from awm.documents import Document, RenderCache, RenderSettings, open_document
from awm.models.chat import Message, ToolCall
from awm.models.scripted import ScriptedCall, ScriptedReply
from awm.question import Question
from awm.retrieval import BM25Retriever, GoldPages

DOCUMENTS = Path(awm.__file__).parent / "benchmarks" / "demo_corpus" / "documents"
QUESTION = Question(
    id="demo-01",
    text="What share of the energy used in 2020 was produced within the region?",
    document_id="energy_report.pdf",
)
SMALL = RenderSettings(max_pixels=40_000)
FIRST = tagged("retrieve", query="share of energy produced within the region 2020")
SAVE = tagged("update_memory", page=5, finding="In 2020, 18.6 % was produced within the region.")


@pytest.fixture
def document() -> Iterator[Document]:
    with open_document(DOCUMENTS / "energy_report.pdf") as document:
        yield document


def reply(*calls: ToolCall, reasoning: str | None = None) -> ScriptedReply:
    return ScriptedReply(
        tool_calls=tuple(
            ScriptedCall(name=call.name, arguments=call.arguments, id=call.id) for call in calls
        ),
        reasoning=reasoning,
    )


async def play(document: Document, *replies: str | ScriptedReply, max_turns: int = 12) -> Episode:
    return await run_episode(
        QUESTION,
        document,
        scripted(*replies),
        BM25Retriever(),
        settings=AgentSettings(max_turns=max_turns),
        render=SMALL,
    )


async def test_an_answered_episode_is_recorded_with_its_document(document: Document) -> None:
    episode = await play(document, FIRST, SAVE, "18.6%")

    assert (episode.stop_reason, episode.answer, episode.error) == ("answered", "18.6%", None)
    assert episode.document_digest == document.digest
    assert episode.memory is not None
    assert [finding.render() for finding in episode.memory] == [
        "[p. 5] In 2020, 18.6 % was produced within the region."
    ]
    assert len(episode.pages_shown) == 3
    assert 5 in episode.pages_shown
    # system, user, retrieve, pages, update, saved, answer
    assert [m.role for m in episode.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_the_images_of_every_request_are_counted(document: Document) -> None:
    more = reply(note(5, "18.6 % in 2020."), retrieve("sectors", "c1"))
    episode = await play(document, FIRST, more, SAVE, "18.6%")

    # Three pages a retrieval; each request sends the whole history again.
    assert [call.images_sent for call in episode.calls] == [0, 3, 6, 6]
    assert (episode.images_sent, episode.images_shown) == (15, 6)
    assert len(set(episode.pages_shown)) == 6


async def test_the_record_holds_hashes_in_place_of_images(document: Document) -> None:
    episode = await play(document, FIRST, SAVE, "18.6%")

    images = [block for message in episode.messages for block in message.content if block.image]
    drawn = [document.page(page).image(SMALL) for page in episode.pages_shown]
    assert [(b.page, b.image, b.width, b.height) for b in images] == [
        (page, image.digest, image.width, image.height)
        for page, image in zip(episode.pages_shown, drawn, strict=True)
    ]
    assert len(episode.model_dump_json()) < 20_000


async def test_an_episode_at_the_turn_limit_has_no_answer_and_its_memory(
    document: Document,
) -> None:
    episode = await play(document, FIRST, SAVE, max_turns=2)

    assert (episode.stop_reason, episode.answer, episode.error) == ("step_limit", None, None)
    assert episode.memory is not None
    assert len(episode.memory) == 1
    assert episode.turns == 2


@pytest.mark.parametrize(
    ("failure", "name"), [("timeout", "EndpointTimeoutError"), ("garbage", "EndpointReplyError")]
)
async def test_an_endpoint_s_failure_is_recorded_and_not_raised(
    document: Document, failure: str, name: str
) -> None:
    broken = ScriptedReply.model_validate({"error": failure})
    episode = await play(document, FIRST, SAVE, broken)

    assert episode.stop_reason == "error"
    assert episode.error is not None
    assert (episode.error.type, episode.error.message) == (name, f"scripted {failure}")
    # Unmeasured: neither an answer nor a memory; what happened before is kept.
    assert (episode.answer, episode.memory) == (None, None)
    assert len(episode.calls) == 2
    assert len(episode.messages) == 6
    assert len(episode.pages_shown) == 3


@pytest.mark.parametrize("most_images", [0, 2, 4])
async def test_images_that_do_not_travel_fail_the_episode(
    document: Document, most_images: int
) -> None:
    model = BlindModel(
        scripted(FIRST, reply(note(5), retrieve("more", "c1")), "18.6%"), most_images
    )
    episode = await run_episode(QUESTION, document, model, BM25Retriever(), render=SMALL)

    assert episode.error is not None
    assert episode.error.type == "MissingImageError"
    promised = 6 if most_images > 3 else 3
    assert f"holds {promised} page images and the request carried {most_images}:" in (
        episode.error.message
    )
    assert (episode.stop_reason, episode.answer, episode.memory) == ("error", None, None)
    assert episode.calls[-1].images_sent == most_images


async def test_an_adapter_that_loses_images_fails_a_baseline_too(document: Document) -> None:
    episode = await run_episode(
        QUESTION, document, BlindModel(scripted("18.6%")), BM25Retriever(), setting="rag"
    )

    assert episode.error is not None
    assert episode.error.type == "MissingImageError"
    assert episode.answer is None


async def test_a_damaged_page_is_told_to_the_agent_and_recorded() -> None:
    episode = await run_episode(
        PAPER_QUESTION,
        paper_document(broken=[3]),
        scripted(FIRST, tagged("update_memory", page=1, finding="x"), FIRST, "9"),
        GoldPages([1, 2, 4, 3]),
    )

    assert episode.error is None
    assert episode.answer == "9"
    assert episode.pages_shown == (1, 2, 4)
    assert episode.pages_damaged == (3,)


@pytest.mark.parametrize("setting", ["direct", "rag"])
async def test_a_baseline_shows_the_pages_that_can_be_drawn(setting: str) -> None:
    episode = await run_episode(
        PAPER_QUESTION,
        paper_document(5, broken=[3]),
        scripted("9"),
        GoldPages([3, 4]),
        setting="direct" if setting == "direct" else "rag",
    )

    assert episode.error is None
    assert 3 not in episode.pages_shown
    assert episode.images_sent == episode.images_shown == len(episode.pages_shown)
    assert episode.pages_damaged == (3,)


async def test_a_baseline_without_any_page_makes_no_text_only_call() -> None:
    episode = await run_episode(
        PAPER_QUESTION,
        paper_document(5, broken=[3]),
        scripted("9"),
        GoldPages([3]),
        setting="rag",
    )

    assert episode.error is not None
    assert episode.error.type == "PageError"
    assert episode.calls == ()


async def test_a_window_outside_of_the_document_is_recorded_as_an_error(
    document: Document,
) -> None:
    question = Question("q", "Which?", "energy_report.pdf", page_window=(1, 900))
    episode = await run_episode(question, document, scripted("9"), BM25Retriever())

    assert episode.error is not None
    assert episode.error.type == "PageError"


async def test_the_question_s_window_holds_where_the_caller_forgot_it(document: Document) -> None:
    question = Question("q", QUESTION.text, "energy_report.pdf", page_window=(2, 3))
    episode = await run_episode(
        question, document, scripted("9"), BM25Retriever(), setting="direct", render=SMALL
    )

    assert episode.pages_shown == (2, 3)


async def test_reasoning_is_recorded_and_is_no_part_of_the_answer(document: Document) -> None:
    thought = ScriptedReply(content="<think>maybe 20%</think>18.6%", reasoning="Page 5 says it.")
    look = reply(retrieve("energy produced within the region 2020"), reasoning="First look.")
    episode = await play(document, look, f"<think>Save.</think>{SAVE}", thought)

    assert episode.answer == "18.6%"
    assert [m.reasoning for m in episode.messages if m.role == "assistant"] == [
        "First look.",
        None,
        "Page 5 says it.",
    ]
    assert episode.messages[-1].content[0].text == "<think>maybe 20%</think>18.6%"


async def test_half_a_surrogate_pair_does_not_stop_the_record(document: Document) -> None:
    bad = '<tool_call>{"name": "\\ud800", "arguments": {"\\udfff": 1}}</tool_call>'
    unknown = reply(ToolCall("retrieve", '{"\\ud800": 1}', "c0"))
    episode = await play(document, bad, unknown, "9")

    assert episode.answer == "9"
    assert [r.tool for r in episode.refusals] == ["\ufffd", "retrieve"]
    assert Episode.model_validate_json(episode.model_dump_json()) == episode
    record_message(turn(call("\ud800"), text="\ud800", reasoning="\ud800")).model_dump_json()


async def test_a_model_s_refused_calls_stay_in_the_conversation(document: Document) -> None:
    episode = await play(document, reply(call("fly", "c9")), "9")

    refused = episode.messages[3]
    assert (refused.role, refused.tool_call_id) == ("tool", "c9")
    assert (refused.content[0].text or "").startswith("Error: There is no tool 'fly'")


async def test_a_conversation_only_grows(document: Document) -> None:
    model = scripted(FIRST, "18.6%", SAVE, "18.6%")
    await run_episode(QUESTION, document, model, BM25Retriever(), render=SMALL)

    assert len(model.conversations) == 4
    for earlier, later in zip(model.conversations, model.conversations[1:], strict=False):
        assert later[: len(earlier)] == earlier
        assert len(later) > len(earlier)


async def test_two_drivers_see_the_same_messages(document: Document) -> None:
    more = reply(note(5), retrieve("sectors", "c1"))
    replies = (FIRST, "18.6%", more, "{", "<think>", SAVE, "9")
    model = scripted(*replies)
    episode = await run_episode(QUESTION, document, model, BM25Retriever(), render=SMALL)

    world = DocumentEnvironment(QUESTION, DrawnPages(document, SMALL), BM25Retriever())
    messages: list[Message] = list(world.initial_messages())
    other = scripted(*replies)
    done = False
    while not done:
        completion = await other.complete(messages, tools=world.tool_schemas())
        messages.append(completion.message)
        step = world.step(completion.message)
        messages += step.observations
        done = step.done

    assert [record_message(message) for message in messages] == list(episode.messages)
    assert model.conversations == other.conversations
    assert world.result().memory == episode.memory
    assert world.result().answer == episode.answer == "9"


async def test_episodes_side_by_side_do_not_mix(document: Document, tmp_path: Path) -> None:
    cache, retriever = RenderCache(tmp_path), BM25Retriever()
    model = scripted(FIRST, SAVE, "18.6%")
    alone = await play(document, FIRST, SAVE, "18.6%")

    together = await asyncio.gather(
        *(
            run_episode(QUESTION, document, model, retriever, render=SMALL, cache=cache)
            for _ in range(8)
        )
    )

    assert all(episode == alone for episode in together)


async def test_the_gold_pages_setting_gives_the_evidence_whatever_is_asked(
    document: Document,
) -> None:
    episode = await run_episode(
        QUESTION,
        document,
        scripted(FIRST, SAVE, FIRST, "18.6%"),
        pages_in_order(5),
        setting="ep-given",
        render=SMALL,
    )

    assert episode.pages_shown == (5,)
    assert episode.messages[-2].content[0].text == (
        "No further page matches: every page that could be shown has been shown."
    )
    assert episode.answer == "18.6%"


async def test_no_gold_answer_can_reach_the_agent(document: Document) -> None:
    fields = set(Question.__dataclass_fields__)
    model = scripted(FIRST, SAVE, "18.6%")
    await run_episode(QUESTION, document, model, BM25Retriever(), render=SMALL)

    assert fields == {"id", "text", "document_id", "page_window"}
    sent = json.dumps([record_message(m).model_dump() for m in model.conversations[0]])
    assert QUESTION.text in sent
    assert "18.6" not in sent
