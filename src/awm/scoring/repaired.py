"""Repaired scores: the official rule with its known faults mended, beside the official score.

A score is changed only by a named rule, and the names are returned. Most rules raise: both
answers are rewritten into the same form before they are compared. Five can lower a score, each
where the official rule takes two different answers for one (`LOWERING_RULES`). What the
benchmarks decide on purpose stays: the 1 % tolerance and the factors of 100 of Float, partial
credit for similar text, 0 for a list of another length (MMLongBench-Doc).

| rule | what it mends |
|---|---|
| thousands_separators | 1234 and "1,234"; also 3456 where LongDocURL's `eval` made (3, 456) |
| unit, scale_word, percent_sign, currency_sign, minus_sign | "5 kg" and 5, unless units differ |
| number_words | "seven" and 7, up to 999,999,999 |
| quotes, trailing_full_stop, whitespace | “Page 5.” and "page 5" |
| lead_in, article, hyphens | "The answer is less well off" and "less well-off" |
| same_number | 5 and "5.0", as text or as Integer |
| refusal_wording | "Unanswerable", "Fail to answer" for "Not answerable" |
| gold_not_a_number | an Int gold such as "14:04 CET" is compared as text |
| list_as_text, list_order, duplicates | "b, a" and ["a", "b"] |
| empty_list | [] and [], on which both originals crash |
| int_truncation (lowers) | Int 5 and 5.9 |
| numbers_differ (lowers) | partial credit for "1,235" against "1,234"; 5 kg and 5 mm |
| parenthesised_answer (lowers) | "(B)" and "(C)", both cleaned to nothing; raises "(B)" and "B" |
| unit_letters (lowers) | LongDocURL strips letters: "Adam" and "Ada" |
| exact_items (lowers) | similar URLs in a list that does not start with one |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from awm.scoring import longdocurl, mmlongbench_doc
from awm.scoring.anls import anls
from awm.scoring.literals import (
    EVALUATION_ERRORS,
    NotEvaluatedError,
    evaluate_expression,
    is_bounded,
    python_text,
)
from awm.scoring.quantities import Quantity, paired_readings, read_quantity, units_agree
from awm.scoring.score import Score

LOWERING_RULES = frozenset(
    {"int_truncation", "numbers_differ", "parenthesised_answer", "unit_letters", "exact_items"}
)
"""The rules that may make a repaired score lower than the official one."""

MAX_CHARS = 4_000
"""Longest answer that is repaired, in characters; a longer one keeps its official score."""
MAX_ITEMS = 48
"""Longest list that is repaired."""

_TEXT_FORMATS = ("Str", "String", "None")
_NUMBER_FORMATS = ("Int", "Integer", "Float")
_REFUSALS = frozenset(
    {
        "not answerable",
        "unanswerable",
        "fail to answer",
        "failed to answer",
        "cannot be answered",
        "can not be answered",
        "not answerable from the document",
    }
)
_PLAIN_PUNCTUATION = str.maketrans(
    "\u2010\u2011\u2012\u2013\u2014\u2212\u2018\u2019\u201c\u201d", "------''\"\""
)
"""Dashes and curly quotes, which neither official rule knows, to those of a keyboard."""
_LEAD_IN = re.compile(r"^(?:the )?answer(?: is|:) (?=\S)")
_ARTICLE = re.compile(r"^(?:the|an?) (?=\S{3})")
_HYPHEN_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_COMMA_BETWEEN_ITEMS = re.compile(r",(?!\d{3}(?!\d))|(?<!\d),")


@dataclass(frozen=True, slots=True)
class RepairedScore:
    """A score after the repairs."""

    value: float
    """In [0, 1]; the official value where no rule changed it."""
    rules: tuple[str, ...] = ()
    """Names of the rules behind the change, sorted; empty where the value is the official one."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One answer, or one item of a list, in the form that is compared."""

    form: str
    """Rewritten by every rule: two equal forms are the same answer."""
    near_form: str
    """Without the rules for articles and hyphens, which would add to partial credit."""
    official_form: str
    """Cleaned by the benchmark's own rule."""
    quantity: Quantity | None
    rules: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Comparison:
    value: float
    rules: frozenset[str]


