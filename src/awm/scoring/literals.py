"""Python expressions in answers, evaluated without ever running them.

Both benchmarks pass model text to `eval`. Here the text is parsed, and only what has no effect
is evaluated: literals, and arithmetic, comparisons and indexing over literals, each with a
bound on the size of its result. Everything else is either the error that Python would raise
(an unknown name: `NameError`) or `NotEvaluatedError`, where Python would run something.

    >>> evaluate_concise_answer("12-5"), evaluate_concise_answer("3,456")
    (7, (3, 456))
    >>> evaluate_concise_answer("exit()"), evaluate_concise_answer("Less well-off")
    ('exit()', 'Less well-off')
"""

from __future__ import annotations

import ast
import builtins
import operator
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

MAX_TEXT_CHARS = 1_200_000
"""Longest text that is scored; beyond it there is no bound worth having."""
MAX_NON_ASCII_CHARS = 300_000
"""The same for text beyond ASCII, where changing case costs twenty times as much."""
MAX_SOURCE_CHARS = 8_000
"""Longest text that is parsed as an expression; the extractors stop at a quarter of it."""
MAX_REPEATED_CHARS = 1_000
"""Longest text that "a" * n may make."""
MAX_INT_BITS = 10_000
"""Longest integer that arithmetic may make."""
MAX_QUOTED_LIST_CHARS = 64_000
"""The same for a list of plainly quoted texts, which needs no parser."""
MAX_VALUES = 2_000
"""Most values within one list answer, nested ones included; the benchmarks' golds have 8."""
MAX_CONTAINER_CHARS = 200_000
"""Longest list answer, in characters of all its texts."""
MAX_DEPTH = 150
"""Deepest nesting of one answer; Python's own parser stops at 200 brackets."""

EVALUATION_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    NameError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What evaluating an expression of literals can raise, in Python and here."""

_QUOTED = r"""(?:'[^'\\\n\r\0\ud800-\udfff]*+'|"[^"\\\n\r\0\ud800-\udfff]*+")"""
_LIST_OF_QUOTED_TEXTS = re.compile(rf"\[{_QUOTED}(?:, ?{_QUOTED})*+\]")
_ONE_QUOTED_TEXT = re.compile(_QUOTED)
_LEADING_WORD = re.compile(r"[^\W\d]\w*")
_WORDS_THAT_START_A_LITERAL = frozenset({"True", "False", "None", "not"})
_MAY_WARN = re.compile(r"\\|[0-9]_?[A-Za-z]")

