"""The official scoring rules of LongDocURL, re-implemented without `eval`.

Source: `utils/utils_score_v3.py` of github.com/dengc2023/LongDocURL (arXiv 2412.18424). The
prediction is the extractor's concise answer after `evaluate_concise_answer`. A format outside
"Integer", "Float", "String" and "None" is scored as a list, as in the original. Known faults
stay in: they are mended in `awm.scoring.repaired`.

    >>> judge = LongDocURLJudge()
    >>> judge.score("Adam", "Ada", "String").value, judge.score(5, "5.0", "Integer").value
    (1.0, 0.0)
    >>> judge.score(["apple"], [], "List").flags
    ('official_raises:IndexError',)

Deviations, each with a flag: where the original crashes the score is 0.0
("official_raises:X"); a list written as text that the original would run stays text
("not_evaluated:why"); what has no bounded score is not scored, 0.0 ("too_large"). An answer
that the extractor did not give is 0.0 ("extraction_failed"), as in the original's pipeline.
"""

from __future__ import annotations

from awm.scoring.anls import MAX_CELLS, anls
from awm.scoring.literals import (
    EVALUATION_ERRORS,
    NotEvaluatedError,
    evaluate_expression,
    is_bounded,
    python_text,
)
from awm.scoring.mmlongbench_doc import (
    RIGHT,
    TOO_LARGE,
    WRONG,
    as_score,
    crashed,
    drop_parenthesised,
    floats_are_close,
    is_exact,
    read_int,
    reads_as_float,
    score_text,
    strip_outer_quotes,
)
from awm.scoring.score import Score

EXTRACTION_FAILED = "Fail to extract"
"""What the official pipeline puts for a reply without the answer tag."""
MAX_PAIRS = 40_000
"""Most pairs of two lists' items: each is one edit distance."""

UNITS = (
    "kg",
    "mm",
    "m",
    "meters",
    "acres",
    "minutes",
    "mile",
    "miles",
    "million",
    "thousand",
    "billion",
)
"""Trailing units in the official order. Each is stripped *as a set of letters*."""
_UNIT_ENDINGS = tuple({unit[-1] for unit in UNITS})


class LongDocURLJudge:
    """Scores short answers by the official rules of LongDocURL."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        return "longdocurl"

    def score(self, gold: object, prediction: object, answer_format: str) -> Score:
        """Score `prediction`; `answer_format` is the gold's. Never raises."""
        if not (is_bounded(gold) and is_bounded(prediction)):
            return TOO_LARGE
        if prediction == EXTRACTION_FAILED:
            return Score(0.0, ("extraction_failed",))
        try:
            if answer_format == "Integer":
                return RIGHT if _ints_match(gold, prediction) else WRONG
            if answer_format == "Float":
                return RIGHT if _floats_match(gold, prediction) else WRONG
            if answer_format in ("String", "None"):
                return as_score(score_text(clean(gold), clean(prediction)))
            return _score_list_answer(gold, prediction)
        except NotEvaluatedError:
            return TOO_LARGE
        except EVALUATION_ERRORS as error:
            return crashed(error)


def clean(value: object) -> str:
    """Lower the case; drop commas, units, parenthesised text, quotes, leading $ £, trailing %.

    "Adam" loses its "m" as "5 m" does, "item" and "ite" end up equal.
    """
    text = value if isinstance(value, str) else python_text(value)
    text = text.lower().strip().replace(",", "")
    if text.endswith(_UNIT_ENDINGS):
        for unit in UNITS:
            if text.endswith(unit):
                text = text.rstrip(unit).strip()
    text = drop_parenthesised(text) if "(" in text else text.strip()
    if text and (text[0] in "'\"$£" or text[-1] in "'\"%"):
        text = strip_outer_quotes(text).lstrip("$").strip().lstrip("£").strip()
        text = text.rstrip("%").strip()
    return text


def _ints_match(gold: object, prediction: object) -> bool:
    # What is not an integer compares as the cleaned text in the gold, as empty in the prediction.
    gold_side: object = gold
    try:
        gold_side = clean(gold)
        gold_side = read_int(gold_side)
    except ValueError:
        pass
    try:
        return gold_side == read_int(clean(prediction))
    except ValueError:
        return gold_side == ""


def _floats_match(gold: object, prediction: object) -> bool:
    gold_text, prediction_text = clean(gold), clean(prediction)
    try:
        return floats_are_close(_read_float(gold_text), _read_float(prediction_text))
    except ValueError:
        return False


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        # The official comparison strips once more: "5% %" is 5.
        return float(text.rstrip("%").strip())


def _score_list_answer(gold: object, prediction: object) -> Score:
    golds, gold_flags = _as_list(gold)
    predictions, prediction_flags = _as_list(prediction)
    golds, predictions = _join_dict_items(golds), _join_dict_items(predictions)
    score = as_score(_score_lists([*map(clean, golds)], [*map(clean, predictions)]))
    flags = gold_flags + prediction_flags
    return Score(score.value, score.flags + flags) if flags else score


def _as_list(value: object) -> tuple[list[object], tuple[str, ...]]:
    """Parse a list written as text; text that does not evaluate is the only item."""
    flags: tuple[str, ...] = ()
    if isinstance(value, str) and value.startswith("["):
        try:
            value = evaluate_expression(value)
        except NotEvaluatedError as refusal:
            flags = (f"not_evaluated:{refusal}",)
        except EVALUATION_ERRORS:
            pass
        if not is_bounded(value):
            raise NotEvaluatedError("too_large")
    return (value if isinstance(value, list) else [value]), flags


def _join_dict_items(items: list[object]) -> list[object]:
    """Write each dict as its values joined by "-", where the first item is a dict.

    Raises:
        IndexError: no items, a crash of the original.
        AttributeError: a later item that is no dict, a crash of the original.
    """
    if not isinstance(items[0], dict):
        return items
    joined: list[object] = []
    for item in items:
        if not isinstance(item, dict):
            raise AttributeError(f"{type(item).__name__!r} object has no attribute 'items'")
        joined.append("-".join(map(python_text, item.values())))
    return joined


def _score_lists(golds: list[str], predictions: list[str]) -> float | None:
    """Return the mean over golds of the best ANLS, lowered where there are more predictions.

    Where the first gold is a number or of an exact kind: all items equal, in order.
    """
    if reads_as_float(golds[0]) or is_exact(golds[0]):
        return 1.0 if "-".join(golds) == "-".join(predictions) else 0.0
    n_pairs = len(golds) * len(predictions)
    if n_pairs > MAX_PAIRS or (
        n_pairs > 1 and sum(map(len, golds)) * sum(map(len, predictions)) > MAX_CELLS
    ):
        return None
    present = set(predictions)
    best_values: list[float] = []
    for gold in golds:
        best = 1.0 if gold in present else 0.0
        if not best:
            for prediction in predictions:
                value = anls(gold, prediction)
                if value is None:
                    return None
                if value > best:
                    best = value
        best_values.append(best)
    length_ratio = len(golds) / len(predictions)
    return float(sum(best_values) / len(golds) * min(1, length_ratio) ** 0.5)