def repaired_score(
    judge_name: str, gold: object, prediction: object, answer_format: str, official: Score
) -> RepairedScore:
    """Score once more with the known faults mended. Never raises.

    Args:
        judge_name: name of the judge that gave `official`.
        gold: as for the judge.
        prediction: as for the judge.
        answer_format: the gold's.
        official: the official score of the same answer.
    """
    unchanged = RepairedScore(official.value)
    if not (_is_short(gold) and _is_short(prediction)):
        return unchanged
    is_longdocurl = judge_name == "longdocurl"
    try:
        if answer_format in _NUMBER_FORMATS:
            mended = _compare_numbers(gold, prediction, answer_format, is_longdocurl)
        elif answer_format in _TEXT_FORMATS:
            mended = _compare(
                _side(gold, is_longdocurl), _side(prediction, is_longdocurl), whole_answer=True
            )
        else:
            mended = _compare_lists(gold, prediction, is_longdocurl)
    except (NotEvaluatedError, *EVALUATION_ERRORS):
        return unchanged
    if mended is None or abs(mended.value - official.value) < 1e-12:
        return unchanged
    if mended.value < official.value and not mended.rules & LOWERING_RULES:
        return unchanged
    if not mended.rules:
        return unchanged
    return RepairedScore(mended.value, tuple(sorted(mended.rules)))


