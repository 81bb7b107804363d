"""Pages of a PDF, drawn and read by pdfium.

pdfium is not thread safe, not even across documents: every call into it happens under one lock
of this module. Encoding happens outside of it.

Page rotation and CropBox are honoured, annotations and filled form fields are drawn. A page's
UserUnit is not: pdfium does not tell it, and the pixel budget bounds the image anyway.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2
import pypdfium2.raw as pdfium
from numpy.typing import NDArray
from pypdfium2.version import PDFIUM_INFO

from awm.documents.image import PageImage
from awm.documents.render import RenderSettings, encode_bgrx, fit_size
from awm.documents.text import clean_text
from awm.errors import (
    DocumentError,
    DocumentNotFoundError,
    EncryptedDocumentError,
    NoPagesError,
    PageError,
    TruncatedDocumentError,
)

POINTS_PER_INCH = 72

_pdfium_lock = threading.RLock()
"""Reentrant, since a document may be finalised by the garbage collector while it is held."""


class PdfSource:
    """The pages of one PDF file; opened at once, closed and opened again as needed.

    Args:
        path: a file whose first bytes hold a PDF header.
        digest: SHA-256 of the file, in hex.

    Raises:
        DocumentError: the file cannot be opened; the subclass says why.
    """

    renderer = f"pdfium{PDFIUM_INFO.build}"

    def __init__(self, path: Path, digest: str) -> None:
        self._path = path
        self._pdf: Any = None
        self._stamp = _stamp(path)
        self._text: dict[int, str] = {}
        self.digest = digest
        with _pdfium_lock:
            self.page_count = len(self._open())

    def draw(self, number: int, settings: RenderSettings) -> PageImage:
        """Draw a page, 1-based.

        Raises:
            PageError: the page cannot be loaded or drawn.
        """
        with self._loaded(number) as page:
            pixels = _rasterise(page, settings, f"Page {number} of {str(self._path)!r}")
        return encode_bgrx(pixels, settings)

    def read_text(self, number: int) -> str:
        """Give the text layer of a page, 1-based; empty where there is none.

        Raises:
            PageError: the page cannot be loaded.
        """
        text = self._text.get(number)
        if text is None:
            with self._loaded(number) as page:
                textpage = page.get_textpage()
                try:
                    # Bounded by the visible box: what a CropBox hides is not on the page.
                    text = textpage.get_text_bounded()
                finally:
                    textpage.close()
            text = self._text[number] = clean_text(text)
        return text

    def close(self) -> None:
        """Close the file. The next draw or read opens it again."""
        with _pdfium_lock:
            pdf, self._pdf = self._pdf, None
            if pdf is not None:
                pdf.close()

    def __del__(self) -> None:
        # Without this, pypdfium2 would close the document outside of the lock.
        if getattr(self, "_pdf", None) is not None:
            self.close()

    def _open(self) -> Any:
        """Give the open document; to be called under the lock."""
        if self._pdf is None:
            if _stamp(self._path) != self._stamp:
                raise DocumentError(
                    f"The file {str(self._path)!r} changed while it was in use. "
                    "Open the document again."
                )
            self._pdf = _open_pdf(self._path)
        return self._pdf

    @contextmanager
    def _loaded(self, number: int) -> Iterator[Any]:
        """Hold the lock and a loaded page, and turn pdfium's errors into a PageError."""
        with _pdfium_lock:
            pdf = self._open()
            try:
                page = pdf.get_page(number - 1)
                try:
                    yield page
                finally:
                    page.close()
            except pypdfium2.PdfiumError as error:
                raise PageError(
                    f"Page {number} of {str(self._path)!r} cannot be read ({error}). "
                    "The other pages are not affected; replace the file with an intact copy."
                ) from error


def _open_pdf(path: Path) -> Any:
    # By the raw call: pypdfium2 reads the error of an earlier file where a page tree is empty.
    raw = pdfium.FPDF_LoadDocument(os.fsencode(path.resolve()) + b"\0", None)
    if not raw:
        raise _explain_failure(path, pdfium.FPDF_GetLastError())
    pdf = pypdfium2.PdfDocument(raw)
    if len(pdf) == 0:
        pdf.close()
        raise NoPagesError(f"The PDF {str(path)!r} has no pages. Replace it with a complete copy.")
    try:
        # Field values are drawn by the form environment, which has to exist before any page.
        pdf.init_forms()
    except pypdfium2.PdfiumError as error:
        pdf.close()
        raise DocumentError(
            f"The form of the PDF {str(path)!r} cannot be read ({error}). "
            "Print it to a new PDF and use that."
        ) from error
    return pdf


def _explain_failure(path: Path, code: int) -> DocumentError:
    """Turn pdfium's error code into the exception to raise."""
    if not path.exists():
        return DocumentNotFoundError(f"The document {str(path)!r} is gone. Put the file back.")
    if code == pdfium.FPDF_ERR_PASSWORD:
        return EncryptedDocumentError(
            f"The PDF {str(path)!r} needs a password. Save a copy without one and use that."
        )
    if code == pdfium.FPDF_ERR_SECURITY:
        return EncryptedDocumentError(
            f"The PDF {str(path)!r} is encrypted in a way that pdfium does not know. "
            "Save a copy without encryption and use that."
        )
    if code == pdfium.FPDF_ERR_FORMAT:
        return TruncatedDocumentError(
            f"The PDF {str(path)!r} ({path.stat().st_size} bytes) is damaged or cut short. "
            "Download or export it again."
        )
    return DocumentError(
        f"The PDF {str(path)!r} cannot be opened (pdfium error {code}). Check that it can be read."
    )


def _rasterise(page: Any, settings: RenderSettings, what: str) -> NDArray[np.uint8]:
    """Draw a loaded page; returns blue, green, red, unused: shape (height, width, 4)."""
    width_pt, height_pt = page.get_size()
    if not (0 < width_pt < float("inf") and 0 < height_pt < float("inf")):
        raise PageError(
            f"{what} has no usable size ({width_pt} x {height_pt} points). "
            "The other pages are not affected; replace the file with an intact copy."
        )
    scale = settings.dpi / POINTS_PER_INCH
    width, height = fit_size(width_pt, height_pt, scale=scale, max_pixels=settings.max_pixels)
    pixels = np.full((height, width, 4), 255, dtype=np.uint8)
    bitmap = pdfium.FPDFBitmap_CreateEx(
        width, height, pdfium.FPDFBitmap_BGRx, pixels.ctypes.data, width * 4
    )
    if not bitmap:
        raise PageError(
            f"{what} cannot be drawn: no bitmap of {width} x {height} pixels. "
            "Lower max_pixels or free memory."
        )
    try:
        args = (bitmap, page, 0, 0, width, height, 0, pdfium.FPDF_ANNOT)
        pdfium.FPDF_RenderPageBitmap(*args)
        if page.formenv:
            pdfium.FPDF_FFLDraw(page.formenv, *args)
    finally:
        pdfium.FPDFBitmap_Destroy(bitmap)
    return pixels


def _stamp(path: Path) -> tuple[int, int] | None:
    """Size and time of the last change; None where there is no file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns
