"""Make the PDF files of the demo corpus from the texts in `scripts/demo_corpus/`.

Why: the demo must run without a download and without anybody's licence, on pages that look like
those of a long-document benchmark. Every organisation and number is invented. The same versions
of reportlab, Pillow and zlib give the same bytes; the data card of the corpus records them.

A source is a head of `key: value` lines and then pages, each opened by `=== layout`:

- `cover` draws the head; `one-column` and `two-columns` hold blocks; `scan` holds lines that are
  drawn into an image, so that the page has no text layer.
- A block ends at an empty line. Its first line says what it is: `# heading`, `## heading`,
  `- item`, `box: title`, `table: caption`, `bar: caption`, `line: caption`, `pie: caption`,
  `figure: caption`; anything else is a paragraph. Rows of tables and charts split at `|`, and a
  line `---` ends the first of two columns.

A column whose blocks do not fit is an error, because questions cite pages by number.

    python scripts/make_demo_corpus.py --out src/awm/benchmarks/demo_corpus/documents
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from PIL import Image, ImageDraw, ImageFont
from reportlab import rl_config
from reportlab.lib.colors import HexColor, black, white
from reportlab.lib.pagesizes import A4, A5, letter
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Frame, Paragraph

from demo_corpus_blocks import Look, lay_out_block

SOURCES: Final = Path(__file__).parent / "demo_corpus"
PAGE_SIZES: Final = {"A4": A4, "A5": A5, "letter": letter}
HEAD_KEYS: Final = frozenset(
    [
        "title",
        "subtitle",
        "organisation",
        "date",
        "running",
        "size",
        "font",
        "colour",
        "points",
        "front_matter",
    ]
)
LAYOUTS: Final = ("cover", "one-column", "two-columns", "scan")
COLUMN_BREAK: Final = ("---",)
COLUMN_GAP: Final = 18.0
"""Points."""
ROMAN: Final = ("i", "ii", "iii", "iv")
SCAN_WIDTH: Final = 900
"""Pixels of a scan's width: about 110 dpi on A4, legible, and small once it is black and white."""
SCAN_INK: Final = 140
"""Grey values up to this one become black in a scan."""


class SourceError(ValueError):
    """A source text that cannot be laid out; the message names the file and the page."""


