from __future__ import annotations

import logging
import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pdf_files import write_text_pdf

from awm.documents import PageImage, RenderCache, RenderSettings, open_document
from awm.documents.render import PageKey, make_page_image
from awm.errors import ConfigError, PageError


def make_key(page: int = 1, digest: str = "ab" * 32, **settings: object) -> PageKey:
    return PageKey(digest, page, RenderSettings.model_validate(settings), "test1")


@dataclass
class Pen:
    """Draws a page of known bytes and counts how often."""

    size: int = 100
    strokes: list[int] = field(default_factory=list)

    def drawing(self, page: int = 1) -> Callable[[], PageImage]:
        def draw() -> PageImage:
            self.strokes.append(page)
            return make_page_image(bytes([page]) * self.size, "image/jpeg", 30, 20)

        return draw


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def test_a_page_is_drawn_once() -> None:
    pen, cache = Pen(), RenderCache(None)

    first = cache.get(make_key(), pen.drawing())

    assert cache.get(make_key(), pen.drawing()) is first
    assert pen.strokes == [1]


def test_the_disk_serves_another_process(tmp_path: Path) -> None:
    pen = Pen()
    drawn = RenderCache(tmp_path).get(make_key(), pen.drawing())

    read = RenderCache(tmp_path).get(make_key(), pen.drawing())

    assert (read, read.data, read.width, read.height) == (drawn, drawn.data, 30, 20)
    assert read.media_type == "image/jpeg"
    assert pen.strokes == [1]


@pytest.mark.parametrize(
    "other",
    [
        make_key(page=2),
        make_key(digest="cd" * 32),
        make_key(dpi=145),
        make_key(max_pixels=1000),
        make_key(jpeg_quality=91),
        make_key(media_type="image/png"),
        make_key()._replace(renderer="test2"),
    ],
)
def test_whatever_changes_the_bytes_is_drawn_apart(tmp_path: Path, other: PageKey) -> None:
    pen, cache = Pen(), RenderCache(tmp_path)

    cache.get(make_key(), pen.drawing())
    cache.get(other, pen.drawing(2))

    assert pen.strokes == [1, 2]
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[:20],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content.replace(b"image/jpeg", b"image/tiff"),
        lambda content: content.replace(b" 30 ", b" -3 "),
        lambda content: b"\xff" * 300,
    ],
)
def test_a_damaged_file_is_drawn_again_and_replaced(
    tmp_path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    pen = Pen()
    drawn = RenderCache(tmp_path).get(make_key(), pen.drawing())
    [path] = files(tmp_path)
    intact = path.read_bytes()
    path.write_bytes(damage(intact))

    with caplog.at_level(logging.WARNING):
        again = RenderCache(tmp_path).get(make_key(), pen.drawing())

    assert again.data == drawn.data
    assert path.read_bytes() == intact
    assert pen.strokes == [1, 1]
    assert "is damaged; drawing it again" in caplog.text


def test_no_temporary_file_stays_behind(tmp_path: Path) -> None:
    RenderCache(tmp_path).get(make_key(), Pen().drawing())

    [path] = files(tmp_path)
    assert path.suffix == ".awm-page-1"


def test_memory_keeps_what_was_used_last() -> None:
    pen, cache = Pen(size=100), RenderCache(None, memory_bytes=250)

    for page in (1, 2, 1, 3, 1, 2):
        cache.get(make_key(page), pen.drawing(page))

    assert pen.strokes == [1, 2, 3, 2]


def test_an_image_over_the_whole_budget_is_not_kept() -> None:
    pen, cache = Pen(size=300), RenderCache(None, memory_bytes=250)

    cache.get(make_key(), pen.drawing())
    cache.get(make_key(), pen.drawing())

    assert pen.strokes == [1, 1]


def test_threads_that_want_the_same_page_wait_for_one_drawing() -> None:
    pen, cache = Pen(), RenderCache(None)
    barrier = threading.Barrier(8)

    def draw_slowly() -> PageImage:
        time.sleep(0.05)
        return pen.drawing()()

    def work(_: int) -> PageImage:
        barrier.wait()
        return cache.get(make_key(), draw_slowly)

    with ThreadPoolExecutor(8) as pool:
        images = list(pool.map(work, range(8)))

    assert pen.strokes == [1]
    assert all(image is images[0] for image in images)


def test_a_page_that_cannot_be_drawn_is_not_cached(tmp_path: Path) -> None:
    cache = RenderCache(tmp_path)

    def fail() -> PageImage:
        raise PageError("damaged")

    for _ in range(2):
        with pytest.raises(PageError):
            cache.get(make_key(), fail)
    assert cache.get(make_key(), Pen().drawing()).width == 30


def test_a_disk_that_cannot_be_written_is_reported_once_and_costs_no_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = RenderCache(tmp_path)
    (tmp_path / "ab").write_text("a file where a folder should be")

    with caplog.at_level(logging.WARNING):
        for page in (1, 2):
            assert cache.get(make_key(page), Pen().drawing(page)).data[0] == page

    assert caplog.text.count("cannot write cached page") == 1


def test_a_cache_folder_that_cannot_be_made_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")

    with pytest.raises(ConfigError, match=r"page cache '.*taken' cannot be made"):
        RenderCache(tmp_path / "taken")


def fill_cache(directory: Path, pdf: Path) -> list[str]:
    cache = RenderCache(directory, memory_bytes=0)
    with open_document(pdf) as document:
        return [
            document.page(number).image(RenderSettings(max_pixels=40_000), cache).digest
            for number in document.page_numbers
        ]


def test_processes_may_share_a_folder(tmp_path: Path) -> None:
    pdf = write_text_pdf(tmp_path / "x.pdf", [f"page {n}" for n in range(10)])
    directory = tmp_path / "cache"

    with multiprocessing.get_context("spawn").Pool(2) as pool:
        digests = pool.starmap(fill_cache, [(directory, pdf)] * 4)

    assert all(each == fill_cache(directory, pdf) for each in digests)
    assert len(files(directory)) == 10


def test_pages_of_a_window_are_the_pages_of_the_document(tmp_path: Path) -> None:
    cache = RenderCache(None)
    with open_document(write_text_pdf(tmp_path / "x.pdf", ["one", "two"])) as document:
        whole = document.page(2).image(RenderSettings(), cache)

        assert document.window(2, 2).page(2).image(RenderSettings(), cache) is whole
