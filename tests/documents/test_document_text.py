from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.documents.text import clean_text


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("  a \t b\u00a0c  \n d ", "a b c\nd"),
        ("a\n\n\n\n\nb", "a\n\nb"),
        ("a\n \n \n \nb", "a\n\nb"),
        ("nul\x00 bell\x07 escape\x1b", "nul bell escape"),
        ("lone \ud800 and \udfff", "lone and"),
        ("rea\x02soning", "reasoning"),
        ("rea\ufffe\nsoning", "reasoning"),
        ("soft\u00adhyphen, zero\u200bwidth, \ufeffmark", "softhyphen, zerowidth, mark"),
        ("naïve 数字 \U0001d6fc 😀", "naïve 数字 \U0001d6fc 😀"),
        ("\x00\x01\x02", ""),
        ("", ""),
    ],
)
def test_text_is_cleaned(raw: str, clean: str) -> None:
    assert clean_text(raw) == clean


@given(st.text(st.characters(exclude_categories=[])))
def test_clean_text_is_valid_and_stays_as_it_is(raw: str) -> None:
    clean = clean_text(raw)

    assert clean.encode("utf-8").decode("utf-8") == clean
    assert not any(ord(character) < 32 and character != "\n" for character in clean)
    assert clean_text(clean) == clean
