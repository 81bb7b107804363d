"""The reward of rollouts, measured while training: frozen reader, judge, outcome cell.

All trajectories of a batch are read and judged at once; the models' own limits (`max_in_flight`)
and retries apply. A trajectory whose reader or extractor failed after the retries, or took longer
than `timeout_s`, has no reward: TRL gets None for it, it is left out of its group, and it is
counted. It never becomes 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from awm.agent.environment import EnvironmentResult
from awm.agent.reader import read_memory
from awm.benchmarks import Benchmark, Example
from awm.errors import ConfigError, EndpointError
from awm.evaluate import score_answer
from awm.models.chat import ChatModel
from awm.rl.reward import RewardSettings, TrajectoryMeasures, agreement_share, compute_reward
from awm.runs import AnswerScore
from awm.scoring.extraction import ExtractionPrompt

CONSISTENCY_ROLLOUTS = 4
"""Readings of a memory where the self-consistency term is in use; ours."""


@dataclass(frozen=True, slots=True)
class ScoredTrajectory:
    """What was measured of one rollout."""

    question_id: str
    final_score: float | None
    memory_score: float | None
    reward: float | None
    """None: unmeasured."""
    terms: dict[str, float]
    n_refusals: int
    n_images: int
    n_findings: int
    turns: int
    is_answered: bool
    is_cut: bool = False
    """It ended at a token limit."""
    error: str | None = None
    """Why it is unmeasured."""


class TrajectoryScorer:
    """Reads memories, judges answers, and turns both into rewards.

    Args:
        benchmark: its judge and its reading of answers.
        reader: the frozen reader.
        settings: what a trajectory is worth.
        extractor: shortens answers before the judge; None: they are judged as they are.
        prompt: the extractor's prompt.
        timeout_s: limit of one trajectory.

    Raises:
        ConfigError: a term is in use that training cannot measure.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        reader: ChatModel,
        settings: RewardSettings,
        *,
        extractor: ChatModel | None = None,
        prompt: ExtractionPrompt | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        if settings.grounding_weight:
            raise ConfigError(
                "grounding_weight needs a check of every finding against its page, which training "
                "does not make; set it to 0"
            )
        self.benchmark = benchmark
        self.reader = reader
        self.extractor = extractor
        self.settings = settings
        self.prompt = prompt
        self._timeout_s = timeout_s

    async def score_all(
        self, rollouts: Sequence[tuple[Example, EnvironmentResult]]
    ) -> list[ScoredTrajectory]:
        """Score a batch, all at once, in its order."""
        return list(await asyncio.gather(*(self.score(e, result) for e, result in rollouts)))

    async def score(self, example: Example, result: EnvironmentResult) -> ScoredTrajectory:
        """Score one trajectory; what fails is in the record, not raised."""
        final: AnswerScore | None = None
        memory: AnswerScore | None = None
        consistency: float | None = None
        error: str | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                final, (memory, consistency) = await asyncio.gather(
                    self._judge(example, result.answer), self._read(example, result)
                )
        except TimeoutError:
            error = f"no score within {self._timeout_s} s"
        except EndpointError as problem:
            error = f"{type(problem).__name__}: {problem}"
        for scored in (final, memory):
            if scored is not None and scored.error is not None:
                error = f"{scored.error.type}: {scored.error.message}"
        findings = result.memory or ()
        measures = TrajectoryMeasures(
            final_score=final.score if final else None,
            memory_score=memory.score if memory else None,
            self_consistency=consistency,
            memory_words=sum(len(finding.text.split()) for finding in findings),
        )
        reward = compute_reward(measures, self.settings)
        return ScoredTrajectory(
            question_id=example.question.id,
            final_score=measures.final_score,
            memory_score=measures.memory_score,
            reward=reward.total if reward else None,
            terms=reward.terms if reward else {},
            n_refusals=len(result.refusals),
            n_images=result.images_shown,
            n_findings=len(findings),
            turns=result.turns,
            is_answered=result.answer is not None,
            error=error,
        )

    async def _judge(self, example: Example, answer: str | None) -> AnswerScore:
        benchmark = self.benchmark
        return await score_answer(
            example,
            answer,
            benchmark.judge,
            self.extractor,
            self.prompt,
            benchmark.read_prediction,
        )

    async def _read(
        self, example: Example, result: EnvironmentResult
    ) -> tuple[AnswerScore, float | None]:
        n = CONSISTENCY_ROLLOUTS if self.settings.self_consistency_weight else 1
        question, findings = example.question, result.memory or ()
        readings = await asyncio.gather(
            *(
                read_memory(question.id, question.text, findings, self.reader, seed=k or None)
                for k in range(n)
            )
        )
        first = readings[0]
        agreement = agreement_share([r.answer for r in readings]) if n > 1 else None
        if first.error is not None:
            return AnswerScore(prediction=None, score=None, error=first.error), agreement
        return await self._judge(example, first.answer), agreement


class MemoryReward:
    """The reward function that TRL calls; asynchronous, one call a batch.

    Args:
        scorer: what measures.
        max_unmeasured_share: with a larger share of a batch unmeasured, training stops.
    """

    __name__ = "awm"

    def __init__(self, scorer: TrajectoryScorer, max_unmeasured_share: float = 0.5) -> None:
        self._scorer = scorer
        self._limit = max_unmeasured_share
        self.last: list[ScoredTrajectory] = []
        """Of the latest call."""

    async def __call__(
        self, completions: Sequence[Any], environments: Sequence[Any], **_: Any
    ) -> list[float | None]:
        """Give a reward for each rollout, None where it is unmeasured.

        Raises:
            AgentError: an environment failed.
            EndpointError: too much of the batch is unmeasured.
        """
        rollouts = []
        for environment, completion in zip(environments, completions, strict=True):
            environment._conclude(completion)
            example = environment._world.example(environment._question_id)
            rollouts.append((example, environment._result()))
        self.last = await self._scorer.score_all(rollouts)
        self._stop_if_unmeasured()
        return [scored.reward for scored in self.last]

    def _stop_if_unmeasured(self) -> None:
        failed = [scored for scored in self.last if scored.reward is None]
        if len(failed) > self._limit * len(self.last):
            raise EndpointError(
                f"{len(failed)} of {len(self.last)} trajectories have no reward, more than "
                f"max_unmeasured_share = {self._limit} allows; the last: {failed[-1].error}. Mend "
                "the reader or judge and start the same command to resume from the checkpoint"
            )
