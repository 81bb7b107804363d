"""What a retriever is: something that ranks the pages of a document for a query."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from awm.documents import Document


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found."""

    page: int
    """1-based, in the whole document."""
    score: float
    """Higher is better; comparable within one search only."""


class Retriever(Protocol):
    """Ranks pages. Implementations are safe to use from several threads."""

    @property
    def name(self) -> str:
        """What records and the command line call it."""
        ...

    def search(
        self, document: Document, query: str, top_k: int, exclude: Collection[int] = ()
    ) -> list[Hit]:
        """Give the best pages, best first, ties by page number.

        Args:
            document: the document or window; only its `page_numbers` are found.
            query: what to look for, in words.
            top_k: number of hits; fewer where fewer pages are left, none below 1.
            exclude: pages that are passed over.
        """
        ...
