"""The third tool, off by default: pages by number, under the rules of retrieval."""

from __future__ import annotations

import pytest
from agent_world import call, make_world, note, paper_document, retrieve, turn

from awm.agent.environment import DocumentEnvironment
from awm.agent.prompt import FINDING_FIRST


def tool_names(world: DocumentEnvironment) -> list[str]:
    return [schema["function"]["name"] for schema in world.tool_schemas()]


def test_the_third_tool_is_off_by_default() -> None:
    world = make_world()

    assert tool_names(world) == ["retrieve", "update_memory"]
    (refused,) = world.step(turn(call("view_pages", pages=[4]))).observations
    assert "There is no tool 'view_pages'" in refused.text


def test_the_third_tool_is_offered_when_it_is_on() -> None:
    assert tool_names(make_world(view_pages=True)) == ["retrieve", "update_memory", "view_pages"]


def test_pages_are_shown_in_the_order_asked_for() -> None:
    world = make_world(view_pages=True)

    (message,) = world.step(turn(call("view_pages", pages=[30, 4]))).observations

    assert message.text == "page 30 of 30:\npage 4 of 30:"
    assert [image.page_number for image in message.images] == [30, 4]
    assert world.result().pages_shown == (30, 4)


@pytest.mark.parametrize(
    ("pages", "complaint"),
    [
        ([1, 2, 3, 4], "4 pages are too many; the limit is 3 a call."),
        ([31], "There is no page 31 here; pages go from 1 to 30."),
        ([0], "There is no page 0 here"),
        ([-1], "There is no page -1 here"),
        ([1, 10**300], "There is no page 1000"),
        ([2, 2], "Each page is shown once"),
        ([7], r"already seen or asked twice for [7]"),
        ([2, 7], r"already seen or asked twice for [7]"),
    ],
)
def test_pages_that_cannot_be_shown_are_refused(pages: list[int], complaint: str) -> None:
    world = make_world(7, view_pages=True)
    world.step(turn(retrieve()))
    world.step(turn(note(7)))

    (refused,) = world.step(turn(call("view_pages", pages=pages))).observations

    assert complaint in refused.text
    assert refused.images == ()
    assert world.result().pages_shown == (7,)
    assert len(world.result().refusals) == 1


def test_a_page_outside_of_the_window_is_refused() -> None:
    world = make_world(document=paper_document().window(3, 5), view_pages=True)

    (refused,) = world.step(turn(call("view_pages", pages=[6]))).observations

    assert "pages go from 3 to 5" in refused.text


def test_viewing_asks_for_a_finding_like_retrieving() -> None:
    world = make_world(view_pages=True)

    _, second = world.step(
        turn(call("view_pages", "a", pages=[4]), call("view_pages", "b", pages=[5]))
    ).observations
    (third,) = world.step(turn(retrieve())).observations

    assert second.text == third.text == f"Error: {FINDING_FIRST}"
    assert not world.step(turn(text="9")).done


def test_retrieval_passes_over_pages_that_were_viewed() -> None:
    world = make_world(view_pages=True)
    world.step(turn(call("view_pages", pages=[1, 2])))
    world.step(turn(note(1)))

    (message,) = world.step(turn(retrieve())).observations

    assert [image.page_number for image in message.images] == [3, 4, 5]


def test_a_viewed_page_can_be_cited_from_the_next_turn_on() -> None:
    world = make_world(view_pages=True)

    _, early = world.step(
        turn(call("view_pages", "a", pages=[4]), note(4, call_id="b"))
    ).observations
    (late,) = world.step(turn(note(4))).observations

    assert "was not shown" in early.text
    assert late.text.startswith("Saved.")