def _is_short(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_CHARS
    if isinstance(value, list | tuple | set | dict):
        return len(value) <= MAX_ITEMS and is_bounded(value) and len(_text(value)) <= MAX_CHARS
    return is_bounded(value) and len(_text(value)) <= MAX_CHARS


def _text(value: object) -> str:
    try:
        return value if isinstance(value, str) else python_text(value)
    except ValueError:
        return " " * (MAX_CHARS + 1)  # an integer that cannot be printed is not short


def _side(value: object, is_longdocurl: bool) -> _Side:
    """Rewrite one answer, noting the rules that did so."""
    rules = set[str]()
    official_form = (longdocurl if is_longdocurl else mmlongbench_doc).clean(value)
    form = _text(value).translate(_PLAIN_PUNCTUATION).lower().strip()
    form = _apply("lead_in", _LEAD_IN.sub("", form, count=1), form, rules)
    form = _apply("quotes", _strip_quotes(form), form, rules)
    if is_longdocurl:
        form = form.replace(",", "")
        loses_letters = form.endswith(longdocurl.UNITS)
        if loses_letters and not any(letter.isdigit() for letter in form):
            rules.add("unit_letters")
    if "(" in form:
        form = _drop_parenthesised(form, rules)
    quantity = read_quantity(form)
    if form.count(".") == 1:  # "a.m." and "U.S." keep theirs
        form = _apply("trailing_full_stop", form.removesuffix("."), form, rules)
    form = _apply("whitespace", " ".join(form.split()), form, rules)
    near_form = form = form.lstrip("$£").rstrip("%").strip()
    form = _apply("article", _ARTICLE.sub("", form, count=1), form, rules)
    form = _apply("hyphens", _HYPHEN_BETWEEN_LETTERS.sub(" ", form), form, rules)
    return _Side(form, near_form, official_form, quantity or read_quantity(form), frozenset(rules))


def _drop_parenthesised(text: str, rules: set[str]) -> str:
    """Drop parenthesised text as the benchmarks do, unless nothing else is there."""
    kept = mmlongbench_doc.drop_parenthesised(text)
    if kept.strip("$£% "):
        return kept
    rules.add("parenthesised_answer")
    inside = text[text.index("(") + 1 :]
    return inside.partition(")")[0].strip()


def _apply(rule: str, after: str, before: str, rules: set[str]) -> str:
    if after != before:
        rules.add(rule)
    return after


def _strip_quotes(text: str) -> str:
    while len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        text = text[1:-1].strip()
    return text.strip("'\"").strip() or text


def _compare(gold: _Side, prediction: _Side, *, whole_answer: bool) -> _Comparison:
    """Compare two texts or two items of lists."""
    rules = gold.rules | prediction.rules
    if gold.form == prediction.form:
        return _Comparison(1.0, rules)
    if gold.form in _REFUSALS and prediction.form in _REFUSALS:
        return _Comparison(1.0, rules | {"refusal_wording"})
    if gold.quantity is not None and prediction.quantity is not None:
        rules |= gold.quantity.rules | prediction.quantity.rules
        if not units_agree(gold.quantity, prediction.quantity):
            return _Comparison(0.0, rules | {"numbers_differ"})
        pairs = paired_readings(gold.quantity, prediction.quantity)
        if any(one == other for one, other in pairs):
            return _Comparison(1.0, rules | {"same_number"})
        return _Comparison(0.0, rules | {"numbers_differ"})
    if mmlongbench_doc.is_exact(gold.official_form):
        return _Comparison(0.0, rules if whole_answer else rules | {"exact_items"})
    return _Comparison(anls(gold.near_form, prediction.near_form) or 0.0, rules)


def _compare_numbers(
    gold: object, prediction: object, answer_format: str, is_longdocurl: bool
) -> _Comparison | None:
    gold_side, prediction_side = _number_side(gold), _number_side(prediction)
    gold_quantity, gold_rules = gold_side
    prediction_quantity, prediction_rules = prediction_side
    if gold_quantity is None:
        as_text = _compare(
            _side(gold, is_longdocurl), _side(prediction, is_longdocurl), whole_answer=True
        )
        if as_text.value < 1.0:
            return None
        return _Comparison(1.0, as_text.rules | {"gold_not_a_number"})
    if prediction_quantity is None:
        return None
    rules = gold_rules | prediction_rules | gold_quantity.rules | prediction_quantity.rules
    if not units_agree(gold_quantity, prediction_quantity):
        return _Comparison(0.0, rules | {"numbers_differ"})
    pairs = paired_readings(gold_quantity, prediction_quantity)
    if answer_format == "Float":
        matches = any(
            mmlongbench_doc.floats_are_close(float(one), float(other)) for one, other in pairs
        )
        return _Comparison(1.0 if matches else 0.0, rules)
    if any(one == other for one, other in pairs):
        return _Comparison(1.0, rules | {"same_number"})
    has_fraction = prediction_quantity.value != prediction_quantity.value.to_integral_value()
    return _Comparison(0.0, rules | {"int_truncation"} if has_fraction else rules)


def _number_side(value: object) -> tuple[Quantity | None, frozenset[str]]:
    """Read a quantity, whatever words follow it."""
    rules = set[str]()
    rejoined = _rejoin_thousands(value)
    if rejoined is not None:
        return read_quantity(rejoined), frozenset({"thousands_separators"})
    text = _text(value).translate(_PLAIN_PUNCTUATION).strip()
    if text != _text(value).strip():
        rules.add("minus_sign")
    if "(" in text:
        text = mmlongbench_doc.drop_parenthesised(text) or text
    text = _apply("quotes", _strip_quotes(text), text, rules)
    if text.endswith("."):
        text = _apply("trailing_full_stop", text[:-1].rstrip(), text, rules)
    quantity = read_quantity(text, any_unit=True)
    if quantity is None and mmlongbench_doc.reads_as_float(text):
        quantity = _from_float(float(text))
    return quantity, frozenset(rules)


def _from_float(number: float) -> Quantity | None:
    """Take a float that is written in no everyday way, such as "1e3"."""
    text = f"{number:f}"
    return read_quantity(text) if len(text) <= 40 else None


def _rejoin_thousands(value: object) -> str | None:
    """Return "3456" for the (3, 456) that evaluating "3,456" makes."""
    if not isinstance(value, tuple | list) or len(value) < 2:
        return None
    first, *groups = value
    if type(first) is not int or not 0 < abs(first) < 1000:
        return None
    texts = [str(first)]
    for position, group in enumerate(groups, start=2):
        # A group such as 045 is no Python integer, so it never became part of a tuple.
        if type(group) is int and (group == 0 or 100 <= group < 1000):
            texts.append(f"{group:03d}")
        elif type(group) is float and position == len(value) and 0 <= group < 1000:
            whole, _, decimals = f"{group:f}".partition(".")
            texts.append(f"{whole.zfill(3)}.{decimals}")
        else:
            return None
    return "".join(texts)


def _compare_lists(gold: object, prediction: object, is_longdocurl: bool) -> _Comparison | None:
    rules = set[str]()
    golds = _items(gold, rules, may_split=False)
    predictions = _items(prediction, rules, may_split=len(golds) > 1)
    if max(len(golds), len(predictions)) > MAX_ITEMS:
        return None
    gold_sides = [_side(item, is_longdocurl) for item in golds]
    prediction_sides = [_side(item, is_longdocurl) for item in predictions]
    if len(gold_sides) != len(prediction_sides):
        gold_sides = _without_duplicates(gold_sides, rules)
        prediction_sides = _without_duplicates(prediction_sides, rules)
    if not gold_sides or not prediction_sides:
        same = not gold_sides and not prediction_sides
        return _Comparison(float(same), frozenset(rules | {"empty_list"}))
    first = gold_sides[0].official_form
    is_all_or_nothing = mmlongbench_doc.reads_as_float(first) or mmlongbench_doc.is_exact(first)
    if not is_longdocurl or is_all_or_nothing:
        return _score_pairing(gold_sides, prediction_sides, rules)
    best = [
        max(
            (_compare(gold_side, side, whole_answer=False) for side in prediction_sides),
            key=lambda comparison: comparison.value,
        )
        for gold_side in gold_sides
    ]
    mean = sum(comparison.value for comparison in best) / len(best)
    value = mean * min(1.0, len(gold_sides) / len(prediction_sides)) ** 0.5
    return _Comparison(value, frozenset(rules).union(*(one.rules for one in best)))


def _score_pairing(golds: list[_Side], predictions: list[_Side], rules: set[str]) -> _Comparison:
    """Pair the items, best pairs first, and return the worst pair's value."""
    if len(golds) != len(predictions):
        return _Comparison(0.0, frozenset(rules))
    pairs = [
        (_compare(gold, prediction, whole_answer=False), row, column)
        for row, gold in enumerate(golds)
        for column, prediction in enumerate(predictions)
    ]
    pairs.sort(key=lambda pair: -pair[0].value)
    open_rows, open_columns = set(range(len(golds))), set(range(len(golds)))
    lowest, used = 1.0, set(rules)
    for comparison, row, column in pairs:
        if row in open_rows and column in open_columns:
            open_rows.remove(row)
            open_columns.remove(column)
            lowest = min(lowest, comparison.value)
            used |= comparison.rules
            if row != column:
                used.add("list_order")
    return _Comparison(lowest, frozenset(used))


def _items(value: object, rules: set[str], *, may_split: bool) -> list[object]:
    """Return the items of a list, whichever way it is written."""
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            value = evaluate_expression(value)
        except (NotEvaluatedError, *EVALUATION_ERRORS):
            rules.add("list_as_text")
            return _split(str(value).strip().strip("[]"))
        if not _is_short(value):
            raise NotEvaluatedError("too_large")
    if isinstance(value, str) and may_split:
        items = _split(value)
        if len(items) > 1:
            rules.add("list_as_text")
            return items
    if isinstance(value, list | tuple | set):
        return [
            "-".join(map(python_text, item.values())) if isinstance(item, dict) else item
            for item in value
        ]
    return [value]


def _split(text: str) -> list[object]:
    """Split at line ends, else semicolons, else commas, else "and"."""
    for separator in ("\n", ";"):
        if separator in text:
            parts = text.split(separator)
            break
    else:
        parts = _COMMA_BETWEEN_ITEMS.split(text)
        if len(parts) == 1:
            parts = text.split(" and ")
    stripped = [part.strip().removeprefix("and ").strip() for part in parts]
    return [part for part in stripped if part]


def _without_duplicates(sides: list[_Side], rules: set[str]) -> list[_Side]:
    """Drop repeated texts; repeated numbers are values of their own."""
    kept: dict[object, _Side] = {}
    for position, side in enumerate(sides):
        kept.setdefault(side.form if side.quantity is None else position, side)
    if len(kept) < len(sides):
        rules.add("duplicates")
    return list(kept.values())
