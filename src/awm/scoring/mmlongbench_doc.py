"""The official scoring rules of MMLongBench-Doc, re-implemented without `eval`.

Source: `eval/eval_score.py` of github.com/mayubo2333/MMLongBench-Doc (arXiv 2407.01523). The
gold's format chooses the rule; a format outside "Int", "Float", "Str" and "None" is scored as
a list, as in the original. Known faults stay in: they are mended in `awm.scoring.repaired`.

    >>> judge = MMLongBenchDocJudge()
    >>> judge.score(5, "5.9", "Int").value, judge.score("(B)", "(C)", "Str").value
    (1.0, 1.0)
    >>> judge.score("1,200.5", "1,200.5", "Float").flags
    ('official_raises:ValueError',)

Deviations, each with a flag: where the original crashes the score is 0.0
("official_raises:X"); text that the original would run is not run, 0.0 ("not_evaluated:why");
what has no bounded score is not scored, 0.0 ("too_large").
"""

from __future__ import annotations

import re
from math import isclose

from awm.scoring.anls import anls
from awm.scoring.literals import (
    EVALUATION_ERRORS,
    NotEvaluatedError,
    evaluate_expression,
    is_bounded,
    python_text,
)
from awm.scoring.score import Score

RIGHT = Score(1.0)
WRONG = Score(0.0)
TOO_LARGE = Score(0.0, ("too_large",))
"""The answer is too large, or of a type that no answer has."""

MAX_PARENTHESES = 50_000
"""Most opening parentheses in one text; each costs a step of its own."""
MAX_INT_CHARS = 5_000
"""Python refuses to read more than 4,300 digits unless that limit is switched off."""

# The whitespace before a parenthesis belongs to it. The look-behind keeps a long run of
# whitespace from being tried from each of its positions.
_PARENTHESISED = re.compile(r"(?<!\s)\s*+\([^)]*+\)")
_PHONE_OR_YEAR_MONTH = re.compile(r"\d++(?:[-\s]\d++)?")
_DATE = re.compile(r"\d{4}[-\s]\d{2}[-\s]\d{2}")
_EMAIL_BEFORE_ENDING = re.compile(r"[a-zA-Z0-9._%+-]++@[a-zA-Z0-9.-]++")
_EMAIL_ENDING = re.compile(r"[a-zA-Z]{2,}+")


class MMLongBenchDocJudge:
    """Scores short answers by the official rules of MMLongBench-Doc."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        return "mmlongbench-doc"

    def score(self, gold: object, prediction: object, answer_format: str) -> Score:
        """Score `prediction`; `answer_format` is the gold's. Never raises."""
        if not (is_bounded(gold) and is_bounded(prediction)):
            return TOO_LARGE
        try:
            if answer_format == "Int":
                return RIGHT if _ints_match(gold, prediction) else WRONG
            if answer_format == "Float":
                return RIGHT if _floats_match(gold, prediction) else WRONG
            if answer_format in ("Str", "None"):
                value = score_text(clean(gold), clean(prediction))
            else:
                value = _score_lists(_as_list(gold), _as_list(prediction))
        except NotEvaluatedError as refusal:
            return TOO_LARGE if str(refusal) == "too_large" else refused(refusal)
        except EVALUATION_ERRORS as error:
            return crashed(error)
        return as_score(value)


def crashed(error: Exception) -> Score:
    """Score an answer on which the official function raises `error`."""
    return Score(0.0, (f"official_raises:{type(error).__name__}",))


def refused(refusal: NotEvaluatedError) -> Score:
    """Score an answer that the official function would run."""
    return Score(0.0, (f"not_evaluated:{refusal}",))


def as_score(value: float | None) -> Score:
    """Wrap a value; None is one that could not be computed in bounded time."""
    if value is None:
        return TOO_LARGE
    if value == 1.0:
        return RIGHT
    return Score(value) if value else WRONG


def clean(value: object) -> str:
    """Lower the case; drop parenthesised text, outer quotes, leading $ and trailing %.

    The original also means to strip "mile", "miles" and "million", and drops the result.
    """
    text = (value if isinstance(value, str) else python_text(value)).lower().strip()
    if "(" in text:
        text = drop_parenthesised(text)
    if text and (text[0] in "'\"$" or text[-1] in "'\"%"):
        text = strip_outer_quotes(text).lstrip("$").strip().rstrip("%").strip()
    return text


