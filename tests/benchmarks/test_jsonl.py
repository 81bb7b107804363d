"""The user's own questions: what is taken, and how faults are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from awm.benchmarks import load_benchmark
from awm.errors import BenchmarkError, ConfigError
from towns import question_row, write_corpus, write_jsonl, write_pdf

ROW: dict[str, Any] = {"question": "How much?", "document": "a.pdf", "answer": 1}


def test_a_folder_and_its_file_load_the_same_questions(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, 5)

    by_folder = load_benchmark("jsonl", folder)
    by_file = load_benchmark("jsonl", folder / "questions.jsonl")

    assert by_folder.examples == by_file.examples
    assert by_folder.dataset_hash == by_file.dataset_hash
    assert [example.question.id for example in by_folder.examples] == [
        f"town-{i:02}" for i in range(5)
    ]
    assert by_folder.examples[4].gold.evidence_pages == (1,)
    assert by_folder.problems == ()


def test_documents_may_lie_beside_the_file_or_in_a_folder_documents(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    write_pdf(tmp_path / "a.pdf", [0])
    write_pdf(tmp_path / "documents" / "b.pdf", [1, 2])
    rows = [ROW, {**ROW, "document": "b.pdf"}]
    write_jsonl(tmp_path / "questions.jsonl", rows)

    benchmark = load_benchmark("jsonl", tmp_path)

    counts = []
    for example in benchmark.examples:
        with benchmark.open_document(example.question.document_id) as document:
            counts.append(document.page_count)
    assert counts == [1, 2]


def test_faulty_documents_are_named_and_counted_and_the_rest_runs(tmp_path: Path) -> None:
    write_pdf(tmp_path / "good.pdf", [0])
    (tmp_path / "empty.pdf").touch()
    (tmp_path / "text.pdf").write_text("hello")
    rows = [
        question_row(0, "good.pdf", 1),
        question_row(1, "gone.pdf", 1),
        question_row(2, "empty.pdf", 1),
        question_row(3, "text.pdf", 1),
        question_row(4, "gone.pdf", 1),
        question_row(5, "good.pdf", 2),
        question_row(6, "good.pdf", 0),
    ]
    write_jsonl(tmp_path / "questions.jsonl", rows)

    benchmark = load_benchmark("jsonl", tmp_path)

    assert [e.question.id for e in benchmark.examples] == ["town-00", "town-05", "town-06"]
    assert benchmark.n_dataset == 7
    assert benchmark.missing_documents == ["gone.pdf"]
    assert [(p.kind, p.document_id, p.n_questions) for p in benchmark.problems] == [
        ("missing_document", "gone.pdf", 2),
        ("unreadable_document", "empty.pdf", 1),
        ("unreadable_document", "text.pdf", 1),
        ("evidence_outside_document", "good.pdf", 1),
        ("evidence_outside_document", "good.pdf", 1),
    ]
    assert "'town-05': evidence pages [2] are outside 1 to 1" in benchmark.problems[3].message
    assert [e.gold.evidence_pages for e in benchmark.examples] == [(1,), (), ()]
    assert [e.gold.annotated_pages for e in benchmark.examples] == [(1,), (2,), (0,)]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"question": None}, "line 2, question: is null, not text"),
        ({"question": ""}, "line 2, question: is empty"),
        ({"document": 3}, "line 2, document: 3 is a number, not text"),
        ({"document": "a\0b"}, "line 2, document: a path cannot hold a NUL"),
        ({"answer": None}, "line 2, answer: must be text"),
        ({"answer": True}, "line 2, answer: must be text"),
        ({"answer": {"a": 1}}, "line 2, answer: must be text"),
        ({"answer": [["nested"]]}, "line 2, answer: must be text"),
        ({"answer": 2**64}, "line 2, answer: must be text"),
        ({"answer": float("nan")}, "line 2, answer: must be text"),
        (
            {"answer_format": "Integer"},
            "line 2, answer_format: 'Integer' is none of Str, Int, Float",
        ),
        ({"answer_format": "Integer"}, "None; did you mean 'Int'?"),
        ({"answer_format": 3}, "line 2, answer_format: 3 is a number, not one of Str, Int"),
        ({"evidence_pages": ["3"]}, "line 2, evidence_pages[0]: '3' is text, not a whole number"),
        ({"evidence_pages": 3}, "line 2, evidence_pages: 3 is a number, not a list"),
        (
            {"evidence_page": [3]},
            "line 2, evidence_page: no such field; did you mean 'evidence_pages'?",
        ),
        ({"doc": "a.pdf"}, "line 2, doc: no such field; did you mean 'document'?"),
        ({"xyz": 1}, "line 2, xyz: no such field; there are question, document, answer, "),
        ({"id": ""}, "line 2, id: is empty"),
    ],
)
def test_a_faulty_field_is_named_with_its_line(
    tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", [ROW, ROW | change])

    with pytest.raises(BenchmarkError) as refused:
        load_benchmark("jsonl", path)

    assert str(refused.value).startswith(f"{path} has rows that cannot be used:\n  line 2, ")
    assert complaint in str(refused.value)


@pytest.mark.parametrize("field", ["question", "document", "answer"])
def test_a_field_that_is_not_there_is_named(tmp_path: Path, field: str) -> None:
    row = {key: value for key, value in ROW.items() if key != field}

    with pytest.raises(BenchmarkError, match=f"line 1, {field}: missing"):
        load_benchmark("jsonl", write_jsonl(tmp_path / "q.jsonl", [row]))


@pytest.mark.parametrize("line", ["[1, 2]", "not JSON", '{"question": "a"', '"text"', "{}{}"])
def test_a_line_that_is_no_object_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n\n{line}\n")

    with pytest.raises(
        BenchmarkError, match=r"line 3(: (not JSON|.* not an object)|, question: missing)"
    ):
        load_benchmark("jsonl", path)


def test_line_separators_within_a_text_and_a_byte_order_mark_are_no_line_ends(
    tmp_path: Path,
) -> None:
    write_pdf(tmp_path / "a.pdf", [0])
    row = json.dumps(ROW | {"question": "one\u2028two\x85three"}, ensure_ascii=False)
    (tmp_path / "q.jsonl").write_bytes(b"\xef\xbb\xbf" + row.encode() + b"\r\n")

    benchmark = load_benchmark("jsonl", tmp_path / "q.jsonl")

    assert benchmark.examples[0].question.text == "one\u2028two\x85three"


def test_the_same_id_twice_is_refused(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", [ROW | {"id": "x"}, ROW | {"id": "x"}])

    with pytest.raises(BenchmarkError, match="line 2, id: 'x' stands in line 1 too"):
        load_benchmark("jsonl", path)


def test_an_id_that_is_the_one_made_for_another_line_is_refused(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", [0])
    path = write_jsonl(tmp_path / "q.jsonl", [ROW])
    made = load_benchmark("jsonl", path).examples[0].question.id
    write_jsonl(path, [ROW, ROW | {"question": "Else?", "id": made}])

    with pytest.raises(BenchmarkError, match=f"line 2, id: '{made}' stands in line 1 too"):
        load_benchmark("jsonl", path)


def test_up_to_ten_faults_are_named_at_once(tmp_path: Path) -> None:
    faulty = [{"question": "", "doc": "a.pdf", "answer": 1}, ROW | {"answer_format": "Integer"}]
    path = write_jsonl(tmp_path / "q.jsonl", [ROW, *faulty])

    with pytest.raises(BenchmarkError) as few:
        load_benchmark("jsonl", path)
    write_jsonl(path, [ROW | {"answer_format": "Integer"}] * 12)
    with pytest.raises(BenchmarkError) as many:
        load_benchmark("jsonl", path)

    assert [line.partition(": ")[0] for line in str(few.value).splitlines()[1:]] == [
        "  line 2, question",
        "  line 2, document",
        "  line 2, doc",
        "  line 3, answer_format",
    ]
    first, *lines = str(many.value).splitlines()
    assert first.endswith("(reading stopped after 10 faults):")
    assert len(lines) == 10


@pytest.mark.parametrize(
    ("answer", "answer_format"),
    [
        *(("twelve", "Int"), ("21%", "Int"), ("5.0", "Int"), ([1], "Int"), ("1,200", "Float")),
        *(("nan", "Float"), ("twelve", "Float"), ([], "List"), ("[1,", "List")),
    ],
)
def test_a_gold_answer_that_no_answer_could_match_is_refused(
    tmp_path: Path, answer: object, answer_format: str
) -> None:
    row = ROW | {"answer": answer, "answer_format": answer_format}

    with pytest.raises(BenchmarkError) as refused:
        load_benchmark("jsonl", write_jsonl(tmp_path / "q.jsonl", [row]))

    article = "an" if answer_format == "Int" else "a"
    assert f"line 1, answer: {answer!r} cannot be {article} {answer_format}: the judge would" in (
        str(refused.value)
    )


@pytest.mark.parametrize(
    ("answer", "answer_format"),
    [
        *(("12", "Int"), (5.9, "Int"), ("18.6%", "Float"), ("$3", "Float"), ("(B)", "Str")),
        *(("a, b", "List"), ("['a', 'b']", "List"), ("Not answerable", "None")),
    ],
)
def test_a_gold_answer_that_can_be_matched_is_taken(
    tmp_path: Path, answer: object, answer_format: str
) -> None:
    write_pdf(tmp_path / "a.pdf", [0])
    row = ROW | {"answer": answer, "answer_format": answer_format}

    benchmark = load_benchmark("jsonl", write_jsonl(tmp_path / "q.jsonl", [row]))

    assert benchmark.examples[0].gold.answer == answer


def test_questions_without_an_id_get_one_that_stays(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", [0])
    path = write_jsonl(tmp_path / "q.jsonl", [ROW, ROW, ROW | {"question": "Else?"}])
    reordered = write_jsonl(tmp_path / "r.jsonl", [ROW | {"question": "Else?"}, ROW])

    ids = [example.question.id for example in load_benchmark("jsonl", path).examples]
    others = [example.question.id for example in load_benchmark("jsonl", reordered).examples]

    assert ids[0].startswith("a.pdf-")
    assert ids[1] == f"{ids[0]}-2"
    assert others == [ids[2], ids[0]]


def test_the_hash_follows_the_questions_and_not_their_layout(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", [0])
    path = write_jsonl(tmp_path / "q.jsonl", [ROW])
    spaced = tmp_path / "spaced.jsonl"
    spaced.write_text(json.dumps(dict(reversed(ROW.items())), separators=(" , ", " : ")) + "\n\n")
    other = write_jsonl(tmp_path / "other.jsonl", [ROW | {"answer": 2}])

    hashes = [load_benchmark("jsonl", file).dataset_hash for file in (path, spaced, other)]

    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"\xff\xfe\x00"])
def test_a_file_without_questions_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "q.jsonl"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(BenchmarkError, match=r"q\.jsonl (cannot be read|holds no question)"):
        load_benchmark("jsonl", path)


def test_an_unknown_benchmark_and_missing_data_are_refused() -> None:
    with pytest.raises(ConfigError, match="benchmark 'nope' is none of: demo"):
        load_benchmark("nope", None)
    with pytest.raises(ConfigError, match=r"'poket' is none of: demo, .*; did you mean 'pocket'"):
        load_benchmark("poket", None)
    with pytest.raises(ConfigError, match="'jsonl' needs --data"):
        load_benchmark("jsonl", None)


@pytest.mark.parametrize("name", ["demo", "pocket", "pocket-blank"])
def test_data_for_a_benchmark_that_is_not_read_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' comes with AWM and takes no --data"):
        load_benchmark(name, tmp_path)
