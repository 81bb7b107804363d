"""Further readings of a memory: by other readers, and repeated samples of each reader.

The first reading of the first reader is the run's own and stands in readings.jsonl; everything
else goes to rereadings.jsonl, a record a reading, with its score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from awm.agent.episode import Episode
from awm.agent.reader import read_memory
from awm.benchmarks import Example
from awm.evaluate.settings import EvalSettings
from awm.models.chat import ChatModel
from awm.runs import AnswerScore, RereadingRecord, RunStore

_ScoreAnswer = Callable[[Example, str | None], Awaitable[AnswerScore]]


class FurtherReadings:
    """What a run's settings ask for beyond the first reading, and what it holds of that.

    Args:
        settings: name the readers and the number of samples.
        readers: the models of `settings.all_readers`.
        store: the run.
        score: judges a reader's answer.
    """

    def __init__(
        self,
        settings: EvalSettings,
        readers: Sequence[ChatModel],
        store: RunStore,
        score: _ScoreAnswer,
    ) -> None:
        self._models = dict(zip(settings.reader_names, readers, strict=True))
        self._wanted = [
            (name, sample)
            for i, name in enumerate(settings.reader_names)
            for sample in range(settings.reader_samples)
            if (i, sample) != (0, 0)
        ]
        self._store = store
        self._score = score
        self._measured = {
            (record.question_id, record.reader, record.sample)
            for record in (store.rereadings.read() if self._wanted else ())
            if record.score.score is not None
        }

    def missing(self, question_id: str) -> list[tuple[str, int]]:
        """Give the readings, as reader and sample, that the run does not hold measured."""
        return [wanted for wanted in self._wanted if (question_id, *wanted) not in self._measured]

    async def read(self, example: Example, episode: Episode) -> None:
        """Do what is missing for a question, at once; failures are recorded as unmeasured."""
        if episode.memory is None:
            return
        await asyncio.gather(
            *(
                self._read_one(example, episode, reader, sample)
                for reader, sample in self.missing(example.question.id)
            )
        )

    async def _read_one(self, example: Example, episode: Episode, reader: str, sample: int) -> None:
        model = self._models[reader]
        seed = None if sample == 0 else (model.settings.seed or 0) + sample
        reading = await read_memory(
            example.question.id, example.question.text, episode.memory or (), model, seed=seed
        )
        if reading.error is not None:
            score = AnswerScore(prediction=None, score=None, error=reading.error)
        else:
            score = await self._score(example, reading.answer)
        self._store.rereadings.append(
            RereadingRecord(
                question_id=example.question.id,
                reader=reader,
                sample=sample,
                reading=reading,
                score=score,
            )
        )
        if score.score is not None:
            self._measured.add((example.question.id, reader, sample))
