"""The two baselines without a memory: one call each, behind the agent's interface."""

from __future__ import annotations

import pytest
from agent_world import (
    QUESTION,
    pages_in_order,
    paper_document,
    retrieve,
    scripted,
    tagged,
    turn,
)

from awm.agent.baselines import DIRECT_PAGE_CAP, SingleCallEnvironment
from awm.agent.environment import AgentSettings, DrawnPages
from awm.agent.episode import Episode, Setting, run_episode
from awm.agent.prompt import BASELINE_SYSTEM
from awm.models.scripted import ScriptedModel, ScriptedReply
from awm.question import Question


async def play(
    setting: Setting,
    model: ScriptedModel,
    *,
    page_count: int = 30,
    question: Question = QUESTION,
    **settings: int,
) -> Episode:
    return await run_episode(
        question,
        paper_document(page_count),
        model,
        pages_in_order(5, 2, 9, 4),
        setting=setting,
        settings=AgentSettings.model_validate(settings),
    )


async def test_direct_shows_every_page_in_one_call() -> None:
    model = scripted("<think>hm</think>9")
    episode = await play("direct", model, page_count=4)

    (conversation,) = model.conversations
    system, user = conversation
    assert system.text == BASELINE_SYSTEM
    assert user.text == (
        "page 1 of 4:\npage 2 of 4:\npage 3 of 4:\npage 4 of 4:\n"
        "Question: How many trams run at night?"
    )
    assert [image.page_number for image in user.images] == [1, 2, 3, 4]
    assert (episode.answer, episode.stop_reason, episode.turns) == ("9", "answered", 1)
    assert (episode.images_shown, episode.images_sent, episode.pages_left_out) == (4, 4, 0)


async def test_direct_leaves_out_pages_over_its_cap_and_says_so() -> None:
    episode = await play("direct", scripted("9"), page_count=DIRECT_PAGE_CAP + 7)

    assert episode.pages_shown == tuple(range(1, 121))
    assert episode.pages_left_out == 7
    assert episode.images_sent == 120


async def test_direct_keeps_to_the_window() -> None:
    question = Question("q", "Which?", "trams.pdf", page_window=(11, 13))
    episode = await play("direct", scripted("9"), question=question)

    assert episode.pages_shown == (11, 12, 13)
    assert episode.pages_left_out == 0


@pytest.mark.parametrize(("top_k", "pages"), [(3, (5, 2, 9)), (1, (5,)), (9, (5, 2, 9, 4))])
async def test_rag_shows_the_best_pages_for_the_question(
    top_k: int, pages: tuple[int, ...]
) -> None:
    model = scripted("9")
    episode = await play("rag", model, top_k=top_k)

    assert episode.pages_shown == pages
    assert [image.page_number for image in model.conversations[0][1].images] == list(pages)
    assert episode.images_sent == len(pages)


@pytest.mark.parametrize("setting", ["direct", "rag"])
async def test_a_baseline_has_no_memory_which_is_not_an_empty_one(setting: Setting) -> None:
    assert (await play(setting, scripted("9"))).memory is None


@pytest.mark.parametrize("setting", ["direct", "rag"])
@pytest.mark.parametrize(
    "reply",
    [
        "<think>cut off",
        " ",
        ScriptedReply(content=None, reasoning="Answer: 9"),
    ],
)
async def test_a_turn_that_says_nothing_ends_without_an_answer(
    setting: Setting, reply: str | ScriptedReply
) -> None:
    episode = await play(setting, scripted(reply))

    assert (episode.answer, episode.stop_reason, episode.error) == (None, "step_limit", None)


def test_a_baseline_offers_no_tools_and_runs_none() -> None:
    world = SingleCallEnvironment(QUESTION, DrawnPages(paper_document()), [1])

    assert world.tool_schemas() == []
    assert world.step(turn(retrieve(), text=None)).done
    assert world.result().answer is None
    assert world.result().pages_shown == (1,)


def test_a_baseline_is_used_once() -> None:
    world = SingleCallEnvironment(QUESTION, DrawnPages(paper_document()), [1])
    world.step(turn(text=tagged("retrieve", query="x")))

    with pytest.raises(RuntimeError, match="used once"):
        world.step(turn(text="9"))
