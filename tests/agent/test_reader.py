"""The frozen reader sees the question and the memory, and nothing else."""

from __future__ import annotations

import pytest
from agent_world import QUESTION, pages_in_order, paper_document, scripted, tagged

from awm.agent.episode import run_episode
from awm.agent.prompt import READER_SYSTEM
from awm.agent.reader import Reading, read_memory, reader_messages
from awm.memory import Finding
from awm.models.chat import Completion, Message, ModelSettings, TextBlock, count_images
from awm.models.scripted import ScriptedReply

MEMORY = (
    Finding(text="At night 9 trams run.", page=2, turn=1),
    Finding(text="No fares.", page=4, turn=2),
)


async def test_the_request_holds_the_question_and_the_memory_and_nothing_else() -> None:
    model = scripted("9")
    reading = await read_memory("q-1", QUESTION.text, MEMORY, model)

    (conversation,) = model.conversations
    assert conversation == (
        Message("system", (TextBlock(READER_SYSTEM),)),
        Message(
            "user",
            (
                TextBlock(
                    "Notes:\n"
                    "[p. 2] At night 9 trams run.\n"
                    "[p. 4] No fares.\n"
                    "\n"
                    "Question: How many trams run at night?"
                ),
            ),
        ),
    )
    assert count_images(conversation) == 0
    assert reading.answer == "9"
    assert reading.memory == "[p. 2] At night 9 trams run.\n[p. 4] No fares."
    assert reading.call is not None
    assert reading.call.images_sent == 0


async def test_nothing_of_the_trajectory_reaches_the_reader() -> None:
    agent = scripted(
        f"<think>secret thought</think>{tagged('retrieve', query='secret query')}",
        tagged("update_memory", page=2, finding="At night 9 trams run."),
        ScriptedReply(content="secret answer", reasoning="secret reasoning"),
    )
    episode = await run_episode(QUESTION, paper_document(), agent, pages_in_order(2))
    reader = scripted("9")
    assert episode.memory is not None

    await read_memory(episode.question_id, episode.question, episode.memory, reader)

    (conversation,) = reader.conversations
    assert "secret" not in " ".join(message.text for message in conversation)
    assert all(not m.tool_calls and not m.reasoning and not m.images for m in conversation)


async def test_an_empty_memory_is_said_to_be_empty() -> None:
    model = scripted("Not answerable")
    reading = await read_memory("q-1", "Why?", (), model)

    assert model.conversations[0][1].text == ("Notes:\n(the memory is empty)\n\nQuestion: Why?")
    assert reading.memory == "(the memory is empty)"


async def test_a_memory_may_be_text_already() -> None:
    model = scripted("9")
    reading = await read_memory("q-1", "Why?", "[p. 1] {x}", model)

    assert model.conversations[0] == reader_messages("Why?", "[p. 1] {x}")
    assert reading.memory == "[p. 1] {x}"


@pytest.mark.parametrize(
    ("failure", "name"), [("timeout", "EndpointTimeoutError"), ("garbage", "EndpointReplyError")]
)
async def test_a_failure_is_in_the_record_and_unmeasured(failure: str, name: str) -> None:
    reading = await read_memory(
        "q-1", "Why?", MEMORY, scripted(ScriptedReply.model_validate({"error": failure}))
    )

    assert reading.answer is None
    assert reading.error is not None
    assert reading.error.type == name
    assert reading.memory.startswith("[p. 2]")


class SeeingReader:
    """A model that claims to have sent images."""

    settings = ModelSettings(spec="scripted:")

    async def complete(
        self, messages: object, *, tools: object = (), seed: object = None
    ) -> Completion:
        return Completion(message=Message("assistant", (TextBlock("9"),)), images_sent=1)

    async def aclose(self) -> None:
        """Do nothing."""


async def test_a_reader_whose_request_carried_images_is_unmeasured() -> None:
    reading = await read_memory("q-1", "Why?", MEMORY, SeeingReader())

    assert reading.answer is None
    assert reading.error is not None
    assert reading.error.type == "MissingImageError"


@pytest.mark.parametrize(
    ("reply", "answer", "reasoning"),
    [
        ("<think>two notes</think>9", "9", "two notes"),
        (ScriptedReply(content="9", reasoning="apart"), "9", "apart"),
        (ScriptedReply(content="<think>in</think>9", reasoning="apart"), "9", "apart\nin"),
        ("<think>cut off", "", "cut off"),
        (ScriptedReply(content=None), "", None),
    ],
)
async def test_the_reader_s_reasoning_is_kept_apart(
    reply: str | ScriptedReply, answer: str, reasoning: str | None
) -> None:
    reading = await read_memory("q-1", "Why?", MEMORY, scripted(reply))

    assert (reading.answer, reading.reasoning) == (answer, reasoning)
    assert Reading.model_validate_json(reading.model_dump_json()) == reading
