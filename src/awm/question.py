"""A question over a document, as the agent gets it: no answer, no evidence, no format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent is told; gold answers live in `awm.benchmarks` and never here."""

    id: str
    """Unique within its benchmark, stable across releases where the source allows it."""
    text: str
    """The question, as the benchmark words it."""
    document_id: str
    """The document it is about; a key of the benchmark's documents."""
    page_window: tuple[int, int] | None = None
    """First and last page that the agent may see, 1-based, inclusive; None: all pages."""