def drop_parenthesised(text: str) -> str:
    """Remove each "(" up to the next ")", with the whitespace before it; strip the rest.

    Raises:
        NotEvaluatedError: more parentheses than can be removed in bounded time.
    """
    end = text.rfind(")") + 1  # beyond it no parenthesis is closed, and none is removed
    if text.count("(", 0, end) > MAX_PARENTHESES:
        raise NotEvaluatedError("too_large")
    return (_PARENTHESISED.sub("", text[:end]) + text[end:]).strip()


def strip_outer_quotes(text: str) -> str:
    """Remove one leading and one trailing quote, matching or not; strip the rest."""
    if text and text[0] in "'\"":
        text = text[1:]
    if text and text[-1] in "'\"":
        text = text[:-1]
    return text.strip()


def is_exact(gold: str) -> bool:
    """Tell whether a cleaned gold answer must be matched exactly.

    A URL, a code file, a page, a number or phone number, a time, a date, an e-mail address.
    """
    return (
        (gold[:1].isdecimal() and (_matches_number(gold)))
        or gold.startswith("page")
        or gold.endswith((".py", "ipynb"))
        or "https://" in gold
        or "a.m." in gold
        or "p.m." in gold
        or ("@" in gold and _is_email(gold))
    )


def _matches_number(gold: str) -> bool:
    return (_PHONE_OR_YEAR_MONTH.fullmatch(gold) or _DATE.fullmatch(gold)) is not None


def _is_email(gold: str) -> bool:
    address, _, ending = gold.rpartition(".")
    return bool(_EMAIL_ENDING.fullmatch(ending) and _EMAIL_BEFORE_ENDING.fullmatch(address))


def score_text(gold: str, prediction: str) -> float | None:
    """Score two cleaned texts; None where the edit distance is too large to compute."""
    if gold == prediction:
        return 1.0
    return 0.0 if is_exact(gold) else anls(gold, prediction)


def reads_as_float(text: str) -> bool:
    """Tell whether Python's `float` takes the text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_int(value: object) -> int:
    """Apply Python's `int`, whose time is bounded here even where its digit limit is off.

    Raises:
        OverflowError, TypeError, ValueError: as `int` raises them.
    """
    if isinstance(value, str) and len(value) > MAX_INT_CHARS:
        value = value.strip()
        if len(value) > MAX_INT_CHARS:
            raise ValueError(f"an integer of {len(value)} characters is too long to read")
    return int(value)  # type: ignore[call-overload, no-any-return]


def floats_are_close(gold: float, prediction: float) -> bool:
    """Compare by the benchmarks' rule: within 1 %, or equal when rounded.

    The gold counts as such, as a hundredth and as the hundredfold. Both are rounded to the
    smaller number of decimals that Python prints (3 where it prints none), but at least to 2.
    """
    for candidate in (gold / 100, gold, gold * 100):
        if isclose(candidate, prediction, rel_tol=0.01):
            return True
        if abs(candidate - prediction) > 0.011:
            continue  # rounded to two decimals or more they cannot be equal
        decimals = max(min(_count_decimals(prediction), _count_decimals(candidate)), 2)
        if round(prediction, decimals) == round(candidate, decimals):
            return True
    return False


def _count_decimals(number: float) -> int:
    _, point, decimals = str(number).partition(".")
    return len(decimals) if point else 3


def _ints_match(gold: object, prediction: object) -> bool:
    try:
        return read_int(gold) == int(float(prediction))  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        # The original then compares the gold as it stands with an empty prediction.
        return gold == ""


def _floats_match(gold: object, prediction: object) -> bool:
    gold_number = float(clean(gold))  # a crash of the original where it fails
    try:
        prediction_number = float(clean(prediction))
    except ValueError:
        return False
    return floats_are_close(gold_number, prediction_number)


def _as_list(value: object) -> list[object]:
    if isinstance(value, str) and value.startswith("["):
        value = evaluate_expression(value)
        if not is_bounded(value):
            raise NotEvaluatedError("too_large")
    return value if isinstance(value, list) else [value]


def _score_lists(gold: list[object], prediction: list[object]) -> float | None:
    if len(gold) != len(prediction):
        return 0.0
    golds = sorted(map(clean, gold))
    predictions = sorted(map(clean, prediction))
    first = golds[0]  # a crash of the original where both are empty
    if reads_as_float(first) or is_exact(first):
        return 1.0 if "-".join(golds) == "-".join(predictions) else 0.0
    lowest = 1.0
    for gold_text, prediction_text in zip(golds, predictions, strict=True):
        value = anls(gold_text, prediction_text)
        if value is None:
            return None
        if value < lowest:
            lowest = value
    return lowest
