"""The pocket world: generated documents of small pages, and questions about them.

A page has a subject and a few facts, "cost: 4172". It is drawn on a grid of 16-pixel patches, two
characters a patch, because a vision tower of a million parameters learns to read only there. The
subject is a picture, as a logo is: it does not stand in the text layer. A search therefore finds
the pages that state a fact of the right kind, and only who looks at them knows whose fact it is.

Everything follows from integers: the same seed gives the same documents and questions, on every
machine. Which values may stand on a subject's pages depends on the split, so a pair of subject
and value of the test split never occurs in training.

>>> case = make_case("test", seed=1, number=0)
>>> case.question, case.answer, case.evidence_pages
('What is the rent of Hexa?', '7420', (16,))
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from awm.documents import Document, RenderSettings
from awm.documents.image import PageImage
from awm.documents.render import encode_rgb, fit_size
from awm.errors import PageError

NAMES: list[str] = re.findall(
    r"\w+",
    "Acme Borel Cygnus Dorado Elmwood Fenix Gallo Hexa Indigo Jupiter Kestrel Lumen Mirage Nordik "
    "Orion Pollux Quasar Rivoli Solaris Tundra Umbra Vertex Walnut Xenon Yonder Zephyr Amber "
    "Birch Cobalt Dynamo Falcon Glacier Harbor Iris Willow Kodiak Lotus Magnet Nimbus Sable "
    "Basalt Raven Summit Topaz Vulcan Wicket Tagus Egret",
)
"""Subjects. They are unlike each other, so that the judge gives no part of a point for another."""
KEYS: list[str] = re.findall(
    r"\w+",
    "cost price tax area depth width load mass speed count score level stock sales debt cash fund "
    "rent wage bonus fee fine grant duty toll crew fleet yield waste power heat flow range pulse "
    "noise steps pages seats rooms beds acres tons miles cells",
)
"""Kinds of fact; every value is a number of four digits."""
COLUMNS, ROWS = 5, 6
"""Patches of a page; one row for the subject, five for facts."""
PATCH_PX, CELL_PX = 16, 8
WIDTH_PX, HEIGHT_PX = COLUMNS * PATCH_PX, ROWS * PATCH_PX
KEY_CELLS = 6
"""Characters before the value, so that a value fills two whole patches."""
MIN_PAGES, MAX_PAGES = 6, 20
MAX_PAGES_OF_KEY = 3
"""Pages that state a fact of one kind; one retrieval shows three, so it shows all of them."""
MIN_LEAD = 3
"""Two values of a kind differ by this in their leading two digits: comparisons are clear."""
NOT_ANSWERABLE = "Not answerable"

Split = Literal["train", "test"]
Kind = Literal["lookup", "larger_value", "larger_subject", "count", "unanswerable"]
KINDS: dict[Kind, float] = {
    "lookup": 0.58,
    "larger_value": 0.09,
    "larger_subject": 0.05,
    "count": 0.10,
    "unanswerable": 0.18,
}
"""Shares of the kinds of question. Answers that could be guessed without reading (a count, the
larger of two subjects) are kept rare."""


@dataclass(frozen=True, slots=True)
class PocketPage:
    """A page: its subject, and facts as (kind, value)."""

    subject: str
    facts: tuple[tuple[str, str], ...]

    def lines(self) -> list[str]:
        """Give the lines as drawn."""
        return [self.subject, *(f"{key}:".ljust(KEY_CELLS) + value for key, value in self.facts)]

    def value(self, key: str) -> str | None:
        """Give the value of a kind of fact; None where the page does not state it."""
        return dict(self.facts).get(key)


Pages = tuple[PocketPage, ...]


@dataclass(frozen=True, slots=True)
class PocketCase:
    """A document with one question about it, and all that a teacher or a judge must know."""

    pages: Pages
    kind: Kind
    question: str
    answer: str
    answer_format: Literal["Int", "Str", "None"]
    key: str
    """The kind of fact that is asked for."""
    subjects: tuple[str, ...]
    """The subjects that the question names, in its order."""
    evidence_pages: tuple[int, ...]
    """1-based, in the order in which findings state them; empty where there is no answer."""

    def pages_with_key(self) -> tuple[int, ...]:
        """Give the pages (1-based) that state a fact of the asked kind."""
        return pages_with(self.pages, self.key)


def pages_with(pages: Pages, key: str) -> tuple[int, ...]:
    """Give the pages (1-based) that state a fact of a kind."""
    return tuple(n for n, page in enumerate(pages, start=1) if page.value(key) is not None)


def belongs_to(subject: str, value: str) -> Split:
    """Tell the split in which a value may stand on a page of a subject: a quarter is test's."""
    return "test" if zlib.crc32(f"{subject} {value}".encode()) % 4 == 0 else "train"


