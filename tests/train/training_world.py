"""A small world for training tests: pocket questions, scripted policies, hand-made settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from awm.agent.environment import AgentSettings
from awm.benchmarks.pocket import load_pocket
from awm.documents import RenderSettings
from awm.evaluate import EvalSettings, evaluate
from awm.models.chat import Message, ModelSettings, text_message
from awm.models.scripted import Script, ScriptedModel
from awm.pocket.grpo import training_benchmark
from awm.train.config import DataSource, GRPOSettings, PolicySettings
from awm.train.trl import TrainingWorld


def call(name: str, **arguments: object) -> str:
    """Write a call as a policy writes it."""
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{written}\n</tool_call>"


def make_world(n_questions: int = 4, **agent: Any) -> TrainingWorld:
    """Make a world of training questions."""
    benchmark = training_benchmark(0, n_questions)
    settings = AgentSettings(**agent)
    return TrainingWorld(benchmark, benchmark.examples, settings, RenderSettings())


def scripted_reader(answer: str = "Not answerable", **errors: str) -> ScriptedModel:
    """Make a reader that gives one answer, and fails where its notes hold a word of `errors`."""
    failing = [
        Script.model_validate({"match": word, "replies": [{"error": kind}], "repeat_last": True})
        for word, kind in errors.items()
    ]
    return ScriptedModel([*failing, Script(match="", replies=(answer,), repeat_last=True)])


def play(world: TrainingWorld, question_id: str, turns: Sequence[str | Message]) -> list[Message]:
    """Play turns through the environment of evaluation, and give the conversation."""
    episode = world.open_episode(question_id)
    messages = [*episode.initial_messages()]
    for turn in turns:
        said = text_message("assistant", turn) if isinstance(turn, str) else turn
        messages += (said, *episode.step(said).observations)
    return messages


def grpo_settings(policy_folder: Path, out: Path, **changes: Any) -> GRPOSettings:
    """Give settings of a training that takes seconds."""
    values: dict[str, Any] = {
        "policy": PolicySettings(path=str(policy_folder), dtype="float32"),
        "out": out,
        "learning_rate": 1e-3,
        "train": DataSource(benchmark="pocket-train", limit=8),
        "reader": ModelSettings(spec="lexical"),
        "steps": 3,
        "questions_per_step": 2,
        "group_size": 4,
        "micro_batch": 8,
        "max_completion_tokens": 420,
        "max_turn_tokens": 24,
        "save_every": 1,
    }
    return GRPOSettings(**{**values, **changes})


def make_run(
    folder: Path, *, n_questions: int = 6, generic: Sequence[int] = (), clumsy: Sequence[int] = ()
) -> Path:
    """Make a run of pocket questions that a scripted agent answers rightly.

    Args:
        folder: where scripts and the run go.
        n_questions: how many.
        generic: numbers of questions from whose memory the reader cannot answer.
        clumsy: numbers of questions with a refused call.
    """
    benchmark = load_pocket(5)
    examples = benchmark.examples[:n_questions]
    world = TrainingWorld(benchmark, examples)
    agent, reader = [], []
    for number, example in enumerate(examples):
        gold = str(example.gold.answer)
        look = call("retrieve", query="cost")
        episode = world.open_episode(example.question.id)
        episode.step(text_message("assistant", look))
        note = call("update_memory", page=episode.result().pages_shown[0], finding=f"It is {gold}.")
        bad = [call("retrieve", question="?")] if number in clumsy else []
        match = example.question.text
        agent.append({"match": match, "replies": [*bad, look, note, gold]})
        known = "unknown" if number in generic else gold
        reader.append({"match": match, "replies": [known], "repeat_last": True})
    specs = {}
    folder.mkdir(parents=True, exist_ok=True)
    for role, scripts in (("agent", agent), ("reader", reader)):
        path = folder / f"{role}.jsonl"
        path.write_text("".join(json.dumps(s) + "\n" for s in scripts), encoding="utf-8")
        specs[role] = ModelSettings(spec=f"scripted:{path}")
    settings = EvalSettings(
        benchmark="pocket",
        seed=5,
        run=folder / "run",
        model=specs["agent"],
        reader=specs["reader"],
        limit=n_questions,
    )
    return asyncio.run(evaluate(settings))
