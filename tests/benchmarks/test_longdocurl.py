"""LongDocURL: windows, page images counted from 0, and what is left out."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from awm.benchmarks import Benchmark
from awm.benchmarks.longdocurl import load_longdocurl
from awm.documents import RenderSettings
from awm.errors import BenchmarkError, PageError
from awm.evaluate import EvalSettings, evaluate, score_answer
from awm.models.chat import ModelSettings
from awm.models.scripted import Script, ScriptedModel
from awm.runs import open_run
from awm.scoring.extraction import ExtractionPrompt

_SIZE = (8, 10)


def row(**changes: Any) -> dict[str, Any]:
    return {
        "question_id": "q1",
        "doc_no": "4000001",
        "total_pages": 6,
        "start_end_idx": [2, 4],
        "question_type": "extract",
        "question": "What is the code?",
        "answer": "K7",
        "evidence_pages": [3],
        "evidence_sources": ["Table"],
        "answer_format": "String",
        "task_tag": "Understanding",
        "images": ["/elsewhere/4000001_1.png"],
    } | changes


def write_rows(folder: Path, *rows: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(one) for one in rows]
    (folder / "LongDocURL.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def write_images(
    folder: Path, indices: Iterable[int], document: str = "4000001", sub: str = "4000-4999/4000"
) -> None:
    """Write page images whose grey level is ten times their index."""
    place = folder / "pdf_pngs" / sub
    place.mkdir(parents=True, exist_ok=True)
    for index in indices:
        Image.new("RGB", _SIZE, (10 * index,) * 3).save(place / f"{document}_{index}.png")


def write_pdf(path: Path, n_pages: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas = Canvas(str(path), invariant=1)
    for number in range(1, n_pages + 1):
        canvas.drawString(50, 700, f"This is page {number}.")
        canvas.showPage()
    canvas.save()


def problems(benchmark: Benchmark) -> list[tuple[str, str]]:
    return [(problem.kind, problem.message) for problem in benchmark.problems]


def test_page_n_is_the_image_with_index_n_minus_1(tmp_path: Path) -> None:
    write_images(write_rows(tmp_path, row()), range(6))

    benchmark = load_longdocurl(tmp_path)

    document = benchmark.open_document("4000001")
    settings = RenderSettings(media_type="image/png")
    for page in range(1, 7):
        file = tmp_path / f"pdf_pngs/4000-4999/4000/4000001_{page - 1}.png"
        assert document.page(page).image(settings).data == file.read_bytes()


def test_a_question_sees_its_window_under_the_numbers_of_the_whole_document(
    tmp_path: Path,
) -> None:
    write_images(write_rows(tmp_path, row()), range(6))
    benchmark = load_longdocurl(tmp_path)

    window = benchmark.examples[0].question.page_window
    assert window == (2, 4)
    document = benchmark.open_document("4000001").window(*window)

    assert list(document.page_numbers) == [2, 3, 4]
    assert document.page_count == 6
    with pytest.raises(PageError, match="has no page 5"):
        document.page(5)


def test_any_sub_folders_will_do(tmp_path: Path) -> None:
    write_rows(tmp_path, row())
    write_images(tmp_path, range(3), sub="")
    write_images(tmp_path, range(3, 6), sub="a/b/c")

    assert len(load_longdocurl(tmp_path).examples) == 1


def test_a_window_that_is_partly_there_leaves_its_question_out_by_name(tmp_path: Path) -> None:
    rows = row(), row(question_id="q2", start_end_idx=[1, 2], evidence_pages=[])
    write_images(write_rows(tmp_path, *rows), [0, 1, 3, 5])

    benchmark = load_longdocurl(tmp_path)

    assert [example.question.id for example in benchmark.examples] == ["q2"]
    assert [example.question.id for example in benchmark.left_out] == ["q1"]
    assert benchmark.n_dataset == 2
    [(kind, message)] = problems(benchmark)
    assert kind == "missing_pages"
    assert message == "question 'q1' is left out: of its pages 2 to 4, 1 are not there (3)"
    assert benchmark.problems[0].question_id == "q1"


def test_a_window_beyond_the_document_counts_as_missing_pages(tmp_path: Path) -> None:
    write_images(write_rows(tmp_path, row(start_end_idx=[5, 9])), range(6))

    [(kind, message)] = problems(load_longdocurl(tmp_path))

    assert kind == "missing_pages"
    assert "of its pages 5 to 9, 3 are not there (7-9)" in message


def test_images_counted_from_1_are_found_out(tmp_path: Path) -> None:
    write_images(write_rows(tmp_path, row()), range(1, 7))

    [(kind, message)] = problems(load_longdocurl(tmp_path))

    assert kind == "unreadable_document"
    assert "'4000001_6.png' is page 7 of a document of 6 pages: files count from 0" in message


@pytest.mark.parametrize("place", ["pdfs/4000001.pdf", "documents/4000-4999/4000001.pdf"])
def test_a_pdf_stands_in_where_there_are_no_images(tmp_path: Path, place: str) -> None:
    write_rows(tmp_path, row())
    write_pdf(tmp_path / place, 6)

    benchmark = load_longdocurl(tmp_path)

    assert not benchmark.problems
    with benchmark.open_document("4000001") as document:
        assert "page 3" in document.page(3).text()


def test_a_pdf_that_is_too_short_for_a_window_leaves_its_question_out(tmp_path: Path) -> None:
    write_rows(tmp_path, row())
    write_pdf(tmp_path / "pdfs" / "4000001.pdf", 3)

    assert [kind for kind, _ in problems(load_longdocurl(tmp_path))] == ["missing_pages"]


def test_a_document_without_files_is_named_and_counted(tmp_path: Path) -> None:
    benchmark = load_longdocurl(write_rows(tmp_path, row(), row(question_id="q2")))

    assert benchmark.missing_documents == ["4000001"]
    assert benchmark.problems[0].n_questions == 2
    assert not benchmark.examples
    assert [example.question.id for example in benchmark.left_out] == ["q1", "q2"]


def test_gold_keeps_what_the_groups_are_made_of(tmp_path: Path) -> None:
    write_images(write_rows(tmp_path, row(subTask=["Text_Locating"])), range(6))

    gold = load_longdocurl(tmp_path).examples[0].gold

    assert (gold.task_tag, gold.question_type) == ("Understanding", "extract")
    assert gold.evidence_sources == ("Table",)
    assert gold.evidence_pages == gold.annotated_pages == (3,)
    assert gold.sub_tasks == ("Text_Locating",)


def test_evidence_outside_the_window_is_reported_and_stays_in_the_groups(tmp_path: Path) -> None:
    write_images(write_rows(tmp_path, row(evidence_pages=[3, 6])), range(6))

    benchmark = load_longdocurl(tmp_path)

    gold = benchmark.examples[0].gold
    assert (gold.evidence_pages, gold.annotated_pages) == ((3,), (3, 6))
    assert [kind for kind, _ in problems(benchmark)] == ["evidence_outside_document"]


@pytest.mark.parametrize("pages", [None, [], "absent"])
def test_a_question_may_have_no_evidence_pages(tmp_path: Path, pages: Any) -> None:
    one = row(evidence_pages=pages)
    if pages == "absent":
        del one["evidence_pages"]
    write_images(write_rows(tmp_path, one), range(6))

    benchmark = load_longdocurl(tmp_path)

    assert benchmark.examples[0].gold.evidence_pages == ()
    assert not benchmark.problems


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_end_idx": [4, 2]}, r"line 1: start_end_idx \[4, 2\] must be the first and the"),
        ({"start_end_idx": [0, 2]}, "start_end_idx"),
        ({"start_end_idx": [1, 10**9]}, "at most 10000 pages"),
        ({"start_end_idx": [1]}, "start_end_idx"),
        ({"total_pages": 0}, "total_pages 0 must be 1 or more"),
        ({"total_pages": "6"}, "line 1, total_pages: Input should be a valid integer"),
        ({"question": None}, "line 1, question: Input should be a valid string"),
        ({"evidence_pages": ["3"]}, "line 1, evidence_pages.0"),
    ],
)
def test_a_faulty_row_is_named_by_line_and_field(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BenchmarkError, match=message):
        load_longdocurl(write_rows(tmp_path, row(**changes)))


def test_a_row_without_an_answer_and_a_doubled_id_are_refused(tmp_path: Path) -> None:
    without = row()
    del without["answer"]
    with pytest.raises(BenchmarkError, match="line 2, answer: Field required"):
        load_longdocurl(write_rows(tmp_path, row(), without))
    with pytest.raises(BenchmarkError, match="'q1' stands more than once"):
        load_longdocurl(write_rows(tmp_path, row(), row()))


def test_the_file_may_have_another_name_and_must_be_there(tmp_path: Path) -> None:
    write_images(write_rows(tmp_path, row()), range(6))
    file = tmp_path / "LongDocURL.jsonl"
    renamed = file.rename(tmp_path / "LongDocURL_public.jsonl")

    assert len(load_longdocurl(renamed).examples) == 1
    with pytest.raises(BenchmarkError, match=r"LongDocURL\.jsonl cannot be read"):
        load_longdocurl(tmp_path)
    renamed.write_text("\n")
    with pytest.raises(BenchmarkError, match="holds no question"):
        load_longdocurl(renamed)


async def test_an_extracted_answer_is_evaluated_and_one_without_extractor_is_text(
    tmp_path: Path,
) -> None:
    write_images(write_rows(tmp_path, row(answer=7, answer_format="Integer")), range(6))
    benchmark = load_longdocurl(tmp_path)
    reply = "<concise_answer>12-5</concise_answer><answer_format>Integer</answer_format>"
    extractor = ScriptedModel([Script(replies=(reply,), repeat_last=True)])
    assert benchmark.extraction_form == "tagged"
    prompt = ExtractionPrompt.own(benchmark.extraction_form)
    example, judge = benchmark.examples[0], benchmark.judge

    extracted = await score_answer(
        example, "It is 12-5", judge, extractor, prompt, benchmark.read_prediction
    )
    plain = await score_answer(example, "12-5", judge, read_prediction=benchmark.read_prediction)

    assert (extracted.score, extracted.prediction) == (1.0, "12-5")
    assert (plain.score, plain.prediction) == (0.0, "12-5")


@pytest.fixture
def shared_data() -> Path:
    beside = Path(__file__).parents[2].parent / "shared"
    folder = Path(os.environ.get("AWM_SHARED", beside)) / "data" / "longdocurl"
    if not (folder / "LongDocURL.jsonl").is_file():
        pytest.skip(f"no LongDocURL at {folder}; set AWM_SHARED")
    return folder


def test_page_54_of_the_real_document_is_the_file_with_index_53(shared_data: Path) -> None:
    [file] = shared_data.glob("pdf_pngs/*/*/4055915_53.png")
    document = load_longdocurl(shared_data).open_document("4055915")

    image = document.page(54).image(RenderSettings(media_type="image/png", max_pixels=10**8))

    assert document.page_count == 84
    assert hashlib.sha256(image.data).digest() == hashlib.sha256(file.read_bytes()).digest()


async def test_the_real_question_runs_in_its_window_and_the_others_are_named(
    shared_data: Path, tmp_path: Path
) -> None:
    settings = EvalSettings(
        benchmark="longdocurl",
        data=shared_data,
        run=tmp_path / "run",
        model=ModelSettings(spec="lexical"),
        reader=ModelSettings(spec="lexical"),
    )

    run = open_run(await evaluate(settings))

    [example] = run.examples.read()
    assert example.document_id == "4055915"
    assert (example.page_window, example.evidence_pages) == ((42, 71), (54,))
    assert (example.task_tag, example.question_type) == ("Reasoning", "calculate")
    dataset = run.manifest.dataset
    assert dataset.missing_documents == ("4127644", "4151603")
    assert (dataset.n_dataset, dataset.n_runnable) == (3, 1)
    assert dataset.release == "LongDocURL, sample of its repository (3 questions)"
    [score] = run.final_scores()
    assert score.is_final
    [episode] = run.episodes.read()
    seen = json.dumps(episode.model_dump(mode="json")["messages"])
    assert "of 84" in seen
    assert episode.memory
    assert {finding.page for finding in episode.memory} <= set(range(42, 72))
    [document] = run.documents.read()
    assert document.pages_without_text == tuple(range(1, 85))
