"""What the four outcome cells are called, in every table and list."""

from __future__ import annotations

from awm.scoring.outcome import Outcome

CELL_TITLES = {
    Outcome.MEMORY_SUPPORTED_CORRECT: "memory-supported correct",
    Outcome.MEMORY_MISSING_CORRECT: "memory-missing correct",
    Outcome.ANSWERING_ERROR: "answering error",
    Outcome.UNRESOLVED_ERROR: "unresolved error",
}
SHORT_CELL_TITLES = {
    Outcome.MEMORY_SUPPORTED_CORRECT: "supported",
    Outcome.MEMORY_MISSING_CORRECT: "missing",
    Outcome.ANSWERING_ERROR: "answering error",
    Outcome.UNRESOLVED_ERROR: "unresolved",
}
"""The same where a table has no room."""
CELL_LEGEND = """\
supported: answer right, memory right   missing: answer right, memory wrong
answering error: answer wrong, memory right   unresolved: both wrong"""
