"""The demo corpus keeps the promises of its data card."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pypdfium2
import pytest

import awm
from awm.memory import MAX_FINDING_WORDS

CORPUS = Path(awm.__file__).parent / "benchmarks" / "demo_corpus"
DOCUMENTS = sorted((CORPUS / "documents").glob("*.pdf"))
CARD = (CORPUS / "README.md").read_text(encoding="utf-8")
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_demo_corpus.py"
QUESTIONS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (CORPUS / "questions.jsonl").read_text(encoding="utf-8").splitlines()
]
SCANS = {("museum_annual_report.pdf", 6)}
LONG_SENTENCES = {"demo-01", "demo-09", "demo-12", "demo-15"}
SOURCES = {
    "Pure-text (Plain-text)",
    "Table",
    "Chart",
    "Figure",
    "Generalized-text (Layout)",
}


def page_texts(path: Path) -> list[str]:
    """Read the text layer, with runs of white space as one space."""
    with pypdfium2.PdfDocument(path) as document:
        return [" ".join(page.get_textpage().get_text_range().split()) for page in document]


def gold_parts(question: dict[str, Any]) -> list[str]:
    """Give the strings that a page with the answer shows."""
    answer = question["answer"].removesuffix("%")
    return ast.literal_eval(answer) if question["answer_format"] == "List" else [answer]


def text_of(document: str, page: int) -> str:
    return page_texts(CORPUS / "documents" / document)[page - 1]


def card_rows() -> dict[str, tuple[int, str]]:
    """Read pages and type of each document from the data card."""
    rows = re.findall(r"^\| `(\w+\.pdf)` \| (\d+) \| \w+ \| ([^|]+) \|", CARD, flags=re.MULTILINE)
    return {name: (int(pages), kind.strip()) for name, pages, kind in rows}


@pytest.fixture(scope="module")
def regenerated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("reportlab", reason="reportlab (extra `dev`) makes the documents")
    if not SCRIPT.exists():
        pytest.skip("the script that makes the documents is only in the repository")
    out = tmp_path_factory.mktemp("demo_corpus")
    command = [sys.executable, str(SCRIPT), "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return out


def test_the_card_lists_every_document_with_its_pages() -> None:
    counted = {path.name: len(page_texts(path)) for path in DOCUMENTS}

    assert {name: pages for name, (pages, _) in card_rows().items()} == counted
    assert all(5 <= pages <= 12 for pages in counted.values())


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_is_smaller_than_50_kb(path: Path) -> None:
    assert path.stat().st_size < 50_000


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_every_page_has_ink_and_only_scans_lack_text(path: Path) -> None:
    with pypdfium2.PdfDocument(path) as document:
        for number, page in enumerate(document, start=1):
            darkest, _ = page.render(scale=0.3).to_pil().convert("L").getextrema()
            text = page.get_textpage().get_text_range().strip()
            assert darkest < 150
            assert (text == "") == ((path.name, number) in SCANS)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_printed_page_numbers_start_after_the_front_matter(path: Path) -> None:
    for number, text in enumerate(page_texts(path), start=1):
        if number >= 3 and (path.name, number) not in SCANS:
            assert re.search(rf"(^|\s){number - 2}(\s|$)", text)
    assert re.search(r"(^|\s)ii(\s|$)", page_texts(path)[1])


def test_questions_have_the_documented_fields_and_unique_ids() -> None:
    documented = re.findall(r"^\| `(\w+)` \| (?:string|list)", CARD, flags=re.MULTILINE)

    assert len(QUESTIONS) == 20
    assert all(list(question) == documented for question in QUESTIONS)
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS)
    assert len({question["question"] for question in QUESTIONS}) == len(QUESTIONS)


def test_every_document_is_asked_about_under_its_type() -> None:
    kinds = {question["document"]: question["document_type"] for question in QUESTIONS}

    assert kinds == {name: kind for name, (_, kind) in card_rows().items()}


def test_evidence_pages_ascend_inside_the_document() -> None:
    for question in QUESTIONS:
        pages = question["evidence_pages"]
        n_pages, _ = card_rows()[question["document"]]
        assert pages == sorted(set(pages)), question["id"]
        assert all(1 <= page <= n_pages for page in pages), question["id"]


def test_formats_sources_and_special_questions_are_covered() -> None:
    formats = [question["answer_format"] for question in QUESTIONS]
    sources = [source for question in QUESTIONS for source in question["evidence_sources"]]
    scanned = [
        question["id"]
        for question in QUESTIONS
        if any((question["document"], page) in SCANS for page in question["evidence_pages"])
    ]

    assert set(formats) == {"Str", "Int", "Float", "List", "None"}
    assert formats.count("None") >= 2
    assert set(sources) == SOURCES
    assert sources.count("Table") >= 2
    assert sum(len(question["evidence_pages"]) >= 2 for question in QUESTIONS) >= 2
    assert scanned == ["demo-05"]


def test_only_unanswerable_questions_lack_evidence() -> None:
    for question in QUESTIONS:
        unanswerable = question["answer_format"] == "None"
        assert (question["answer"] == "Not answerable") == unanswerable, question["id"]
        assert (question["evidence_pages"] == []) == unanswerable, question["id"]
        assert (question["evidence_sources"] == []) == unanswerable, question["id"]


def test_answers_parse_in_their_format() -> None:
    for question in QUESTIONS:
        answer = question["answer"]
        match question["answer_format"]:
            case "Int":
                assert str(int(answer)) == answer
            case "Float":
                float(answer.removesuffix("%"))
            case "List":
                assert str(ast.literal_eval(answer)) == answer


@pytest.mark.parametrize(
    "question",
    [question for question in QUESTIONS if len(question["evidence_pages"]) == 1],
    ids=lambda question: question["id"],
)
def test_the_gold_answer_is_in_the_text_of_its_page_unless_scanned(
    question: dict[str, Any],
) -> None:
    (page,) = question["evidence_pages"]
    text = text_of(question["document"], page)

    is_scan = (question["document"], page) in SCANS
    for part in gold_parts(question):
        assert bool(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text)) != is_scan


def test_the_scanned_answer_is_on_no_page_with_text() -> None:
    texts = page_texts(CORPUS / "documents" / "museum_annual_report.pdf")

    assert not any(re.search(r"\b47\b|forty-seven", text) for text in texts)


def test_the_computed_answers_follow_from_their_pages() -> None:
    wood, agriculture = 121, 91
    income, visits = 431250, 57500
    gold = {question["id"]: question["answer"] for question in QUESTIONS}

    assert f"Agriculture 84 88 {agriculture}" in text_of("energy_report.pdf", 4)
    assert str(wood) in text_of("energy_report.pdf", 5)
    assert gold["demo-03"] == str(wood - agriculture)
    assert f"{visits} visits" in text_of("museum_annual_report.pdf", 3)
    assert f"Admissions 339500 {income}" in text_of("museum_annual_report.pdf", 7)
    assert gold["demo-07"] == str(income / visits)


def test_the_two_hop_answer_is_the_satisfaction_of_the_least_punctual_line() -> None:
    gold = {question["id"]: question["answer"] for question in QUESTIONS}
    rows = re.findall(r"(Line \d) \d+ (\d\d) \d+", text_of("passenger_survey.pdf", 6))
    chart = text_of("passenger_survey.pdf", 4)

    assert len(rows) == 7
    assert min(rows, key=lambda row: int(row[1]))[0] == "Line 4"
    assert re.search(rf"\b{gold['demo-14']}\b", chart)


@pytest.mark.parametrize("question_id", sorted(LONG_SENTENCES))
def test_a_finding_cut_from_the_start_of_a_long_sentence_loses_the_value(question_id: str) -> None:
    question = next(question for question in QUESTIONS if question["id"] == question_id)
    (page,) = question["evidence_pages"]
    (gold,) = gold_parts(question)
    sentences = re.split(r"(?<=[a-z\d]\.) (?=[A-Z])", text_of(question["document"], page))
    (sentence,) = [sentence for sentence in sentences if f" {gold}" in sentence]

    words = sentence.split()
    assert len(words) > MAX_FINDING_WORDS
    assert gold not in " ".join(words[:MAX_FINDING_WORDS])


def test_the_script_gives_the_text_of_the_shipped_documents(regenerated: Path) -> None:
    assert sorted(path.name for path in regenerated.iterdir()) == [path.name for path in DOCUMENTS]
    for path in DOCUMENTS:
        assert page_texts(regenerated / path.name) == page_texts(path)


def test_the_recorded_versions_give_the_shipped_bytes(regenerated: Path) -> None:
    recorded = re.search(r"reportlab (\S+), Pillow (\S+), zlib (\S+) \|", CARD)
    assert recorded is not None
    installed = (version("reportlab"), version("pillow"), zlib.ZLIB_RUNTIME_VERSION)
    if recorded.groups() != installed:
        pytest.skip(
            f"the documents were made with reportlab, Pillow, zlib {recorded.groups()}; "
            f"installed are {installed}, which may give other bytes"
        )

    for path in DOCUMENTS:
        assert (regenerated / path.name).read_bytes() == path.read_bytes(), path.name
