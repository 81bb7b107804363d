"""PDFs for tests, written by hand where no library would write such a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reportlab.pdfgen.canvas import Canvas


def raw_pdf(objects: Sequence[bytes]) -> bytes:
    """Assemble a PDF of numbered objects; the first is the catalog."""
    content = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = len(content)
    content += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for offset in offsets:
        content += b"%010d 00000 n \n" % offset
    content += b"trailer\n<</Size %d/Root 1 0 R>>\n" % (len(objects) + 1)
    content += b"startxref\n%d\n%%%%EOF\n" % table
    return bytes(content)


def pdf_of_pages(pages: Sequence[bytes]) -> bytes:
    """Assemble a PDF whose page objects are given as they stand in the file."""
    kids = b" ".join(b"%d 0 R" % (number + 3) for number in range(len(pages)))
    tree = b"<</Type/Pages/Kids[%b]/Count %d>>" % (kids, len(pages))
    return raw_pdf([b"<</Type/Catalog/Pages 2 0 R>>", tree, *pages])


def blank_page(mediabox: bytes = b"0 0 612 792", extra: bytes = b"") -> bytes:
    """Give a page object without content."""
    return b"<</Type/Page/Parent 2 0 R/MediaBox[%b]/Resources<<>>%b>>" % (mediabox, extra)


def write_text_pdf(path: Path, texts: Sequence[str], lines_per_text: int = 1) -> Path:
    """Write one A4 page per text, the text at its top; an empty text gives an empty page."""
    canvas = Canvas(str(path), invariant=1)
    for text in texts:
        for line in range(lines_per_text if text else 0):
            canvas.drawString(50, 780 - 15 * line, text)
        canvas.showPage()
    canvas.save()
    return path
