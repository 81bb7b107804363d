"""Whole episodes against files: any change of a message, a prompt or the record shows as a diff.

The files are the records of `CASES`, played over a document whose pages are the same on every
machine. After a change that is meant, write them anew and read the diff before committing it::

    AWM_WRITE_GOLDEN=1 pytest tests/agent/test_golden_episode.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from agent_world import QUESTION, pages_in_order, paper_document, scripted, tagged

from awm.agent.environment import AgentSettings
from awm.agent.episode import Episode, Setting, run_episode
from awm.models.scripted import ScriptedCall, ScriptedReply

FOLDER = Path(__file__).parent / "golden"


def structured(*calls: tuple[str, str], **fields: Any) -> ScriptedReply:
    """Make a reply of structured calls with ids "c0", "c1" and so on."""
    return ScriptedReply(
        tool_calls=tuple(
            ScriptedCall(name=name, arguments=arguments, id=f"c{index}")
            for index, (name, arguments) in enumerate(calls)
        ),
        **fields,
    )


WALK = (
    structured(("retrieve", '{"query": "night trams"}'), reasoning="Look for the timetable."),
    "9",  # refused: no finding yet
    structured(
        ("update_memory", '{"page": 2, "finding": "At night 9 trams run."}'),
        ("update_memory", '{"page": 7, "finding": "Never seen."}'),  # refused: not shown
        ("retrieve", '{"query": "fares"}'),
    ),
    "<think>One page left.</think>" + tagged("update_memory", page=4, finding="No fares."),
    "<tool_call>{",  # refused: unclosed
    "<think>9 it is.</think>Answer: 9",
)
CASES: dict[str, tuple[Setting, AgentSettings, tuple[str | ScriptedReply, ...]]] = {
    "agent_answered": ("agent", AgentSettings(), WALK),
    "agent_step_limit": ("agent", AgentSettings(max_turns=3, view_pages=True), WALK),
    "rag": ("rag", AgentSettings(top_k=2), ("<think>Two pages.</think>9",)),
}


async def play(case: str) -> Episode:
    setting, settings, replies = CASES[case]
    return await run_episode(
        QUESTION,
        paper_document(),
        scripted(*replies),
        pages_in_order(5, 2, 9, 4),
        setting=setting,
        settings=settings,
    )


@pytest.mark.parametrize("case", CASES)
async def test_an_episode_is_recorded_as_the_golden_file_says(case: str) -> None:
    path = FOLDER / f"{case}.json"
    episode = await play(case)
    if os.environ.get("AWM_WRITE_GOLDEN"):
        path.write_text(episode.model_dump_json(indent=1) + "\n", encoding="utf-8")

    # latency_s is 0.0 in a scripted episode, so the whole record can be compared.
    assert json.loads(episode.model_dump_json()) == json.loads(path.read_text(encoding="utf-8"))


def test_every_golden_file_belongs_to_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(CASES)


async def test_the_golden_walk_counts_what_the_script_does() -> None:
    episode = await play("agent_answered")

    # Images shown: 5, 2, 9, then 4. Requests carry 0, 3, 3, 4, 4 and 4 of them.
    assert episode.pages_shown == (5, 2, 9, 4)
    assert episode.images_shown == 4
    assert [call.images_sent for call in episode.calls] == [0, 3, 3, 4, 4, 4]
    assert episode.images_sent == 18
    assert [refusal.turn for refusal in episode.refusals] == [1, 2, 4]
    assert episode.turns == 6


async def test_a_record_survives_the_trip_through_its_file() -> None:
    episode = await play("agent_answered")

    assert Episode.model_validate_json(episode.model_dump_json()) == episode
