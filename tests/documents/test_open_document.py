from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from pdf_files import blank_page, pdf_of_pages, write_text_pdf
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from awm.documents import RenderSettings, document_from_images, open_document
from awm.errors import (
    DocumentError,
    DocumentNotFoundError,
    EmptyFileError,
    EncryptedDocumentError,
    NoPagesError,
    NotAPdfError,
    PageError,
    TruncatedDocumentError,
)


def write_image(path: Path, colour: str = "white", size: tuple[int, int] = (20, 30)) -> Path:
    Image.new("RGB", size, colour).save(path)
    return path


def test_a_pdf_is_named_after_its_file_and_known_by_its_bytes(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "report.pdf", ["one", "two", "three"])

    with open_document(path) as document:
        assert document.id == "report.pdf"
        assert document.digest == hashlib.sha256(path.read_bytes()).hexdigest()
        assert document.page_count == 3
        assert document.page_numbers == range(1, 4)
        assert [document.page(number).text() for number in (1, 2, 3)] == ["one", "two", "three"]


def test_the_benchmark_may_name_the_document(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "x.pdf", ["one"])

    with open_document(str(path), document_id="4055915") as document:
        assert document.id == "4055915"
        assert document.page(1).document_id == "4055915"


@pytest.mark.parametrize("number", [0, 4, -1])
def test_a_page_outside_of_the_document_is_a_page_error(tmp_path: Path, number: int) -> None:
    document = open_document(write_text_pdf(tmp_path / "x.pdf", ["a", "b", "c"]))

    with document, pytest.raises(PageError, match=f"'x.pdf' has no page {number} here.*1 to 3"):
        document.page(number)


def test_a_window_shows_its_pages_under_their_own_numbers(tmp_path: Path) -> None:
    texts = ["one", "two", "", "four", "five"]
    with open_document(write_text_pdf(tmp_path / "x.pdf", texts)) as document:
        window = document.window(2, 4)

        assert window.page_numbers == range(2, 5)
        assert window.page_count == 5
        assert window.digest == document.digest
        assert window.page(4).text() == "four"
        assert window.pages_without_text() == [3]
        assert window.n_text_pages == 2
        assert document.n_text_pages == 4
        with pytest.raises(PageError, match=r"no page 5 here.*2 to 4"):
            window.page(5)


@pytest.mark.parametrize(("first", "last"), [(0, 2), (2, 4), (3, 2), (4, 9)])
def test_a_window_has_to_lie_within_the_document(tmp_path: Path, first: int, last: int) -> None:
    document = open_document(write_text_pdf(tmp_path / "x.pdf", ["a", "b", "c"]))

    with document, pytest.raises(PageError, match=f"no window of pages {first} to {last}"):
        document.window(first, last)


def test_a_window_of_a_window_cannot_reach_further(tmp_path: Path) -> None:
    document = open_document(write_text_pdf(tmp_path / "x.pdf", list("abcde")))

    with document, pytest.raises(PageError, match="pages 1 to 3"):
        document.window(2, 4).window(1, 3)


def test_a_closed_document_opens_again_when_it_is_used(tmp_path: Path) -> None:
    document = open_document(write_text_pdf(tmp_path / "x.pdf", ["one", "two"]))
    window = document.window(2, 2)
    before = document.page(1).image(RenderSettings())
    document.close()
    document.close()

    assert document.page(1).image(RenderSettings()) == before
    assert window.page(2).text() == "two"
    document.close()


def test_a_file_that_changed_after_it_was_closed_is_refused(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "x.pdf", ["one"])
    document = open_document(path)
    document.close()
    write_text_pdf(path, ["something else", "and more"])

    with pytest.raises(DocumentError, match="changed while it was in use"):
        document.page(1).text()


def test_a_missing_path_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(DocumentNotFoundError, match=r"no document at '.*nothing\.pdf'.*download"):
        open_document(tmp_path / "nothing.pdf")


def test_a_file_of_0_bytes_is_empty(tmp_path: Path) -> None:
    (tmp_path / "x.pdf").touch()

    with pytest.raises(EmptyFileError, match=r"x\.pdf' has 0 bytes"):
        open_document(tmp_path / "x.pdf")


def test_a_web_page_is_not_a_pdf(tmp_path: Path) -> None:
    (tmp_path / "x.pdf").write_text("<html>404 not found</html>")

    with pytest.raises(NotAPdfError, match=r"x\.pdf' starts with b'<html>404 not fo'"):
        open_document(tmp_path / "x.pdf")


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_pdf_cut_short_is_truncated(tmp_path: Path, share: float) -> None:
    path = write_text_pdf(tmp_path / "x.pdf", ["one", "two"])
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])

    with pytest.raises(TruncatedDocumentError, match=r"x\.pdf' \(\d+ bytes\) is damaged"):
        open_document(path)


