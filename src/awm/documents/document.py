"""Documents and their pages: what an agent may look at, whatever it is made of.

Page numbers are 1-based everywhere. A window of a document keeps the page numbers, the page
count and the digest of the whole; pages outside of it cannot be reached through it.

::

    with open_document("report.pdf") as document:
        document.page(3).image(RenderSettings(), cache=None)
        document.window(1, 30).page_numbers  # range(1, 31)
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from awm.documents.image import PageImage
from awm.documents.images import (
    IMAGE_SUFFIXES,
    ImageSource,
    digest_images,
    natural_key,
    sniff_image,
)
from awm.documents.pdf import PdfSource
from awm.documents.render import PageKey, RenderCache, RenderSettings
from awm.errors import (
    DocumentError,
    DocumentNotFoundError,
    EmptyFileError,
    NoPagesError,
    NotAPdfError,
    PageError,
)
from awm.faults import reason

logger = logging.getLogger(__name__)

_HEAD_BYTES = 1024
"""The PDF header may stand anywhere in these first bytes of a file."""


class PageSource(Protocol):
    """What draws and reads the pages of one document."""

    digest: str
    page_count: int
    renderer: str
    """The program that draws, with its version; part of the cache's key."""

    def draw(self, number: int, settings: RenderSettings) -> PageImage:
        """Draw a page."""
        ...

    def read_text(self, number: int) -> str:
        """Give a page's text layer; empty where there is none."""
        ...

    def close(self) -> None:
        """Release files until the next draw or read."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a document. Nothing is drawn or read before it is asked for."""

    document_id: str
    document_digest: str
    number: int
    """1-based, in the whole document."""
    source: PageSource = field(repr=False, compare=False)

    def text(self) -> str:
        """Give the text layer, empty where there is none; read once per document.

        Raises:
            PageError: the page is damaged.
        """
        return self.source.read_text(self.number)

    def image(self, settings: RenderSettings, cache: RenderCache | None = None) -> PageImage:
        """Draw the page, or take it from `cache`.

        Raises:
            PageError: the page is damaged or missing.
        """
        if cache is None:
            return self.source.draw(self.number, settings)
        key = PageKey(self.document_digest, self.number, settings, self.source.renderer)
        return cache.get(key, lambda: self.source.draw(self.number, settings))


