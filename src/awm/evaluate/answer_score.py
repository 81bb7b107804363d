"""From an answer to its score: extracted first where there is an extractor."""

from __future__ import annotations

from collections.abc import Callable

from awm.agent.episode import ErrorRecord, short_answer
from awm.benchmarks import Example
from awm.benchmarks.benchmark import read_as_text
from awm.models.chat import ChatModel
from awm.runs import (
    AnswerScore,
)
from awm.scoring.extraction import ExtractionPrompt, extract_answer
from awm.scoring.score import Judge


async def score_answer(
    example: Example,
    answer: str | None,
    judge: Judge,
    extractor: ChatModel | None = None,
    prompt: ExtractionPrompt | None = None,
    read_prediction: Callable[[str], object] = read_as_text,
) -> AnswerScore:
    """Judge one answer, extracted first where there is an extractor.

    No answer at all (the turn limit, an empty turn) is a measured 0 with a flag; an extractor that
    failed is unmeasured. `read_prediction` is the benchmark's own reading of an extracted answer;
    an answer that was not extracted is judged as text.
    """
    if answer is None or not answer.strip():
        return AnswerScore(prediction=None, score=0.0, flags=("no_answer",))
    extraction = None
    prediction: str | None = short_answer(answer)
    judged: object = prediction
    if extractor is not None and prompt is not None:
        extraction = await extract_answer(example.question.text, answer, extractor, prompt)
        prediction = extraction.answer
        if prediction is None:
            kind, _, message = (extraction.error or "").partition(": ")
            return AnswerScore(
                prediction=None,
                score=None,
                extraction=extraction,
                error=ErrorRecord(type=kind, message=message),
            )
        judged = read_prediction(prediction)
    score = judge.score(example.gold.answer, judged, example.gold.answer_format)
    return AnswerScore(
        prediction=prediction, score=score.value, flags=score.flags, extraction=extraction
    )
