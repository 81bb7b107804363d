"""How a page becomes an image: settings, the pixel budget, the encoder, the cache of drawn pages.

The budget is applied before anything is drawn: the size comes from the page's own size, so a
page of any shape costs at most `max_pixels` pixels of memory. A page that is smaller than its
budget is not blown up beyond the resolution asked for.

>>> fit_size(612, 792, scale=2.0, max_pixels=1_048_576)
(900, 1164)
>>> fit_size(100, 50, scale=2.0, max_pixels=1_048_576)
(200, 100)
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from awm.documents.image import MediaType, PageImage
from awm.errors import ConfigError
from awm.faults import reason

logger = logging.getLogger(__name__)

MAX_SIDE_PX = 8192
"""Longest side of an image, whatever its shape; keeps a ribbon of a page usable."""
CHROMA_SUBSAMPLING = "444"
"""Full colour resolution: thin coloured lines and coloured text are what questions about charts
ask for, and halving it would save 8 % of the bytes."""
CACHE_FORMAT = "awm-page-1"
"""First word of a cache file. A change of the file's layout or of how pages are drawn here
changes it, and old files are no longer found."""
_N_STRIPES = 64


class RenderSettings(BaseModel):
    """Resolution, pixel budget and encoding of page images; part of a run's manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dpi: int = Field(default=144, ge=1)
    """Resolution of a page that fits the budget. Page images (not PDFs) have no size in inches:
    they are drawn at their own resolution."""
    max_pixels: int = Field(default=1_048_576, ge=1)
    """Width times height of the image at most."""
    media_type: MediaType = "image/jpeg"
    jpeg_quality: int = Field(default=90, ge=1, le=100)