def make_pages(random: Random, split: Split) -> Pages:
    """Make the pages of a document.

    Every kind of fact is dealt to one to three pages, so the pages that state it all fit into one
    retrieval, and mostly several subjects compete for a question.
    """
    subjects = random.sample(NAMES, random.randint(MIN_PAGES, MAX_PAGES))
    free = [random.randint(3, ROWS - 1) for _ in subjects]
    facts: list[list[tuple[str, str]]] = [[] for _ in subjects]
    for key in random.sample(KEYS, len(KEYS)):
        open_pages = [i for i, n in enumerate(free) if n]
        if not open_pages:
            break
        n_pages = min(random.choice((1, 2, 3, 3, 3)), len(open_pages))
        leads: list[int] = []
        for i in random.sample(open_pages, n_pages):
            value = draw_value(random, split, subjects[i], leads)
            leads.append(int(value[:2]))
            facts[i].append((key, value))
            free[i] -= 1
    for own in facts:
        random.shuffle(own)
    pairs = zip(subjects, facts, strict=True)
    return tuple(PocketPage(subject, tuple(own)) for subject, own in pairs)


def draw_value(random: Random, split: Split, subject: str, leads: Sequence[int] = ()) -> str:
    """Draw a value that may stand on a subject's pages in a split.

    Args:
        random: what chooses.
        split: whose value it is.
        subject: on whose pages it stands.
        leads: leading two digits of other values, from which it is to differ clearly.
    """
    while True:
        value = str(random.randint(1000, 9999))
        clear = all(abs(int(value[:2]) - lead) >= MIN_LEAD for lead in leads)
        if clear and belongs_to(subject, value) == split:
            return value


def ask(random: Random, pages: Pages, kind: Kind) -> PocketCase | None:
    """Ask a question of a kind; None where these pages allow none."""
    n_wanted = random.choice(_PAGES_OF_ASKED_KEY.get(kind, (1, 2, 3)))
    keys = [key for key in KEYS if len(pages_with(pages, key)) == n_wanted]
    if not keys:
        return None
    key = random.choice(keys)
    return _ASK[kind](random, pages, key)


def _ask_lookup(random: Random, pages: Pages, key: str) -> PocketCase:
    n = random.choice(pages_with(pages, key))
    page = pages[n - 1]
    value = page.value(key) or ""
    question = f"What is the {key} of {page.subject}?"
    return PocketCase(pages, "lookup", question, value, "Int", key, (page.subject,), (n,))


def _ask_larger_value(random: Random, pages: Pages, key: str) -> PocketCase:
    numbers, subjects, values = _two(random, pages, key)
    question = comparison(key, subjects, wants_value=True)
    return PocketCase(pages, "larger_value", question, max(values), "Int", key, subjects, numbers)


def _ask_larger_subject(random: Random, pages: Pages, key: str) -> PocketCase:
    numbers, subjects, values = _two(random, pages, key)
    question = comparison(key, subjects, wants_value=False)
    answer = subjects[0] if values[0] > values[1] else subjects[1]
    return PocketCase(pages, "larger_subject", question, answer, "Str", key, subjects, numbers)


def comparison(key: str, subjects: Sequence[str], *, wants_value: bool) -> str:
    """Ask for the larger of two facts, or for whose it is."""
    verb = "What is" if wants_value else "Which has"
    return f"{verb} the larger {key}, {subjects[0]} or {subjects[1]}?"


def _two(
    random: Random, pages: Pages, key: str
) -> tuple[tuple[int, ...], tuple[str, ...], tuple[str, ...]]:
    numbers = tuple(random.sample(pages_with(pages, key), 2))
    subjects = tuple(pages[n - 1].subject for n in numbers)
    return numbers, subjects, tuple(pages[n - 1].value(key) or "" for n in numbers)


def _ask_count(random: Random, pages: Pages, key: str) -> PocketCase:
    numbers = pages_with(pages, key)
    question = f"How many pages list the {key}?"
    return PocketCase(pages, "count", question, str(len(numbers)), "Int", key, (), numbers)


