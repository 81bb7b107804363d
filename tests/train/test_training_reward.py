"""Rewards while training: all at once, in time, and never 0 for what was not measured."""

from __future__ import annotations

import time
from typing import Any

import pytest
from training_world import make_world, scripted_reader

from awm.agent.environment import EnvironmentResult
from awm.errors import ConfigError, EndpointError
from awm.memory import Finding
from awm.models.scripted import Script, ScriptedModel, ScriptedReply
from awm.rl.reward import RewardSettings
from awm.train.reward import MemoryReward, TrajectoryScorer

WORLD = make_world(2)
EXAMPLE = next(iter(WORLD.examples.values()))
GOLD = str(EXAMPLE.gold.answer)


def ended(answer: str | None, *findings: str) -> EnvironmentResult:
    memory = tuple(Finding(text=text, page=1, turn=1) for text in findings)
    return EnvironmentResult(answer, memory, "answered", (1,), 3, (), 1)


def scorer(reader: ScriptedModel, **settings: Any) -> TrajectoryScorer:
    return TrajectoryScorer(WORLD.benchmark, reader, RewardSettings(**settings))


async def test_the_four_cells_get_their_rewards() -> None:
    right = scorer(scripted_reader(GOLD))
    wrong = scorer(scripted_reader("no idea"))

    scored = [
        await right.score(EXAMPLE, ended(GOLD, "a fact")),
        await wrong.score(EXAMPLE, ended(GOLD, "a fact")),
        await right.score(EXAMPLE, ended(None, "a fact")),
        await wrong.score(EXAMPLE, ended("no idea", "a fact")),
    ]

    assert [s.reward for s in scored] == [1.0, 0.7, 0.2, 0.0]
    assert [s.error for s in scored] == [None] * 4


async def test_a_reader_that_fails_leaves_the_reward_unmeasured() -> None:
    scored = await scorer(scripted_reader(GOLD, blurred="timeout")).score_all(
        [(EXAMPLE, ended(GOLD, "clear")), (EXAMPLE, ended(GOLD, "blurred"))]
    )

    assert scored[0].reward == 1.0
    assert (scored[1].reward, scored[1].memory_score) == (None, None)
    assert scored[1].final_score == 1.0
    assert "EndpointTimeoutError" in (scored[1].error or "")


async def test_a_reader_that_is_too_slow_is_unmeasured() -> None:
    slow = ScriptedModel(
        [Script(replies=(ScriptedReply(content=GOLD, delay_s=30.0),), repeat_last=True)]
    )
    impatient = TrajectoryScorer(WORLD.benchmark, slow, RewardSettings(), timeout_s=0.05)

    scored = await impatient.score(EXAMPLE, ended(GOLD, "a fact"))

    assert scored.reward is None
    assert "no score within 0.05 s" in (scored.error or "")


async def test_a_batch_is_read_at_once() -> None:
    slow = ScriptedModel(
        [Script(replies=(ScriptedReply(content=GOLD, delay_s=0.1),), repeat_last=True)]
    )
    began = time.perf_counter()

    await scorer(slow).score_all([(EXAMPLE, ended(GOLD, "a fact"))] * 32)

    assert time.perf_counter() - began < 1.0


async def test_training_stops_when_the_reader_is_down() -> None:
    reward = MemoryReward(scorer(scripted_reader(GOLD, fact="timeout")), 0.5)
    environment = WORLD.new_environment()
    environment.reset(question_id=EXAMPLE.question.id)
    with pytest.raises(EndpointError, match="2 of 2 trajectories have no reward"):
        await reward(
            completions=[[{"role": "assistant", "content": GOLD}]] * 2,
            environments=[_with_memory(environment), _with_memory(environment)],
        )


async def test_self_consistency_reads_several_times() -> None:
    reader = scripted_reader(GOLD)

    scored = await scorer(reader, self_consistency_weight=0.1).score(EXAMPLE, ended(GOLD, "fact"))

    assert scored.terms == {"outcome": 1.0, "self_consistency": pytest.approx(0.1)}
    assert len(reader.conversations) == 4


def test_a_term_that_training_cannot_measure_is_refused() -> None:
    with pytest.raises(ConfigError, match="grounding_weight"):
        scorer(scripted_reader(), grounding_weight=0.1)


def _with_memory(environment: Any) -> Any:
    class Ended:
        _world, _question_id = environment._world, environment._question_id

        def _conclude(self, completion: object) -> None:
            pass

        def _result(self) -> EnvironmentResult:
            return ended(GOLD, "a fact")

    return Ended()
