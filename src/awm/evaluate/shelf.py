"""The documents that are open during a run."""

from __future__ import annotations

from collections import OrderedDict

from awm.benchmarks import Benchmark, Example
from awm.documents import Document

_OPEN_DOCUMENTS = 16


class DocumentShelf:
    """The documents in use, the least recently used closed first; a closed one reopens itself."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        self._open: OrderedDict[str, Document] = OrderedDict()

    def take(self, example: Example) -> Document:
        """Give the document of a question, as the question may see it."""
        document = self.whole(example.question.document_id)
        window = example.question.page_window
        return document.window(*window) if window else document

    def whole(self, document_id: str) -> Document:
        """Give a document with all of its pages."""
        document = self._open.pop(document_id, None) or self._benchmark.open_document(document_id)
        self._open[document_id] = document
        while len(self._open) > _OPEN_DOCUMENTS:
            self._open.popitem(last=False)[1].close()
        return document

    def close(self) -> None:
        """Close them all."""
        while self._open:
            self._open.popitem()[1].close()