def fit_size(width: float, height: float, *, scale: float, max_pixels: int) -> tuple[int, int]:
    """Choose the pixel size of an image: `scale` times the size, or less to fit the budget.

    Args:
        width: width of the page, in points or source pixels, above 0.
        height: height of the page, in the same unit.
        scale: pixels per unit where the budget allows it.
        max_pixels: the budget, width times height.

    Returns:
        Width and height in pixels, each from 1 to `MAX_SIDE_PX`; their product is within the
        budget. The shape is kept up to the rounding, except where a side would be under 1.
    """
    # Separate roots: the product of two huge sides overflows to infinity.
    budget_scale = math.sqrt(max_pixels) / (math.sqrt(width) * math.sqrt(height))
    scale = min(scale, budget_scale, MAX_SIDE_PX / max(width, height))
    columns = max(1, math.floor(width * scale + 1e-6))
    rows = max(1, math.floor(height * scale + 1e-6))
    if columns * rows > max_pixels:
        if columns >= rows:
            columns = max(1, max_pixels // rows)
        else:
            rows = max(1, max_pixels // columns)
    return columns, rows


def make_page_image(data: bytes, media_type: MediaType, width: int, height: int) -> PageImage:
    """Wrap an encoded file, computing its digest."""
    digest = hashlib.sha256(data).hexdigest()
    return PageImage(digest, media_type, width, height, data)


def encode_bgrx(pixels: NDArray[np.uint8], settings: RenderSettings) -> PageImage:
    """Encode a bitmap of blue, green, red and one unused byte, shape (height, width, 4)."""
    height, width = pixels.shape[:2]
    if settings.media_type == "image/jpeg":
        data = simplejpeg.encode_jpeg(pixels, settings.jpeg_quality, "BGRX", CHROMA_SUBSAMPLING)
    else:
        data = encode_png(
            Image.frombuffer("RGB", (width, height), pixels, "raw", "BGRX", width * 4, 1)
        )
    return make_page_image(data, settings.media_type, width, height)


def encode_rgb(image: Image.Image, settings: RenderSettings) -> PageImage:
    """Encode a Pillow image of mode RGB."""
    if settings.media_type == "image/jpeg":
        data = simplejpeg.encode_jpeg(
            np.asarray(image), settings.jpeg_quality, "RGB", CHROMA_SUBSAMPLING
        )
    else:
        data = encode_png(image)
    return make_page_image(data, settings.media_type, image.width, image.height)


def encode_png(image: Image.Image) -> bytes:
    """Encode a Pillow image as PNG."""
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


class PageKey(NamedTuple):
    """What decides the bytes of a page image."""

    document_digest: str
    page: int
    settings: RenderSettings
    renderer: str
    """The program that draws, with its version, such as "pdfium7900"."""

    def path(self) -> Path:
        """Give the cache file, relative to the cache's directory."""
        settings = self.settings
        encoding = "png"
        if settings.media_type == "image/jpeg":
            encoding = f"jpeg{settings.jpeg_quality}"
        name = (
            f"{self.page:05d}-{settings.dpi}dpi-{settings.max_pixels}px-{encoding}"
            f"-{self.renderer}.{CACHE_FORMAT}"
        )
        return Path(self.document_digest[:2], self.document_digest, name)


class RenderCache:
    """Drawn pages, on disk and in memory. Safe for several threads and processes.

    A disk file carries the digest of its image, so one that was cut short or altered is noticed,
    drawn again and replaced. Files appear under their name only when they are complete.

    Args:
        directory: where files go, made if absent; None: memory only.
        memory_bytes: encoded bytes kept in memory at most, the least recently used go first;
            0: none.

    Raises:
        ConfigError: `directory` cannot be made, or is not a directory.
    """

    def __init__(self, directory: Path | None, memory_bytes: int = 128 * 1024 * 1024) -> None:
        if directory is not None:
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(
                    f"The page cache {str(directory)!r} cannot be made ({reason(error)}). "
                    "Name a folder that can be written, or run without a cache on disk."
                ) from error
        self._directory = directory
        self._memory_bytes = memory_bytes
        self._images: OrderedDict[PageKey, PageImage] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()
        self._stripes = [threading.Lock() for _ in range(_N_STRIPES)]
        self._write_failed = False

    def get(self, key: PageKey, draw: Callable[[], PageImage]) -> PageImage:
        """Give the image of `key`, drawing it where it is not cached.

        Threads that ask for the same page at the same time wait for one drawing.
        """
        image = self._recall(key)
        if image is not None:
            return image
        with self._stripes[hash(key) % _N_STRIPES]:
            image = self._recall(key)
            if image is not None:
                return image
            image = self._read(key)
            if image is None:
                image = draw()
                self._write(key, image)
            self._remember(key, image)
        return image

    def _recall(self, key: PageKey) -> PageImage | None:
        with self._lock:
            image = self._images.get(key)
            if image is not None:
                self._images.move_to_end(key)
            return image

    def _remember(self, key: PageKey, image: PageImage) -> None:
        with self._lock:
            if len(image.data) > self._memory_bytes or key in self._images:
                return
            self._images[key] = image
            self._n_bytes += len(image.data)
            while self._n_bytes > self._memory_bytes:
                _, oldest = self._images.popitem(last=False)
                self._n_bytes -= len(oldest.data)

    def _read(self, key: PageKey) -> PageImage | None:
        if self._directory is None:
            return None
        path = self._directory / key.path()
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.warning("cannot read cached page %s (%s); drawing it again", path, error)
            return None
        image = _unpack(content)
        if image is None:
            logger.warning("cached page %s is damaged; drawing it again", path)
        return image

    def _write(self, key: PageKey, image: PageImage) -> None:
        if self._directory is None:
            return
        path = self._directory / key.path()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_atomically(path, _pack(image))
        except OSError as error:
            # A full disk costs speed, not the run; said once, since every page would say it.
            if not self._write_failed:
                logger.warning("cannot write cached page %s (%s); going on without", path, error)
            self._write_failed = True


def _pack(image: PageImage) -> bytes:
    header = f"{CACHE_FORMAT} {image.digest} {image.media_type} {image.width} {image.height}\n"
    return header.encode("ascii") + image.data


def _unpack(content: bytes) -> PageImage | None:
    """Read a cache file; None where it is not what was written."""
    header, newline, data = content.partition(b"\n")
    words: list[Any] = header.decode("ascii", errors="replace").split(" ")
    if not newline or len(words) != 5:
        return None
    cache_format, digest, media_type, width, height = words
    if cache_format != CACHE_FORMAT or media_type not in get_args(MediaType):
        return None
    if not (width.isdecimal() and height.isdecimal()):
        return None
    image = make_page_image(data, media_type, int(width), int(height))
    return image if image.digest == digest else None


def _write_atomically(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
