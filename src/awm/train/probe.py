"""Episodes by rote: what checks look at before a policy has said anything."""

from __future__ import annotations

import json
from itertools import islice

from awm.models.chat import Message, ToolCall, text_message
from awm.train.trl import TrainingWorld

FINDING = "Total sales in Norway were 4.7 million euros in 2020."


def play_by_rote(world: TrainingWorld, n: int) -> list[tuple[Message, ...]]:
    """Play the first `n` questions: retrieve, one finding where a page was shown, an answer."""
    return [_play(world, question_id) for question_id in islice(world.examples, n)]


def _play(world: TrainingWorld, question_id: str) -> tuple[Message, ...]:
    episode = world.open_episode(question_id)
    messages = [*episode.initial_messages()]

    def say(turn: Message) -> None:
        messages.extend((turn, *episode.step(turn).observations))

    say(_call("retrieve", query=world.examples[question_id].question.text))
    pages = episode.result().pages_shown
    if pages:
        say(_call("update_memory", page=pages[0], finding=FINDING))
    say(text_message("assistant", "4.7 million euros"))
    return tuple(messages)


def _call(name: str, **arguments: object) -> Message:
    return Message(role="assistant", tool_calls=(ToolCall(name, json.dumps(arguments)),))