_BENCHMARK_NAMES = (
    "anls_compute answer_type defaultdict eval_acc_and_f1 eval_score get_clean_string gt "
    "is_exact_match is_float_equal isclose isfloat levenshtein_distance pred re show_results"
)
_NAMES_IN_SCOPE = frozenset(dir(builtins)).union(_BENCHMARK_NAMES.split())
"""Names that the benchmarks' `eval` would find, so that it would not raise `NameError`."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
    ast.MatMult: operator.matmul,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    # `~True` warns that it is deprecated, and its value is that of `~1`.
    ast.Invert: lambda value: ~int(value) if isinstance(value, bool) else ~value,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}


class NotEvaluatedError(Exception):
    """An expression that Python would run and AWM does not; its text names the reason.

    Caught within `awm.scoring`, where it becomes a flag of the score.
    """


def evaluate_concise_answer(text: str) -> object:
    """Turn an extracted answer into the value that LongDocURL's pipeline scores.

    Text that does not evaluate stays text; a set becomes a list. Two deviations, both where
    the original loses the row because its value cannot be written as JSON: names that exist in
    the original's scope stay text, and so do bytes, complex numbers and `...`.

    Args:
        text: the content of the extractor's answer tag, as it stands.
    """
    start = text.lstrip(" \t")
    word = _LEADING_WORD.match(start)
    if (
        word is not None
        and word.group() not in _WORDS_THAT_START_A_LITERAL
        and start[word.end() : word.end() + 1] not in ("'", '"')
    ):
        return text  # an expression that starts with a name is never one of literals
    try:
        value = evaluate_expression(text)
    except (NotEvaluatedError, *EVALUATION_ERRORS):
        return text
    if isinstance(value, set):
        value = list(value)
    return value if _fits_json(value) and is_bounded(value) else text


def evaluate_expression(text: str) -> Any:
    """Evaluate an expression of literals as Python's `eval` would.

    Raises:
        NotEvaluatedError: Python would run something, or the result has no bound.
        EVALUATION_ERRORS: as Python raises them.
    """
    if len(text) <= MAX_QUOTED_LIST_CHARS and _LIST_OF_QUOTED_TEXTS.fullmatch(text):
        return [quoted[1:-1] for quoted in _ONE_QUOTED_TEXT.findall(text)]
    if len(text) > MAX_SOURCE_CHARS:
        raise NotEvaluatedError("too_long")
    source = text.lstrip(" \t")
    if _MAY_WARN.search(source):
        with warnings.catch_warnings():
            # A stray backslash warns, which a strict caller's filter turns into an error.
            warnings.simplefilter("ignore")
            tree = ast.parse(source, mode="eval")
    else:
        tree = ast.parse(source, mode="eval")
    if "await" in source or "yield" in source:
        _refuse_as_the_compiler_does(tree)
    return _evaluate(tree.body)


def python_text(value: object) -> str:
    """Return `str(value)` of a bounded value.

    Raises:
        ValueError: the value is an integer of over 4,300 digits, which Python does not print.
    """
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS * 10:
        raise ValueError(f"an integer of {value.bit_length()} bits is too long to print")
    return str(value)


def is_bounded(value: object) -> bool:
    """Tell whether a value is of the kinds that answers have, and small enough to score."""
    if isinstance(value, str):
        return _is_short(value)
    return value is None or isinstance(value, int | float) or _is_bounded_container(value)


def _is_short(text: str) -> bool:
    return len(text) <= (MAX_TEXT_CHARS if text.isascii() else MAX_NON_ASCII_CHARS)


def _is_bounded_container(value: object) -> bool:
    """Walk every value within; loops and shared parts count as often as `str` meets them."""
    n_values, n_chars = 0, 0
    open_values: list[tuple[object, int]] = [(value, 0)]
    while open_values:
        item, depth = open_values.pop()
        n_values += 1
        if isinstance(item, str | bytes):
            n_chars += len(item)
        elif isinstance(item, int):
            n_chars += item.bit_length() // 3
        elif isinstance(item, list | tuple | set | frozenset | dict):
            parts: Iterable[object] = [*item, *item.values()] if isinstance(item, dict) else item
            if depth >= MAX_DEPTH or n_values + len(item) > MAX_VALUES:
                return False
            open_values.extend((part, depth + 1) for part in parts)
        elif not (item is None or item is ... or isinstance(item, float | complex)):
            return False
        if n_chars > MAX_CONTAINER_CHARS or n_values + len(open_values) > MAX_VALUES:
            return False
    return True


def _fits_json(value: object) -> bool:
    """Tell whether JSON can hold a bounded value, tuples read as lists."""
    if isinstance(value, list | tuple):
        return all(_fits_json(item) for item in value)
    if isinstance(value, dict):
        return all(
            (key is None or isinstance(key, str | int | float)) and _fits_json(item)
            for key, item in value.items()
        )
    return value is None or isinstance(value, str | int | float)


def _refuse_as_the_compiler_does(tree: ast.Expression) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom):
            raise SyntaxError(f"{type(node).__name__.lower()} outside a function")


def _evaluate(node: ast.expr) -> Any:
    """Evaluate one node, its parts in Python's own order."""
    match node:
        case ast.Constant():
            return node.value
        case ast.List():
            return [_evaluate(item) for item in node.elts]
        case ast.Tuple():
            return tuple([_evaluate(item) for item in node.elts])
        case ast.Set():
            return {_evaluate(item) for item in node.elts}
        case ast.Dict():
            return _evaluate_dict(node)
        case ast.UnaryOp():
            return _UNARY[type(node.op)](_evaluate(node.operand))
        case ast.BinOp():
            return _evaluate_binary(node)
        case ast.BoolOp():
            return _evaluate_bool(node)
        case ast.Compare():
            return _evaluate_comparison(node)
        case ast.IfExp():
            return _evaluate(node.body if _evaluate(node.test) else node.orelse)
        case ast.Subscript():
            return _evaluate(node.value)[_evaluate(node.slice)]
        case ast.Slice():
            lower, upper, step = (
                None if part is None else _evaluate(part)
                for part in (node.lower, node.upper, node.step)
            )
            return slice(lower, upper, step)
        case _:
            return _refuse(node)


