"""The EP-given setting of the paper: retrieval is replaced by the gold evidence pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from awm.documents import Document
from awm.retrieval.retriever import Hit


class GoldPages:
    """A retriever that ignores the query and gives the evidence pages of one question.

    Pages outside of the document or window are left out. Once every page was given (and is
    excluded), a search finds nothing.

    Args:
        pages: evidence pages, 1-based, in the order in which they are given.
    """

    name = "gold"

    def __init__(self, pages: Sequence[int]) -> None:
        self.pages = tuple(dict.fromkeys(pages))

    def search(
        self, document: Document, query: str, top_k: int, exclude: Collection[int] = ()
    ) -> list[Hit]:
        """Give the first `top_k` evidence pages that are not excluded, each with score 1."""
        left = [
            page for page in self.pages if page in document.page_numbers and page not in exclude
        ]
        return [Hit(page, 1.0) for page in left[: max(top_k, 0)]]