class Document:
    """A document, or a window of one. Safe to use from several threads.

    Args:
        id: the benchmark's name for it, or its file name.
        source: what draws and reads the pages.
        page_numbers: pages that can be reached, 1-based; None: all.
    """

    def __init__(self, id: str, source: PageSource, page_numbers: range | None = None) -> None:
        self.id = id
        self.digest = source.digest
        self.page_count = source.page_count
        if page_numbers is None:
            page_numbers = range(1, source.page_count + 1)
        self.page_numbers = page_numbers
        self._source = source

    def page(self, number: int) -> Page:
        """Give a page.

        Raises:
            PageError: `number` is not in `page_numbers`.
        """
        if number not in self.page_numbers:
            raise PageError(
                f"{self.id!r} has no page {number} here; its pages are "
                f"{self.page_numbers.start} to {self.page_numbers.stop - 1}. Ask for one of them."
            )
        return Page(self.id, self.digest, number, self._source)

    def window(self, first: int, last: int) -> Document:
        """Give a view of the pages `first` to `last`, inclusive, that shares the open file.

        Raises:
            PageError: `first` to `last` is empty, or not within `page_numbers`.
        """
        if first > last or first not in self.page_numbers or last not in self.page_numbers:
            raise PageError(
                f"There is no window of pages {first} to {last} in {self.id!r}; its pages are "
                f"{self.page_numbers.start} to {self.page_numbers.stop - 1}. Mend the window."
            )
        return Document(self.id, self._source, range(first, last + 1))

    def page_texts(self) -> list[str]:
        """Give the text layers of `page_numbers`, in order; a damaged page counts as empty."""
        return [self._text_or_empty(number) for number in self.page_numbers]

    def pages_without_text(self) -> list[int]:
        """Give the numbers of the pages that have no text layer; reads every page once."""
        texts = zip(self.page_numbers, self.page_texts(), strict=True)
        return [number for number, text in texts if not text]

    @property
    def n_text_pages(self) -> int:
        """Pages that have a text layer; reads every page once."""
        return sum(bool(text) for text in self.page_texts())

    def close(self) -> None:
        """Release the file, also for windows of it. Using the document again reopens it."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        first, last = self.page_numbers.start, self.page_numbers.stop - 1
        return f"<Document {self.id!r}, pages {first} to {last} of {self.page_count}>"

    def _text_or_empty(self, number: int) -> str:
        try:
            return self._source.read_text(number)
        except PageError as error:
            logger.warning("no text from a damaged page: %s", error)
            return ""


def open_document(path: Path | str, *, document_id: str | None = None) -> Document:
    """Open a PDF, a folder of page images, or one page image.

    In a folder, every PNG, JPEG and WebP by its suffix is a page, in natural order of names
    (2 before 10); hidden files are passed over.

    Args:
        path: the file or folder.
        document_id: the benchmark's name for the document; None: the file name.

    Raises:
        DocumentError: it cannot be opened; the subclass and the message say why.
    """
    path = Path(path)
    document_id = path.name if document_id is None else document_id
    try:
        if path.is_dir():
            return document_from_images(_page_files(path), document_id=document_id)
        return Document(document_id, _open_file(path))
    except FileNotFoundError as error:
        raise DocumentNotFoundError(
            f"There is no document at {str(path)!r}. Check the path, or download the file."
        ) from error
    except OSError as error:
        raise DocumentError(
            f"The document {str(path)!r} cannot be read ({reason(error)}). Check its permissions."
        ) from error


def document_from_images(
    paths: Mapping[int, Path] | Sequence[Path],
    *,
    document_id: str,
    page_count: int | None = None,
) -> Document:
    """Make a document of page images.

    Args:
        paths: the files in page order from page 1, or page number (1-based) to file. Numbers
            may be missing: such a page raises a PageError when it is drawn.
        document_id: the benchmark's name for the document.
        page_count: pages of the whole document; None: the largest page number given.

    Raises:
        NoPagesError: `paths` is empty.
        DocumentError: a page number is not within 1 to `page_count`, or a file cannot be read.
    """
    numbered = dict(paths) if isinstance(paths, Mapping) else dict(enumerate(paths, start=1))
    if not numbered:
        raise NoPagesError(f"The document {document_id!r} has no page images. Add at least one.")
    last = max(numbered) if page_count is None else page_count
    if min(numbered) < 1 or max(numbered) > last:
        raise DocumentError(
            f"The page images of {document_id!r} are numbered {min(numbered)} to "
            f"{max(numbered)}, outside of 1 to {last}. Number pages from 1."
        )
    try:
        digest = digest_images(numbered)
    except OSError as error:
        raise DocumentError(
            f"A page image of {document_id!r} cannot be read ({reason(error)}). Check its "
            "permissions."
        ) from error
    return Document(document_id, ImageSource(numbered, last, digest))


def _open_file(path: Path) -> PageSource:
    if not path.exists():
        raise FileNotFoundError(path)
    if not path.is_file():
        raise DocumentError(f"{str(path)!r} is neither a file nor a folder. Name a PDF.")
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if not head:
        raise EmptyFileError(f"The file {str(path)!r} has 0 bytes. Download or export it again.")
    if b"%PDF-" in head:
        return PdfSource(path, digest)
    if sniff_image(head) is not None:
        return ImageSource({1: path}, 1, digest)
    raise NotAPdfError(
        f"The file {str(path)!r} starts with {head[:16]!r}: it is no PDF, PNG, JPEG or WebP. "
        "Convert it to PDF, or check that the download is the document itself."
    )


def _page_files(folder: Path) -> list[Path]:
    files = [
        file
        for file in folder.iterdir()
        if file.suffix.lower() in IMAGE_SUFFIXES and not file.name.startswith(".")
    ]
    if not files:
        raise NoPagesError(
            f"The folder {str(folder)!r} holds no page images (.png, .jpg, .jpeg, .webp). "
            "Add them, or name a PDF."
        )
    return sorted(files, key=natural_key)
