"""The agent's world: its messages to the letter, and how an episode goes and ends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from agent_world import (
    QUESTION,
    PaperPages,
    call,
    make_world,
    note,
    pages_in_order,
    paper_document,
    retrieve,
    tagged,
    turn,
)

from awm.agent.environment import AgentSettings, DocumentEnvironment, DrawnPages
from awm.agent.episode import make_environment
from awm.agent.prompt import ANSWER_REFUSED, FINDING_FIRST, NO_PAGE_LEFT, agent_system
from awm.documents.render import RenderSettings
from awm.errors import MissingImageError
from awm.memory import Finding
from awm.models.chat import Block, ImageBlock, Message, TextBlock
from awm.question import Question


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def shown(pages: Sequence[int], page_count: int = 30) -> tuple[Block, ...]:
    """Give the blocks of a message that shows `pages`: a label, then the image, for each."""
    source = PaperPages(page_count)
    blocks: list[Block] = []
    for page in pages:
        blocks.append(TextBlock(f"page {page} of {page_count}:"))
        blocks.append(ImageBlock(source.draw(page, RenderSettings()), page_number=page))
    return tuple(blocks)


def test_an_episode_opens_with_the_rules_and_the_question() -> None:
    system, user = make_world(max_turns=7).initial_messages()

    assert (system.role, user.role) == ("system", "user")
    assert system.text == agent_system(7)
    assert "At most 40 words" in system.text
    assert system.text.endswith("You have at most 7 turns.")
    assert user.text == "The document has 30 pages.\n\nQuestion: How many trams run at night?"


def test_a_question_with_braces_is_shown_as_it_is() -> None:
    question = Question(id="q", text="What is {page} in {0}?", document_id="trams.pdf")
    world = DocumentEnvironment(question, DrawnPages(paper_document()), pages_in_order(1))

    assert world.initial_messages()[1].text.endswith("Question: What is {page} in {0}?")


def test_a_walk_gives_these_messages_to_the_letter() -> None:
    world = make_world(5, 2, 9, 4)

    first = world.step(turn(retrieve("night trams", "a")))
    assert not first.done
    assert first.observations == (
        Message("tool", shown([5, 2, 9]), tool_call_id="a", name="retrieve"),
    )

    second = world.step(turn(note(2, "9 trams run at night.", "b"), retrieve("fares", "c")))
    assert not second.done
    assert second.observations == (
        Message(
            "tool",
            (TextBlock("Saved. The working memory holds 1 finding."),),
            tool_call_id="b",
            name="update_memory",
        ),
        Message("tool", shown([4]), tool_call_id="c", name="retrieve"),
    )

    third = world.step(turn(text=tagged("update_memory", page=4, finding="No fares here.")))
    assert not third.done
    assert third.observations == (
        Message(
            "tool",
            (TextBlock("Saved. The working memory holds 2 findings."),),
            tool_call_id=None,
            name="update_memory",
        ),
    )

    last = world.step(turn(text="<think>Done.</think>9"))
    assert last.done
    assert last.observations == ()

    result = world.result()
    assert result.answer == "9"
    assert result.stop_reason == "answered"
    assert result.memory == (
        Finding(text="9 trams run at night.", page=2, turn=1),
        Finding(text="No fares here.", page=4, turn=2),
    )
    assert result.pages_shown == (5, 2, 9, 4)
    assert result.images_shown == 4
    assert result.turns == 4
    assert result.refusals == ()


def test_the_image_block_carries_the_page_for_models_that_read_text() -> None:
    (message,) = make_world(5).step(turn(retrieve())).observations

    (image,) = message.images
    assert image.page is not None
    assert image.page.text() == "Text of page 5."
    assert image.image.data == b"page 5"


def test_an_answer_is_taken_at_once_where_nothing_was_shown() -> None:
    world = make_world()

    assert world.step(turn(text="Not answerable")).done
    assert world.result().answer == "Not answerable"
    assert world.result().memory == ()


def test_the_second_retrieval_is_refused_until_a_finding_is_saved() -> None:
    world = make_world()
    world.step(turn(retrieve()))

    (refused,) = world.step(turn(retrieve("more", "b"))).observations
    assert refused == Message(
        "tool", (TextBlock(f"Error: {FINDING_FIRST}"),), tool_call_id="b", name="retrieve"
    )

    world.step(turn(note(1)))
    (given,) = world.step(turn(retrieve("more"))).observations
    assert [image.page_number for image in given.images] == [4, 5, 6]


def test_the_answer_is_refused_until_a_finding_is_saved() -> None:
    world = make_world()
    world.step(turn(retrieve()))

    refused = world.step(turn(text="9"))
    assert not refused.done
    assert refused.observations == (Message("user", (TextBlock(ANSWER_REFUSED),)),)
    assert world.result().answer is None

    world.step(turn(note(1)))
    assert world.step(turn(text="9")).done


def test_a_refused_finding_does_not_open_the_gate() -> None:
    world = make_world()
    world.step(turn(retrieve()))
    world.step(turn(note(30)))
    world.step(turn(note(1, "word " * 41)))

    assert not world.step(turn(text="9")).done
    assert world.result().memory == ()


def test_a_finding_in_the_turn_of_its_retrieval_is_refused() -> None:
    world = make_world(5)

    shown_page, refused = world.step(turn(retrieve("x", "a"), note(5, call_id="b"))).observations

    assert len(shown_page.images) == 1
    assert "Page 5 was not shown to you" in refused.text
    assert refused.tool_call_id == "b"
    assert world.result().memory == ()


def test_a_finding_on_an_older_page_beside_a_retrieval_leaves_the_gate_shut() -> None:
    world = make_world()
    world.step(turn(retrieve()))
    world.step(turn(note(1)))

    world.step(turn(retrieve("more", "a"), note(1, "Once more.", "b")))

    assert not world.step(turn(text="9")).done
    assert len(world.result().memory or ()) == 2


def test_a_second_retrieval_in_one_turn_is_refused() -> None:
    world = make_world()

    first, second = world.step(turn(retrieve("x", "a"), retrieve("y", "b"))).observations

    assert len(first.images) == 3
    assert second.text == f"Error: {FINDING_FIRST}"
    assert world.result().pages_shown == (1, 2, 3)


def test_a_finding_between_two_retrievals_of_one_turn_does_not_help() -> None:
    world = make_world()
    world.step(turn(retrieve()))
    world.step(turn(note(1)))

    step = world.step(turn(retrieve("x", "a"), note(2, call_id="b"), retrieve("y", "c")))

    assert step.observations[1].text.startswith("Saved.")
    assert step.observations[2].text == f"Error: {FINDING_FIRST}"


def test_without_the_gate_retrievals_and_answers_need_no_finding() -> None:
    world = make_world(require_finding=False)

    first, second = world.step(turn(retrieve("x", "a"), retrieve("y", "b"))).observations
    assert [image.page_number for image in first.images] == [1, 2, 3]
    assert [image.page_number for image in second.images] == [4, 5, 6]
    assert world.step(turn(text="9")).done
    assert world.result().memory == ()


def test_without_the_gate_a_finding_still_cites_only_pages_of_earlier_turns() -> None:
    world = make_world(require_finding=False)

    _, refused = world.step(turn(retrieve("x", "a"), note(1, call_id="b"))).observations

    assert "was not shown" in refused.text


def test_pages_are_shown_once_until_none_is_left() -> None:
    world = make_world(8, 7, top_k=1, require_finding=False)

    steps = [world.step(turn(retrieve("same query"))) for _ in range(3)]

    assert [len(step.observations[0].images) for step in steps] == [1, 1, 0]
    assert steps[2].observations[0].text == NO_PAGE_LEFT
    assert world.result().pages_shown == (8, 7)
    assert world.result().refusals == ()


def test_a_search_without_pages_asks_for_no_finding() -> None:
    world = DocumentEnvironment(QUESTION, DrawnPages(paper_document()), pages_in_order())
    world.step(turn(retrieve()))

    assert world.step(turn(text="Not answerable")).done


def test_the_turn_limit_ends_the_episode_without_an_answer_and_keeps_the_memory() -> None:
    world = make_world(max_turns=3)

    assert not world.step(turn(retrieve())).done
    assert not world.step(turn(note(1))).done
    last = world.step(turn(retrieve("more")))

    assert last.done
    assert len(last.observations) == 1
    result = world.result()
    assert (result.stop_reason, result.answer, result.turns) == ("step_limit", None, 3)
    assert result.memory == (Finding(text="9 trams run at night.", page=1, turn=1),)
    assert result.pages_shown == (1, 2, 3, 4, 5, 6)


def test_an_answer_in_the_last_turn_counts() -> None:
    world = make_world(max_turns=1)

    assert world.step(turn(text="9")).done
    assert world.result().stop_reason == "answered"


def test_an_answer_refused_in_the_last_turn_is_no_answer() -> None:
    world = make_world(max_turns=2)
    world.step(turn(retrieve()))

    assert world.step(turn(text="9")).done
    assert (world.result().stop_reason, world.result().answer) == ("step_limit", None)


def test_a_finding_of_the_last_turn_is_kept() -> None:
    world = make_world(max_turns=2)
    world.step(turn(retrieve()))
    world.step(turn(note(1)))

    assert len(world.result().memory or ()) == 1


@pytest.mark.parametrize("last", ["answer", "limit"])
def test_an_environment_is_used_once(last: str) -> None:
    world = make_world(max_turns=1)
    world.step(turn(text="9") if last == "answer" else turn(retrieve()))

    with pytest.raises(RuntimeError, match="used once"):
        world.step(turn(text="10"))
    assert world.result().answer == ("9" if last == "answer" else None)


def test_every_refusal_is_counted_with_its_turn_and_tool() -> None:
    world = make_world(5)
    world.step(turn(retrieve("x", "a"), note(5, call_id="b")))
    world.step(turn(text="9"))
    world.step(turn(call("fly", "c"), text="ignored"))
    world.step(turn(text=""))
    world.step(turn(text="<tool_call>{"))
    world.step(turn(note(31), note(5, "word " * 41)))

    assert [(r.turn, r.tool) for r in world.result().refusals] == [
        (0, "update_memory"),
        (1, ""),
        (2, "fly"),
        (3, ""),
        (4, ""),
        (5, "update_memory"),
        (5, "update_memory"),
    ]
    messages = [r.message for r in world.result().refusals]
    assert messages[5] == "There is no page 31 here. Nothing was saved."
    assert "41 words; the limit is 40" in messages[6]


def test_tool_messages_answer_every_call_id_in_order() -> None:
    world = make_world(max_calls_per_turn=2)

    step = world.step(
        turn(retrieve("x", "a"), call("fly", "b"), note(1, call_id="c"), retrieve("y", None))
    )

    assert [m.tool_call_id for m in step.observations] == ["a", "b", "c", None]
    assert [m.name for m in step.observations] == ["retrieve", "fly", "update_memory", "retrieve"]
    assert {m.role for m in step.observations} == {"tool"}
    assert "limit is 2" in step.observations[2].text


def test_a_very_long_tool_name_is_not_echoed_whole() -> None:
    (refused,) = make_world().step(turn(call("x" * 5_000))).observations

    assert refused.name == "x" * 80
    assert len(refused.text) < 300


def test_a_window_keeps_the_numbers_of_the_whole_document() -> None:
    world = make_world(1, 12, 40, 13, document=paper_document(50).window(11, 20))

    assert world.initial_messages()[1].text.startswith(
        "The document has 50 pages, of which you can see pages 11 to 20.\n\n"
    )
    (message,) = world.step(turn(retrieve())).observations
    assert message.content == shown([12, 13], page_count=50)
    (refused,) = world.step(turn(note(1))).observations
    assert refused.text == "Error: There is no page 1 here. Nothing was saved."


def test_the_question_s_window_is_applied_whoever_opens_the_document() -> None:
    question = Question("q", "Which?", "trams.pdf", page_window=(2, 3))

    world = make_environment(
        question,
        DrawnPages(paper_document()),
        pages_in_order(*range(1, 31)),
        "agent",
        AgentSettings(),
    )

    (message,) = world.step(turn(retrieve())).observations
    assert [image.page_number for image in message.images] == [2, 3]


def test_a_damaged_page_is_named_and_the_others_are_shown() -> None:
    world = make_world(2, 3, 4, document=paper_document(broken=[3]))

    (message,) = world.step(turn(retrieve())).observations

    assert [image.page_number for image in message.images] == [2, 4]
    assert "page 3 of 30: this page is damaged and cannot be shown." in message.text
    assert world.result().pages_shown == (2, 4)
    assert world.result().images_shown == 2
    assert world.result().pages_damaged == (3,)


def test_a_damaged_page_is_not_retrieved_again_and_cannot_be_cited() -> None:
    world = make_world(3, document=paper_document(broken=[3]))
    world.step(turn(retrieve()))

    (refused,) = world.step(turn(note(3, "x"))).observations
    (nothing,) = world.step(turn(retrieve())).observations

    assert "was not shown to you" in refused.text
    assert "every page that could be shown has been shown" in nothing.text


def test_an_image_without_bytes_is_an_error_and_not_a_text_only_call() -> None:
    world = make_world(3, document=paper_document(empty=[3]))

    with pytest.raises(MissingImageError, match="1 pages were promised"):
        world.step(turn(retrieve()))
