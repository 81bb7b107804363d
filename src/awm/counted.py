"""Numbers with their noun, in the singular where there is one.

>>> counted(1, "row is", "rows are"), counted(2_000, "row is", "rows are")
('1 row is', '2000 rows are')
"""

from __future__ import annotations


def counted(n: int, one: str, many: str) -> str:
    """Write a number with what it counts."""
    return f"{n} {one if n == 1 else many}"