def _evaluate_dict(node: ast.Dict) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        if key is None:
            _evaluate(item)
            raise NotEvaluatedError("unpacking")
        # Python evaluates the key first, and hashes it once the value is there.
        name = _evaluate(key)
        result[name] = _evaluate(item)
    return result


def _evaluate_binary(node: ast.BinOp) -> Any:
    left, right = _evaluate(node.left), _evaluate(node.right)
    if not _has_bounded_result(node.op, left, right):
        raise NotEvaluatedError("too_large")
    return _BINARY[type(node.op)](left, right)


def _has_bounded_result(op: ast.operator, left: Any, right: Any) -> bool:
    if isinstance(left, int) and isinstance(right, int):
        if isinstance(op, ast.Pow):
            return right <= 0 or left.bit_length() * right <= MAX_INT_BITS
        if isinstance(op, ast.LShift):
            return right < 0 or left.bit_length() + right <= MAX_INT_BITS
        return left.bit_length() + right.bit_length() <= 2 * MAX_INT_BITS
    if isinstance(op, ast.Mult):
        for sequence, count in ((left, right), (right, left)):
            if isinstance(count, int) and isinstance(sequence, str | bytes):
                return len(sequence) * count <= MAX_REPEATED_CHARS
            if isinstance(count, int) and isinstance(sequence, list | tuple):
                return count <= 0  # repeated within itself it grows beyond any walk
    if isinstance(op, ast.Mod) and isinstance(left, str | bytes):
        return False  # formatting: "%999999999d" % 1
    if isinstance(op, ast.Add) and isinstance(left, str | bytes) and type(left) is type(right):
        return len(left) + len(right) <= MAX_SOURCE_CHARS
    return True


def _evaluate_bool(node: ast.BoolOp) -> Any:
    stops_at = isinstance(node.op, ast.Or)
    value = None
    for operand in node.values:
        value = _evaluate(operand)
        if bool(value) is stops_at:
            break
    return value


def _evaluate_comparison(node: ast.Compare) -> Any:
    left, result = _evaluate(node.left), True
    for op, operand in zip(node.ops, node.comparators, strict=True):
        right = _evaluate(operand)
        if isinstance(op, ast.Is | ast.IsNot):
            raise NotEvaluatedError("identity")  # depends on what the compiler shares
        result = _COMPARISONS[type(op)](left, right)
        if not result:
            break
        left = right
    return result


def _refuse(node: ast.expr) -> Any:
    """Raise what Python would raise before it runs the node, or else `NotEvaluatedError`."""
    if isinstance(node, ast.Name) and node.id not in _NAMES_IN_SCOPE:
        raise NameError(f"name {node.id!r} is not defined")
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        _evaluate(node.generators[0].iter)
    elif isinstance(node, ast.NamedExpr):
        return _evaluate(node.value)
    elif not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr | ast.keyword):
                _evaluate(child.value if isinstance(child, ast.keyword) else child)
    if isinstance(node, ast.Call):
        raise TypeError("a literal is not callable")  # names and attributes were refused above
    if isinstance(node, ast.Attribute) and not hasattr(_evaluate(node.value), node.attr):
        raise AttributeError(f"a literal has no attribute {node.attr!r}")
    raise NotEvaluatedError(type(node).__name__)
