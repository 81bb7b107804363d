"""An encoded page image: the bytes that travel to a model, and what identifies them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

MediaType = Literal["image/jpeg", "image/png"]


@dataclass(frozen=True, slots=True)
class PageImage:
    """One page, drawn and encoded. Two images are equal when their digests are."""

    digest: str
    """SHA-256 of `data`, in hex; stands in records in place of the bytes."""
    media_type: MediaType
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    data: bytes = field(repr=False, compare=False)
    """The encoded file."""