def _ask_unanswerable(random: Random, pages: Pages, key: str) -> PocketCase:
    have = {pages[n - 1].subject for n in pages_with(pages, key)}
    elsewhere = [page.subject for page in pages if page.subject not in have]
    nowhere = [name for name in NAMES if name not in have and name not in elsewhere]
    subject = random.choice(nowhere if random.random() < 0.3 else elsewhere)
    question = f"What is the {key} of {subject}?"
    return PocketCase(pages, "unanswerable", question, NOT_ANSWERABLE, "None", key, (subject,), ())


_PAGES_OF_ASKED_KEY: dict[Kind, tuple[int, ...]] = {
    "lookup": (2, 3, 3),
    "larger_value": (2, 3),
    "larger_subject": (2, 3),
}
"""Pages that state a fact of the asked kind; each number as likely as it is listed."""
_ASK: dict[Kind, Callable[[Random, Pages, str], PocketCase]] = {
    "lookup": _ask_lookup,
    "larger_value": _ask_larger_value,
    "larger_subject": _ask_larger_subject,
    "count": _ask_count,
    "unanswerable": _ask_unanswerable,
}


def make_case(
    split: Split, seed: int, number: int, *, questions_per_document: int = 4
) -> PocketCase:
    """Make question `number` (from 0) of a seed, with its document.

    Questions 0 to 3 are about the first document, 4 to 7 about the second, and so on.
    """
    document, _ = divmod(number, questions_per_document)
    pages = make_pages(Random(f"{split} {seed} document {document}"), split)
    random = Random(f"{split} {seed} question {number}")
    while True:
        kind = random.choices(list(KINDS), weights=list(KINDS.values()))[0]
        case = ask(random, pages, kind)
        if case is not None:
            return case


def training_cases(seed: int, start: int = 0) -> Iterator[PocketCase]:
    """Give the cases of the train split, each with a document of its own, without end."""
    number = start
    while True:
        yield make_case("train", seed, number, questions_per_document=1)
        number += 1


@cache
def _glyphs() -> NDArray[np.uint8]:
    """Give the printable ASCII characters, shape (95, 11, 6), black on white."""
    font = ImageFont.load_default_imagefont()
    drawn = []
    for code in range(32, 127):
        glyph = Image.new("L", (6, 11), 255)
        ImageDraw.Draw(glyph).text((0, 0), chr(code), font=font, fill=0)
        drawn.append(np.asarray(glyph))
    return np.stack(drawn)


def draw_page(page: PocketPage | None) -> Image.Image:
    """Draw a page, black on white; None gives blank paper."""
    pixels = np.full((HEIGHT_PX, WIDTH_PX), 255, np.uint8)
    for row, line in enumerate(page.lines() if page else ()):
        for column, character in enumerate(line):
            x, y = 1 + column * CELL_PX, row * PATCH_PX + 2
            pixels[y : y + 11, x : x + 6] = _glyphs()[ord(character) - 32]
    return Image.fromarray(pixels).convert("RGB")


class PocketSource:
    """Draws and reads generated pages: the `PageSource` of a pocket document.

    Args:
        pages: the pages.
        blank: draw white paper in their place; the text layer stays, so that searches find the
            same pages. What a model still answers then, it has not read.
    """

    renderer = "pocket1"

    def __init__(self, pages: Pages, *, blank: bool = False) -> None:
        self._pages = pages
        self._blank = blank
        self.page_count = len(pages)
        text = "\f".join("\n".join(page.lines()) for page in pages)
        self.digest = hashlib.sha256(f"pocket blank={blank}\f{text}".encode()).hexdigest()

    def draw(self, number: int, settings: RenderSettings) -> PageImage:
        """Draw a page, 1-based, at its own resolution or what the pixel budget leaves of it."""
        image = draw_page(None if self._blank else self._page(number))
        size = fit_size(WIDTH_PX, HEIGHT_PX, scale=1.0, max_pixels=settings.max_pixels)
        if size != image.size:
            image = image.resize(size, Image.Resampling.LANCZOS)
        return encode_rgb(image, settings)

    def read_text(self, number: int) -> str:
        """Give a page's facts; its subject is a picture and has no text."""
        return "\n".join(f"{key}: {value}" for key, value in self._page(number).facts)

    def close(self) -> None:
        """Do nothing: there is no file."""

    def _page(self, number: int) -> PocketPage:
        if not 1 <= number <= len(self._pages):
            raise PageError(f"There is no page {number}; the document has {len(self._pages)}.")
        return self._pages[number - 1]


def make_document(pages: Pages, document_id: str, *, blank: bool = False) -> Document:
    """Make a document of generated pages, without a file."""
    return Document(document_id, PocketSource(pages, blank=blank))
