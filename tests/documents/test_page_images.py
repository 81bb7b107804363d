"""Pages that are image files."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from awm.documents import PageImage, RenderSettings, open_document
from awm.errors import PageError

JPEG = RenderSettings()
PNG = RenderSettings(media_type="image/png")


def draw(path: Path, settings: RenderSettings = JPEG) -> PageImage:
    return open_document(path).page(1).image(settings)


def pixel(image: PageImage, x: int, y: int) -> tuple[int, ...]:
    value = Image.open(io.BytesIO(image.data)).convert("RGB").getpixel((x, y))
    assert isinstance(value, tuple)
    return tuple(int(level) for level in value)


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.mark.parametrize(("name", "settings"), [("a.jpg", JPEG), ("a.png", PNG)])
def test_a_small_image_in_the_right_format_goes_through_unchanged(
    tmp_path: Path, name: str, settings: RenderSettings
) -> None:
    path = tmp_path / name
    Image.new("RGB", (300, 200), "teal").save(path)

    image = draw(path, settings)

    assert image.data == path.read_bytes()
    assert (image.width, image.height) == (300, 200)
    assert image.media_type == settings.media_type


def test_a_large_image_is_scaled_down_to_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.new("RGB", (3000, 2000), "teal").save(path)

    image = draw(path)

    assert (image.width, image.height) == (1254, 836)
    assert Image.open(io.BytesIO(image.data)).size == (1254, 836)
    assert all(abs(a - b) < 6 for a, b in zip(pixel(image, 600, 400), (0, 128, 128), strict=True))


def test_a_small_image_is_not_blown_up(tmp_path: Path) -> None:
    path = tmp_path / "a.webp"
    Image.new("RGB", (30, 20), "teal").save(path)

    image = draw(path, RenderSettings(dpi=600))

    assert (image.width, image.height) == (30, 20)
    assert image.media_type == "image/jpeg"


def test_the_format_is_told_from_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "really-a-png.jpg"
    Image.new("RGB", (30, 20), "teal").save(path, format="PNG")

    assert draw(path).media_type == "image/jpeg"
    assert draw(path, PNG).data == path.read_bytes()


def test_transparency_lies_on_white_paper(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGBA", (30, 20), (0, 0, 0, 0)).save(path)

    assert pixel(draw(path, PNG), 5, 5) == (255, 255, 255)


def test_a_palette_with_a_transparent_colour_lies_on_white_paper(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    image = Image.new("P", (30, 20), 0)
    image.putpalette([0, 0, 0, 255, 0, 0])
    image.putpixel((3, 3), 1)
    image.save(path, transparency=0)

    assert pixel(draw(path, PNG), 5, 5) == (255, 255, 255)
    assert pixel(draw(path, PNG), 3, 3) == (255, 0, 0)


@pytest.mark.parametrize(("level", "expected"), [(0, 0), (32896, 128), (65535, 255)])
def test_16_bit_grey_is_scaled_and_not_clipped(tmp_path: Path, level: int, expected: int) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.full((20, 30), level, dtype=np.uint16)).save(path)

    assert pixel(draw(path, PNG), 5, 5) == (expected, expected, expected)


def test_cmyk_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.new("CMYK", (30, 20), (0, 255, 255, 0)).save(path)

    red, green, blue = pixel(draw(path), 5, 5)

    assert red > 240
    assert green < 15
    assert blue < 15


@pytest.mark.parametrize("size", [(40, 20), (4000, 2000)])
def test_a_photographed_page_is_turned_upright(tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "a.jpg"
    width, height = size
    picture = Image.new("RGB", size, "white")
    picture.paste("red", (0, 0, width // 2, height))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the left edge belongs at the top
    picture.save(path, exif=exif, quality=95)

    image = draw(path)

    assert image.height == pytest.approx(2 * image.width, abs=2)
    assert pixel(image, image.width // 2, image.height // 8)[1] < 60
    assert pixel(image, image.width // 2, image.height - 3)[1] > 200


def test_an_image_cut_short_is_a_page_error(tmp_path: Path) -> None:
    for name in ("a.png", "b.jpg"):
        path = tmp_path / name
        noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path)
        path.write_bytes(path.read_bytes()[:5000])

        with pytest.raises(PageError, match=f"{name}' of page 1 cannot be decoded.*intact"):
            draw(path)


def test_a_file_in_a_folder_that_is_no_image_spoils_only_its_page(tmp_path: Path) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "1.png")
    (tmp_path / "2.png").write_bytes(b"")
    document = open_document(tmp_path)

    assert document.page(1).image(JPEG).width == 30
    with pytest.raises(PageError, match=r"2\.png' of page 2 .*0 bytes that are no PNG"):
        document.page(2).image(JPEG)


def test_a_decompression_bomb_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", header)
        + png_chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + png_chunk(b"IEND", b"")
    )

    with pytest.raises(PageError, match="60000 x 60000 pixels; the limit is 100000000 pixels"):
        draw(path)


def test_extreme_shapes_keep_a_pixel(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", (20_000, 2)).save(path)

    image = draw(path)

    assert (image.width, image.height) == (8192, 1)
