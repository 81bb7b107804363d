"""The wording of faults: close names, values, reasons."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from awm.faults import did_you_mean, find_faults, reason, row_hint, shown


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rank: int = Field(default=1, ge=1, lt=9)
    names: tuple[str, ...] = ()


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    flag: bool = True


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"inner": {"rank": 9}}, ["inner.rank: 9 is out of range: it must be below 9"]),
        ({"inner": {"ranks": 2}}, ["inner.ranks: no such setting; did you mean 'rank'?"]),
        ({"inners": [{"rnk": 2}]}, ["inners[0].rnk: no such setting; did you mean 'rank'?"]),
        ({"names": []}, ["names: no such setting; did you mean inner.names or inners.names?"]),
        ({"zzz": 1}, ["zzz: no such setting; there are inner, inners, flag"]),
        ({"inner": {"names": ["a", 2]}}, ["inner.names[1]: 2 is a number, not text"]),
        ({"inner": ["key"]}, ["inner: is a list, not a table with fields"]),
        ({"inner": {"rank": {"key": 1}}}, ["inner.rank: is a table, not a whole number"]),
        ({"flag": "maybe", "x": 0}, ["flag: 'maybe' is text, not true or false", "x: no such"]),
    ],
)
def test_every_fault_is_worded_by_its_place(given: dict[str, object], told: list[str]) -> None:
    with pytest.raises(ValidationError) as raised:
        Outer.model_validate(given)

    faults = find_faults(raised.value, Outer, noun="setting")

    lines = [f"{fault.place}: {fault.text}" for fault in faults]
    assert len(lines) == len(told)
    assert all(line.startswith(start) for line, start in zip(lines, told, strict=True))


@pytest.mark.parametrize(
    ("word", "meant"),
    [("doc", "document"), ("QUESTION", "question"), ("documents", "document"), ("xy", None)],
)
def test_a_close_name_is_proposed(word: str, meant: str | None) -> None:
    hint = did_you_mean(word, ["question", "document", "document_type"])

    assert hint == ("" if meant is None else f"; did you mean {meant!r}?")


def test_a_long_value_is_cut_and_a_reason_has_no_number() -> None:
    assert len(shown("x" * 1000)) <= 60
    assert reason(FileNotFoundError(2, "No such file or directory", "x")) == (
        "No such file or directory"
    )
    assert reason(OSError("cannot identify image file")) == "cannot identify image file"
    with pytest.raises(UnicodeDecodeError) as raised:
        b"a\xff".decode()
    assert reason(raised.value) == "not UTF-8 text: byte 0xff at 1"
    assert row_hint(b"[1]").startswith("; of a JSON array")
