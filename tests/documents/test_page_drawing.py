"""Drawing and reading pages of PDFs."""

from __future__ import annotations

import io
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pdf_files import blank_page, pdf_of_pages, write_text_pdf
from PIL import Image
from pydantic import ValidationError
from reportlab.pdfgen.canvas import Canvas

from awm.documents import Document, PageImage, RenderSettings, open_document
from awm.documents.render import MAX_SIDE_PX, fit_size


def draw_first(path: Path, **settings: object) -> PageImage:
    with open_document(path) as document:
        return document.page(1).image(RenderSettings.model_validate(settings))


def decode(image: PageImage) -> Image.Image:
    decoded = Image.open(io.BytesIO(image.data))
    decoded.load()
    return decoded


def test_a_letter_page_fills_the_budget_and_keeps_its_shape(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    path.write_bytes(pdf_of_pages([blank_page(b"0 0 612 792")]))

    image = draw_first(path)

    assert (image.width, image.height) == (900, 1164)
    assert image.media_type == "image/jpeg"
    assert decode(image).size == (900, 1164)
    assert decode(image).format == "JPEG"


def test_a_page_within_the_budget_has_the_resolution_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    path.write_bytes(pdf_of_pages([blank_page(b"0 0 216 144")]))

    image = draw_first(path, dpi=150)

    assert (image.width, image.height) == (450, 300)


def test_png_on_request_is_lossless_and_has_the_right_colours(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    canvas = Canvas(str(path), pagesize=(72, 72))
    canvas.setFillColorRGB(1, 0, 0)
    canvas.rect(0, 36, 72, 36, stroke=0, fill=1)
    canvas.setFillColorRGB(0, 0, 1)
    canvas.rect(0, 0, 72, 36, stroke=0, fill=1)
    canvas.save()

    png = decode(draw_first(path, dpi=72, media_type="image/png"))
    jpeg = decode(draw_first(path, dpi=72))

    assert png.format == "PNG"
    assert png.getpixel((36, 10)) == (255, 0, 0)
    assert png.getpixel((36, 60)) == (0, 0, 255)
    assert np.abs(np.asarray(jpeg, dtype=int)[10, 36] - [255, 0, 0]).max() < 10
    assert np.abs(np.asarray(jpeg, dtype=int)[60, 36] - [0, 0, 255]).max() < 10


def test_a_lower_quality_makes_a_smaller_file(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "x.pdf", ["some text"], lines_per_text=40)

    assert len(draw_first(path, jpeg_quality=30).data) < len(draw_first(path).data)


@pytest.mark.parametrize(
    ("mediabox", "size"),
    [
        (b"0 0 2000000 2000000", (1024, 1024)),
        (b"0 0 1 200000", (1, MAX_SIDE_PX)),
        (b"0 0 200000 1", (MAX_SIDE_PX, 1)),
        (b"0 0 0.001 100", (1, 200)),
        (b"0 0 1e39 99999999999999999999999999999999999999999999", (900, 1164)),
    ],
)
def test_no_page_size_can_take_the_memory(
    tmp_path: Path, mediabox: bytes, size: tuple[int, int]
) -> None:
    path = tmp_path / "x.pdf"
    path.write_bytes(pdf_of_pages([blank_page(mediabox)]))

    image = draw_first(path)

    assert (image.width, image.height) == size


def test_rotation_and_crop_box_decide_the_size(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    pages = [
        blank_page(b"0 0 100 200", b"/Rotate 90"),
        blank_page(b"0 0 100 200", b"/CropBox[10 10 60 40]"),
    ]
    path.write_bytes(pdf_of_pages(pages))

    with open_document(path) as document:
        rotated = document.page(1).image(RenderSettings(dpi=72))
        cropped = document.page(2).image(RenderSettings(dpi=72))

    assert (rotated.width, rotated.height) == (200, 100)
    assert (cropped.width, cropped.height) == (50, 30)


def test_text_outside_of_the_crop_box_is_neither_seen_nor_read(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    canvas = Canvas(str(path), pagesize=(300, 300))
    canvas.setCropBox((0, 0, 300, 150))
    canvas.drawString(20, 250, "hidden")
    canvas.drawString(20, 50, "visible")
    canvas.save()

    with open_document(path) as document:
        assert document.page(1).text() == "visible"


def test_filled_form_fields_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    canvas = Canvas(str(path), pagesize=(200, 100))
    canvas.acroForm.textfield(
        value="FILLED", x=10, y=30, width=180, height=40, fontSize=30, borderWidth=0
    )
    canvas.showPage()
    canvas.save()

    pixels = np.asarray(decode(draw_first(path, dpi=72, media_type="image/png")).convert("L"))

    assert (pixels < 80).sum() > 200


def test_text_keeps_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    canvas = Canvas(str(path))
    canvas.drawString(50, 700, "Total:   4.7 %")
    canvas.drawString(50, 650, "second line")
    canvas.save()

    with open_document(path) as document:
        text = document.page(1).text()

    assert text.splitlines() == ["Total: 4.7 %", "second line"]


def test_drawing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "x.pdf", ["some text"], lines_per_text=40)

    assert draw_first(path) == draw_first(path)
    assert draw_first(path).data == draw_first(path).data


def test_threads_may_share_documents_and_drop_them_unclosed(tmp_path: Path) -> None:
    texts = [f"text of page {number}" for number in range(1, 13)]
    paths = [write_text_pdf(tmp_path / f"{name}.pdf", texts) for name in "abc"]
    shared = open_document(paths[0])
    expected = {n: shared.page(n).image(RenderSettings()).digest for n in shared.page_numbers}
    barrier = threading.Barrier(6)

    def work(worker: int) -> None:
        barrier.wait()
        for number in shared.page_numbers:
            own: Document = open_document(paths[worker % 3])
            for document in (shared, own):
                assert document.page(number).text() == texts[number - 1]
                assert document.page(number).image(RenderSettings()).digest == expected[number]
            if number % 5 == worker % 5:
                shared.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    shared.close()


def resident_mib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")
def test_memory_stays_flat_over_500_pages(tmp_path: Path) -> None:
    texts = [f"page {number}: " + "lorem ipsum dolor " * 3 for number in range(500)]
    path = write_text_pdf(tmp_path / "x.pdf", texts, lines_per_text=40)
    resident = {}

    with open_document(path) as document:
        for number in document.page_numbers:
            page = document.page(number)
            assert page.text()
            page.image(RenderSettings(max_pixels=262_144))
            resident[number] = resident_mib()

    assert resident[500] - resident[50] < 30


@given(
    width=st.floats(1e-3, 1e30),
    height=st.floats(1e-3, 1e30),
    scale=st.floats(0.01, 100),
    max_pixels=st.integers(1, 10**8),
)
def test_a_fitted_size_is_within_every_limit(
    width: float, height: float, scale: float, max_pixels: int
) -> None:
    columns, rows = fit_size(width, height, scale=scale, max_pixels=max_pixels)

    assert 1 <= columns <= MAX_SIDE_PX
    assert 1 <= rows <= MAX_SIDE_PX
    assert columns * rows <= max_pixels
    assert columns <= max(1, width * scale + 1e-6)
    assert rows <= max(1, height * scale + 1e-6)


@pytest.mark.parametrize(
    "settings",
    [{"dpi": 0}, {"max_pixels": 0}, {"jpeg_quality": 101}, {"media_type": "image/gif"}, {"x": 1}],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RenderSettings.model_validate(settings)
