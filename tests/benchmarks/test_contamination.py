"""What a training set shares with a benchmark."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reportlab.pdfgen.canvas import Canvas

from awm.analysis.contamination import read_training_items
from awm.benchmarks import load_benchmark
from awm.benchmarks.contamination import (
    OverlapItem,
    benchmark_items,
    find_overlap,
    normalise,
)
from awm.errors import ConfigError, DataError
from awm.evaluate import EvalSettings, evaluate
from awm.models.chat import ModelSettings

_D1, _D2 = "1" * 64, "2" * 64


def item(
    id_: str, question: str, digest: str | None = None, name: str | None = None
) -> OverlapItem:
    return OverlapItem(id_, question, name, digest)


def test_case_accents_punctuation_and_spacing_do_not_make_a_new_question() -> None:
    train = [item("t1", "  What\u2019s the CAFÉ's\tturnover?? ")]
    benchmark = [item("b1", "what's the cafe's turnover"), item("b2", "Who runs it?")]

    report = find_overlap(train, benchmark)

    [pair] = report.same_questions
    assert (pair.train_ids, pair.benchmark_ids, pair.similarity) == (("t1",), ("b1",), 1.0)
    assert not report.near_questions
    assert report.touched_ids == {"b1"}
    assert not report.is_clean


def test_numbers_and_other_scripts_are_part_of_a_question() -> None:
    assert normalise("3.5 %") == "3 5" != normalise("35")
    assert normalise("Straße ΣΊΣΥΦΟΣ 東京?") == "strasse σισυφοσ 東京"


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once


def test_nearly_equal_is_the_jaccard_similarity_of_5_grams() -> None:
    # "abcdefgh" has the grams abcde bcdef cdefg defgh, "abcdefgx" shares three of four: 3 / 5.
    train, benchmark = [item("t", "abcdefgx")], [item("b", "abcdefgh")]

    [pair] = find_overlap(train, benchmark, 0.6).near_questions

    assert pair.similarity == pytest.approx(0.6)
    assert find_overlap(train, benchmark, 0.61).is_clean


def test_a_changed_year_is_nearly_equal_and_another_question_is_not() -> None:
    benchmark = [item("b", "How many employees did the company have at the end of 2019?")]
    train = [
        item("t1", "How many employees did the company have at the end of 2018?"),
        item("t2", "How many tables are on page 5?"),
        item("t3", "How many?"),
    ]

    [pair] = find_overlap(train, benchmark).near_questions

    assert pair.train_ids == ("t1",)
    assert 0.85 < pair.similarity < 1


@given(
    st.lists(st.text("abc ", max_size=14), max_size=8),
    st.lists(st.text("abc ", max_size=14), max_size=8),
    st.sampled_from([0.2, 0.5, 0.8]),
)
def test_the_index_finds_exactly_what_comparing_all_pairs_finds(
    ours: list[str], theirs: list[str], threshold: float
) -> None:
    def grams(text: str) -> set[str]:
        return {text[i : i + 5] for i in range(max(1, len(text) - 4))}

    expected = set()
    for a in {normalise(text) for text in ours} - {""}:
        for b in {normalise(text) for text in theirs} - {""}:
            similarity = len(grams(a) & grams(b)) / len(grams(a) | grams(b))
            if a != b and similarity >= threshold:
                expected.add((a, b))

    report = find_overlap(
        [item(f"t{n}", text) for n, text in enumerate(ours)],
        [item(f"b{n}", text) for n, text in enumerate(theirs)],
        threshold,
    )

    found = {
        (normalise(pair.train_question), normalise(pair.benchmark_question))
        for pair in report.near_questions
    }
    assert found == expected
    assert len(report.near_questions) == len(expected)


def test_repeated_questions_are_one_pair_with_all_ids() -> None:
    train = [item(f"t{n}", "What is it?") for n in range(3)]
    benchmark = [item("b1", "What is it?"), item("b2", "what is it")]

    [pair] = find_overlap(train, benchmark).same_questions

    assert pair.train_ids == ("t0", "t1", "t2")
    assert pair.benchmark_ids == ("b1", "b2")


def test_documents_are_shared_by_their_digest_under_any_name() -> None:
    train = [item("t1", "One?", _D1, "copy.pdf"), item("t2", "Two?", _D2, "x.pdf")]
    benchmark = [item("b1", "Three?", _D1, "a.pdf"), item("b2", "Four?", _D1, "a.pdf")]

    report = find_overlap(train, benchmark)

    assert report.shared_documents is not None
    [document] = report.shared_documents
    assert (document.document, document.digest) == ("a.pdf", _D1)
    assert (document.train_ids, document.benchmark_ids) == (("t1",), ("b1", "b2"))
    assert not report.same_names
    assert report.touched_ids == {"b1", "b2"}


def test_names_count_only_where_bytes_could_not_be_compared() -> None:
    benchmark = [item("b1", "One?", None, "A.pdf"), item("b2", "Two?", _D1, "b.pdf")]
    train = [item("t1", "Three?", _D2, "train/a.pdf"), item("t2", "Four?", _D2, "b.pdf")]

    report = find_overlap(train, benchmark)

    [named] = report.same_names
    assert (named.document, named.digest, named.benchmark_ids) == ("A.pdf", None, ("b1",))
    assert report.shared_documents == ()
    assert (report.n_train_without_digest, report.n_benchmark_without_digest) == (0, 1)


def test_documents_are_unmeasured_where_a_side_has_no_digest() -> None:
    report = find_overlap([item("t", "One?")], [item("b", "Two?", _D1)])

    assert report.shared_documents is None
    assert report.is_clean


@pytest.mark.parametrize(
    ("ours", "theirs", "same"), [(_D1, _D1, True), (_D1, _D2, False), (None, _D1, None)]
)
def test_a_pair_says_whether_the_documents_are_the_same(
    ours: str | None, theirs: str, same: bool | None
) -> None:
    report = find_overlap([item("t", "How many?", ours)], [item("b", "How many?", theirs)])

    assert report.same_questions[0].same_document is same


def test_questions_without_a_letter_or_digit_match_nothing() -> None:
    assert find_overlap([item("t", "???"), item("u", "")], [item("b", "!"), item("c", "")]).is_clean


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.01, float("nan")])
def test_a_threshold_outside_0_to_1_is_refused(threshold: float) -> None:
    with pytest.raises(ConfigError, match="above 0, at most 1"):
        find_overlap([], [], threshold)


def test_ten_thousand_questions_against_a_thousand_take_seconds() -> None:
    rng = random.Random(7)
    words = [f"word{n}" for n in range(400)] + ["what", "is", "the", "number", "of", "in"] * 40

    def ask() -> str:
        return "What is the number of " + " ".join(rng.choices(words, k=10)) + " in the report?"

    train = [item(f"t{n}", ask()) for n in range(10_000)]
    benchmark = [item(f"b{n}", ask()) for n in range(1_000)]

    start = time.process_time()
    find_overlap([*train, benchmark[3]], benchmark)

    assert time.process_time() - start < 10


def write_pdf(path: Path, text: str) -> None:
    canvas = Canvas(str(path), invariant=1)
    canvas.drawString(50, 700, text)
    canvas.save()


def write_jsonl(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


async def test_a_run_is_compared_by_its_questions_and_opened_documents(tmp_path: Path) -> None:
    settings = EvalSettings(
        benchmark="demo", run=tmp_path / "run", model=ModelSettings(spec="lexical"), limit=2
    )

    items = read_training_items(await evaluate(settings))

    demo = load_benchmark("demo", None)
    report = find_overlap(items, benchmark_items(demo))
    assert len(items) == 2
    assert len(report.same_questions) == 2
    assert all(pair.same_document for pair in report.same_questions)
    assert report.shared_documents


def test_a_jsonl_file_gives_digests_of_the_documents_beside_it(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", "A")
    (tmp_path / "documents").mkdir()
    write_pdf(tmp_path / "documents" / "b.pdf", "B")
    file = write_jsonl(
        tmp_path / "train.jsonl",
        {"id": "x", "question": "One?", "document": "a.pdf", "reward": 0.5},
        {"question_id": "y", "question": "Two?", "doc_id": "b.pdf"},
        {"question": "Three?", "doc_no": "gone"},
        {"question": "Four?", "document": "gone.pdf", "document_digest": _D1},
        {"question": "Five?", "document": "a\u0000.pdf"},
    )

    items = read_training_items(file)

    assert [one.id for one in items] == ["x", "y", "line 3", "line 4", "line 5"]
    digests = [one.document_digest for one in items]
    assert digests[0] is not None
    assert digests[1] is not None
    assert digests[2:] == [None, _D1, None]
    assert len({digests[0], digests[1]}) == 2
    file.rename(tmp_path / "questions.jsonl")
    assert read_training_items(tmp_path) == items


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ('{"prompt": "One?"}', "line 1: no text in the field question"),
        ("[]", "line 1: no text in the field question"),
        ('{"question": "One?", "document_digest": "ab"}', "must be 64 hex digits"),
        ("", "holds no question"),
    ],
)
def test_a_faulty_training_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "train.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=message):
        read_training_items(tmp_path / "train.jsonl")


def test_a_missing_training_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_training_items(tmp_path / "train.jsonl")


def test_the_real_benchmarks_do_not_overlap_and_hold_themselves() -> None:
    beside = Path(__file__).parents[2].parent / "shared"
    data = Path(os.environ.get("AWM_SHARED", beside)) / "data"
    if not (data / "mmlongbench-doc" / "samples.json").is_file():
        pytest.skip(f"no benchmarks at {data}; set AWM_SHARED")
    mmlong = benchmark_items(load_benchmark("mmlongbench-doc", data / "mmlongbench-doc"))
    longdocurl = benchmark_items(load_benchmark("longdocurl", data / "longdocurl"))

    assert find_overlap(longdocurl, mmlong).is_clean
    itself = find_overlap(mmlong, mmlong)
    assert len(itself.touched_ids) == itself.n_benchmark == 1082
    assert itself.shared_documents is not None
    assert len(itself.shared_documents) == 14