@dataclass(frozen=True, slots=True)
class SourcePage:
    """One page of a source."""

    layout: str
    """One of `LAYOUTS`."""
    blocks: tuple[tuple[str, ...], ...]
    """The lines of each block."""


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed source text."""

    name: str
    head: dict[str, str]
    """Has the keys `HEAD_KEYS`; `front_matter` is the number of pages before printed page 1."""
    pages: tuple[SourcePage, ...]


def read_source(path: Path) -> Source:
    """Parse a source text.

    Raises:
        SourceError: the head lacks a key, or a page has a layout that does not exist.
    """
    head_text, *page_texts = path.read_text(encoding="utf-8").split("\n=== ")
    head = dict(line.split(": ", 1) for line in head_text.splitlines())
    if head.keys() != HEAD_KEYS:
        difference = sorted(head.keys() ^ HEAD_KEYS)
        raise SourceError(f"{path.name}: head keys missing or unknown: {difference}.")
    pages = []
    for number, text in enumerate(page_texts, start=1):
        layout, _, body = text.partition("\n")
        if layout not in LAYOUTS:
            raise SourceError(
                f"{path.name} page {number}: layout {layout!r}; use one of {LAYOUTS}."
            )
        blocks = (tuple(block.strip("\n").split("\n")) for block in body.strip("\n").split("\n\n"))
        pages.append(SourcePage(layout, tuple(block for block in blocks if block != ("",))))
    return Source(path.stem, head, tuple(pages))


def draw_running_lines(canvas: Canvas, source: Source, look: Look, number: int) -> None:
    """Draw header, footer and the printed page number, which starts after the front matter."""
    width, height = look.size
    front_matter = int(source.head["front_matter"])
    printed = ROMAN[number - 1] if number <= front_matter else str(number - front_matter)
    canvas.setFillColor(look.colour)
    canvas.setStrokeColor(look.colour)
    canvas.setFont(look.regular, 7.5)
    canvas.drawString(look.margin, height - look.margin * 0.62, source.head["running"])
    canvas.drawString(look.margin, look.margin * 0.55, source.head["organisation"])
    canvas.drawRightString(width - look.margin, look.margin * 0.55, printed)
    canvas.setLineWidth(0.5)
    for y in (height - look.margin * 0.74, look.margin * 0.74):
        canvas.line(look.margin, y, width - look.margin, y)


def draw_cover(canvas: Canvas, source: Source, look: Look) -> None:
    """Draw the title page: a band of colour, three rings, title, subtitle, publisher."""
    width, height = look.size
    canvas.setFillColor(look.colour)
    canvas.rect(0, height * 0.52, width, height * 0.48, stroke=0, fill=1)
    canvas.setStrokeColor(look.tint)
    for index in range(3):
        canvas.circle(width * 0.82, height * 0.86, width * (0.05 + 0.04 * index))
    canvas.setFillColor(white)
    title = look.style(2.9, fontName=look.bold, textColor=white, leading=look.points * 3.4)
    paragraph = Paragraph(escape(source.head["title"]), title)
    _, used = paragraph.wrap(width - 2 * look.margin, height * 0.4)
    paragraph.drawOn(canvas, look.margin, height * 0.55)
    canvas.setFont(look.regular, look.points * 1.1)
    canvas.drawString(look.margin, height * 0.55 + used + 14, source.head["organisation"])
    canvas.setFillColor(black)
    canvas.setFont(look.regular, look.points * 1.4)
    canvas.drawString(look.margin, height * 0.47, source.head["subtitle"])
    canvas.setFont(look.regular, look.points)
    canvas.drawString(look.margin, look.margin, source.head["date"])


def draw_scan(canvas: Canvas, page: SourcePage, look: Look, place: str) -> None:
    """Draw the page's lines into a slightly turned black-and-white image that fills the page.

    Raises:
        SourceError: the lines do not fit.
    """
    height = round(SCAN_WIDTH * look.size[1] / look.size[0])
    image = Image.new("L", (SCAN_WIDTH, height), 255)
    pen = ImageDraw.Draw(image)
    y = 110
    for block in page.blocks:
        for line in block:
            is_heading = line.startswith("# ")
            font = ImageFont.load_default(size=33 if is_heading else 23)
            pen.text((110, y), line.removeprefix("# "), fill=0, font=font)
            y += 48 if is_heading else 34
        y += 22
    if y > height - 60:
        raise SourceError(
            f"{place}: the scan is {y - height + 60} pixels too long; shorten its text."
        )
    pen.rectangle((70, 70, SCAN_WIDTH - 70, height - 70), outline=0, width=2)
    turned = image.rotate(0.6, resample=Image.Resampling.BICUBIC, fillcolor=255)
    canvas.drawImage(
        ImageReader(turned.point(lambda v: 255 if v > SCAN_INK else 0)), 0, 0, *look.size
    )


def draw_blocks(canvas: Canvas, page: SourcePage, look: Look, place: str) -> None:
    """Draw the blocks of a page in one column or two.

    Raises:
        SourceError: a column is too long, or the page has another number of columns.
    """
    n_columns = 2 if page.layout == "two-columns" else 1
    starts = [index for index, block in enumerate(page.blocks) if block == COLUMN_BREAK]
    bounds = [-1, *starts, len(page.blocks)]
    if len(bounds) - 1 != n_columns:
        raise SourceError(f"{place}: {len(starts)} column breaks in a {page.layout!r} page.")
    width = (look.size[0] - 2 * look.margin - COLUMN_GAP * (n_columns - 1)) / n_columns
    for column, (start, end) in enumerate(pairwise(bounds)):
        x = look.margin + column * (width + COLUMN_GAP)
        height = look.size[1] - 2 * look.margin
        frame = Frame(x, look.margin, width, height, 0, 0, 0, 0)
        lines = page.blocks[start + 1 : end]
        story = [part for block in lines for part in lay_out_block(block, look, width)]
        frame.addFromList(story, canvas)
        if story:
            raise SourceError(f"{place}: {len(story)} flowables do not fit column {column + 1}.")


def draw_page(canvas: Canvas, source: Source, look: Look, number: int) -> None:
    """Draw one page."""
    page, place = source.pages[number - 1], f"{source.name} page {number}"
    if page.layout == "cover":
        draw_cover(canvas, source, look)
    elif page.layout == "scan":
        draw_scan(canvas, page, look, place)
    else:
        draw_running_lines(canvas, source, look, number)
        draw_blocks(canvas, page, look, place)
    canvas.showPage()


def make_document(source: Source, path: Path) -> None:
    """Write the PDF of a source."""
    serif = source.head["font"] == "Times"
    size = PAGE_SIZES[source.head["size"]]
    look = Look(
        size=size,
        margin=size[0] * 0.1,
        regular="Times-Roman" if serif else "Helvetica",
        bold="Times-Bold" if serif else "Helvetica-Bold",
        colour=HexColor(source.head["colour"]),
        points=float(source.head["points"]),
    )
    canvas = Canvas(str(path), pagesize=size, invariant=1, pageCompression=1)
    canvas.setTitle(source.head["title"])
    canvas.setAuthor(source.head["organisation"])
    for number in range(1, len(source.pages) + 1):
        draw_page(canvas, source, look, number)
    canvas.save()


def main() -> None:
    """Write every document of the corpus."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the PDF files")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    rl_config.useA85 = 0
    rl_config.invariant = 1
    for path in sorted(SOURCES.glob("*.txt")):
        source, target = read_source(path), out / f"{path.stem}.pdf"
        make_document(source, target)
        print(f"{target.name}: {len(source.pages)} pages, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
