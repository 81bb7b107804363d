"""Numbers with their noun."""

from __future__ import annotations

from awm.counted import counted


def test_one_alone_takes_the_singular() -> None:
    shown = [counted(n, "row is", "rows are") for n in (0, 1, 2)]

    assert shown == ["0 rows are", "1 row is", "2 rows are"]
