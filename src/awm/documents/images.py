"""Pages that are image files already: scans, or pages that somebody has drawn before.

Sizes are read from the header and the pixel budget is applied while decoding, so a small file
that unpacks to gigapixels is refused before it takes memory. A file that is within the budget, in
the format asked for, upright and plain (8-bit colour or grey without transparency) goes through
unchanged, byte by byte: no second JPEG generation, and a digest that depends on no library
version. Everything else is drawn over white, turned upright, scaled down and encoded like a page
of a PDF.

Formats are told from the first bytes, not from the name: PNG, JPEG, WebP. A page image has no
text layer.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping
from pathlib import Path

import PIL
from PIL import Image, ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from awm.documents.image import MediaType, PageImage
from awm.documents.render import RenderSettings, encode_rgb, fit_size, make_page_image
from awm.errors import PageError

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
"""Names that count as pages in a folder of images."""
MAX_SOURCE_PIXELS = 100_000_000
"""Pixels that may have to be decoded for one page: 300 MB. An A0 poster at 240 dpi fits; a JPEG
may be 64 times larger, since it is decoded at a fraction of its size."""
_EXIF_ORIENTATION = 0x0112
_TRANSPOSE = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_MEDIA_TYPES: dict[type[ImageFile.ImageFile], MediaType] = {
    JpegImageFile: "image/jpeg",
    PngImageFile: "image/png",
}


def sniff_image(head: bytes) -> type[ImageFile.ImageFile] | None:
    """Tell an image format that can be a page from the first bytes (12 or more) of a file."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return PngImageFile
    if head.startswith(b"\xff\xd8\xff"):
        return JpegImageFile
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return WebPImageFile
    return None


class ImageSource:
    """Pages given as one image file each.

    Args:
        paths: page number, 1-based, to file; pages may be missing.
        page_count: pages of the whole document.
        digest: SHA-256 that identifies the document, in hex.
    """

    renderer = f"pillow{PIL.__version__}"

    def __init__(self, paths: Mapping[int, Path], page_count: int, digest: str) -> None:
        self._paths = dict(paths)
        self.page_count = page_count
        self.digest = digest

    def draw(self, number: int, settings: RenderSettings) -> PageImage:
        """Decode, scale and encode a page, 1-based.

        Raises:
            PageError: there is no file for the page, or it cannot be decoded.
        """
        path = self._paths.get(number)
        if path is None:
            raise PageError(
                f"Page {number} has no image file (files exist for {len(self._paths)} of "
                f"{self.page_count} pages). Add it, or narrow the page window."
            )
        try:
            return _draw_file(path, settings)
        except FileNotFoundError as error:
            raise PageError(
                f"The image {str(path)!r} of page {number} is missing. Put the file back."
            ) from error
        except (OSError, SyntaxError, ValueError, EOFError) as error:
            raise PageError(
                f"The image {str(path)!r} of page {number} cannot be decoded "
                f"({type(error).__name__}: {error}). Replace it with an intact PNG, JPEG or WebP."
            ) from error

    def read_text(self, number: int) -> str:
        """Give the text layer of a page: an image has none."""
        return ""

    def close(self) -> None:
        """Do nothing: files are open only while they are decoded."""


def digest_images(paths: Mapping[int, Path]) -> str:
    """Identify a document by its pages: SHA-256 over page numbers and the files' SHA-256.

    A page whose file is missing counts as missing, so the digest changes when it arrives.
    """
    document = hashlib.sha256()
    for number in sorted(paths):
        try:
            with open(paths[number], "rb") as file:
                page = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            page = "missing"
        document.update(f"{number} {page}\n".encode("ascii"))
    return document.hexdigest()


def _draw_file(path: Path, settings: RenderSettings) -> PageImage:
    data = path.read_bytes()
    image_file = sniff_image(data[:16])
    if image_file is None:
        raise ValueError(f"{len(data)} bytes that are no PNG, JPEG or WebP")
    # Not Image.open, whose guard against huge images is a process-wide setting.
    with image_file(io.BytesIO(data)) as image:
        size = fit_size(*image.size, scale=1.0, max_pixels=settings.max_pixels)
        plain = image.mode in ("RGB", "L") and "transparency" not in image.info
        media_type = _MEDIA_TYPES.get(image_file)
        image.draft("RGB" if image.mode == "YCbCr" else image.mode, size)
        n_pixels = image.width * image.height
        if n_pixels > MAX_SOURCE_PIXELS:
            raise ValueError(
                f"{image.width} x {image.height} pixels; the limit is {MAX_SOURCE_PIXELS} pixels"
            )
        image.load()
        orientation = image.getexif().get(_EXIF_ORIENTATION, 1)
        if plain and orientation == 1 and media_type == settings.media_type and size == image.size:
            return make_page_image(data, media_type, *size)
        drawn = _flatten(image)
    if drawn.size != size:
        drawn = drawn.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    if orientation in _TRANSPOSE:
        drawn = drawn.transpose(_TRANSPOSE[orientation])
    return encode_rgb(drawn, settings)


def _flatten(image: Image.Image) -> Image.Image:
    """Give 8-bit RGB, with transparency over white paper."""
    if image.mode.startswith("I"):
        # 16-bit grey; Pillow's own conversion clips at 255 in place of scaling.
        return image.convert("I").point(lambda level: level * (1 / 257)).convert("L").convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        colour = image.convert("RGBA")
        paper = Image.new("RGBA", colour.size, (255, 255, 255, 255))
        return Image.alpha_composite(paper, colour).convert("RGB")
    return image.convert("RGB")


def natural_key(path: Path) -> tuple[list[tuple[bool, int, str]], str]:
    """Sort file names by the numbers in them: page 2 before page 10."""
    runs = re.findall(r"\d+|\D+", path.name.casefold())
    key = [(True, int(run), "") if run.isdecimal() else (False, 0, run) for run in runs]
    return key, path.name
