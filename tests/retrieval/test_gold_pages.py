from __future__ import annotations

from pathlib import Path

import pytest

from awm.documents import Document, document_from_images
from awm.retrieval import GoldPages, Hit, Retriever


@pytest.fixture
def document() -> Document:
    # Nothing is drawn, so the files need not exist.
    return document_from_images({1: Path("absent.png")}, document_id="d", page_count=9)


def test_the_evidence_pages_come_in_the_order_given(document: Document) -> None:
    retriever: Retriever = GoldPages([7, 2, 5])

    assert retriever.search(document, "whatever is asked", 2) == [Hit(7, 1.0), Hit(2, 1.0)]


def test_what_was_given_is_not_given_again(document: Document) -> None:
    retriever = GoldPages([7, 2, 5])

    assert [hit.page for hit in retriever.search(document, "", 2, exclude={7, 2})] == [5]
    assert retriever.search(document, "", 2, exclude=[2, 5, 7]) == []


def test_pages_outside_of_the_window_are_left_out(document: Document) -> None:
    retriever = GoldPages([7, 2, 5, 40])

    assert [hit.page for hit in retriever.search(document.window(3, 8), "", 9)] == [7, 5]


def test_a_page_named_twice_is_given_once(document: Document) -> None:
    assert [hit.page for hit in GoldPages([2, 2, 3]).search(document, "", 9)] == [2, 3]


def test_without_evidence_pages_nothing_is_found(document: Document) -> None:
    assert GoldPages([]).search(document, "", 3) == []
    assert GoldPages([2]).search(document, "", 0) == []