def test_a_pdf_that_pdfium_can_repair_is_fine(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "x.pdf", ["one", "two"])
    content = path.read_bytes()
    without_table = content[: content.index(b"\nxref")] + content[content.index(b"\ntrailer") :]
    path.write_bytes(b"some line before\n" + without_table)

    with open_document(path) as document:
        assert document.page(2).text() == "two"


def test_a_pdf_that_needs_a_password_is_encrypted(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    canvas = Canvas(str(path), encrypt=StandardEncryption("secret", ownerPassword="owner"))
    canvas.drawString(50, 700, "hidden")
    canvas.save()

    with pytest.raises(EncryptedDocumentError, match=r"x\.pdf' needs a password.*Save a copy"):
        open_document(path)


def test_a_pdf_that_only_restricts_printing_opens(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    canvas = Canvas(str(path), encrypt=StandardEncryption("", ownerPassword="owner", canPrint=0))
    canvas.drawString(50, 700, "readable")
    canvas.save()

    with open_document(path) as document:
        assert document.page(1).text() == "readable"


def test_a_pdf_without_pages_has_no_pages(tmp_path: Path) -> None:
    (tmp_path / "x.pdf").write_bytes(pdf_of_pages([]))

    with pytest.raises(NoPagesError, match=r"x\.pdf' has no pages"):
        open_document(tmp_path / "x.pdf")


def test_one_damaged_page_spoils_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    path.write_bytes(pdf_of_pages([blank_page(), b"42", blank_page()]))

    with open_document(path) as document:
        assert document.page_count == 3
        with pytest.raises(PageError, match=r"Page 2 of '.*x\.pdf' cannot be read"):
            document.page(2).image(RenderSettings())
        with pytest.raises(PageError, match=r"Page 2 of '.*x\.pdf' cannot be read"):
            document.page(2).text()
        assert document.page(1).image(RenderSettings()).width == 900
        assert document.page(3).image(RenderSettings()).width == 900
        assert document.pages_without_text() == [1, 2, 3]


def test_a_folder_of_images_is_in_natural_order(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        write_image(tmp_path / f"page{number}.png", size=(number, 40))
    (tmp_path / "notes.txt").write_text("no page")
    (tmp_path / "._page3.png").write_bytes(b"what another system leaves behind")

    document = open_document(tmp_path)

    assert document.id == tmp_path.name
    assert document.page_count == 3
    assert [document.page(n).image(RenderSettings()).width for n in (1, 2, 3)] == [1, 2, 10]
    assert document.page(1).text() == ""
    assert document.n_text_pages == 0


def test_the_digest_of_a_folder_follows_its_content_and_order(tmp_path: Path) -> None:
    first, second = write_image(tmp_path / "a.png"), write_image(tmp_path / "b.png", "red")

    def digest(*paths: Path) -> str:
        return document_from_images(paths, document_id="d").digest

    original = digest(first, second)
    assert digest(first, second) == original
    assert digest(second, first) != original
    write_image(second, "blue")
    assert digest(first, second) != original


def test_a_single_image_is_a_document_of_one_page(tmp_path: Path) -> None:
    path = write_image(tmp_path / "scan.jpg")

    document = open_document(path)

    assert document.page_count == 1
    assert document.digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_folder_without_images_has_no_pages(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no page")

    with pytest.raises(NoPagesError, match="holds no page images"):
        open_document(tmp_path)


def test_pages_may_be_missing_from_a_mapping(tmp_path: Path) -> None:
    paths = {3: write_image(tmp_path / "c.png"), 5: tmp_path / "never-downloaded.png"}

    document = document_from_images(paths, document_id="4055915", page_count=100)

    assert document.page_count == 100
    assert document.window(3, 5).page_numbers == range(3, 6)
    assert document.page(3).image(RenderSettings()).width == 20
    with pytest.raises(PageError, match=r"Page 4 has no image file.*2 of 100 pages"):
        document.page(4).image(RenderSettings())
    with pytest.raises(PageError, match=r"never-downloaded\.png' of page 5 is missing"):
        document.page(5).image(RenderSettings())


@pytest.mark.parametrize("number", [0, 4])
def test_page_numbers_of_a_mapping_have_to_fit_the_page_count(tmp_path: Path, number: int) -> None:
    paths = {number: write_image(tmp_path / "a.png")}

    with pytest.raises(DocumentError, match=f"numbered {number} to {number}, outside of 1 to 3"):
        document_from_images(paths, document_id="d", page_count=3)


def test_a_document_of_no_images_has_no_pages() -> None:
    with pytest.raises(NoPagesError, match="'d' has no page images"):
        document_from_images({}, document_id="d")
