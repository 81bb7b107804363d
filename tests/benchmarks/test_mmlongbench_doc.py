"""MMLongBench-Doc: the public file as it is, and files that are not what they should be."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from awm.benchmarks import load_benchmark
from awm.benchmarks.benchmark import is_plain_file_name
from awm.errors import BenchmarkError
from towns import write_pdf

NAME = "mmlongbench-doc"
ROW: dict[str, Any] = {
    "doc_id": "a.pdf",
    "doc_type": "Brochure",
    "question": "How much?",
    "answer": "1",
    "evidence_pages": "[1, 2]",
    "evidence_sources": "['Table', 'Chart']",
    "answer_format": "Int",
}


def write_samples(folder: Path, rows: object) -> Path:
    (folder / "documents").mkdir(exist_ok=True)
    write_pdf(folder / "documents" / "a.pdf", [0, 1])
    (folder / "samples.json").write_text(json.dumps(rows))
    return folder


@pytest.fixture
def public_data() -> Path:
    root = os.environ.get("AWM_SHARED")
    shared = Path(root) if root else Path(__file__).parents[2].parent / "shared"
    folder = shared / "data" / "mmlongbench-doc"
    if not (folder / "samples.json").exists():
        pytest.skip(f"the public data is not at {folder}; set AWM_SHARED to the folder above data/")
    return folder


def test_the_public_file_loads_with_its_missing_documents_named(public_data: Path) -> None:
    benchmark = load_benchmark(NAME, public_data)

    assert benchmark.n_dataset == 1082
    assert len(benchmark.examples) == 125
    assert len(benchmark.missing_documents) == 121
    assert len(set(benchmark.missing_documents)) == 121
    missing = [p for p in benchmark.problems if p.kind == "missing_document"]
    assert sum(problem.n_questions for problem in missing) == 1082 - 125
    assert {problem.kind for problem in benchmark.problems} <= {
        "missing_document",
        "evidence_outside_document",
    }
    ids = Counter(example.question.id for example in benchmark.examples)
    assert set(ids.values()) == {1}
    for example in benchmark.examples:
        assert set(example.gold.evidence_pages) <= set(example.gold.annotated_pages)


def test_the_public_file_has_the_same_hash_however_it_is_laid_out(
    public_data: Path, tmp_path: Path
) -> None:
    rows = json.loads((public_data / "samples.json").read_text(encoding="utf-8"))
    (tmp_path / "samples.json").write_text(json.dumps(rows, indent=4, sort_keys=True))

    hashes = {load_benchmark(NAME, folder).dataset_hash for folder in (public_data, tmp_path)}

    assert len(hashes) == 1


def test_lists_come_as_text_or_as_lists(tmp_path: Path) -> None:
    listed = ROW | {"evidence_pages": [2], "evidence_sources": ["Figure"], "question": "Else?"}
    bare = {k: v for k, v in ROW.items() if not k.startswith("evidence")} | {"question": "Bare?"}

    benchmark = load_benchmark(NAME, write_samples(tmp_path, [ROW, listed, bare]))

    golds = [example.gold for example in benchmark.examples]
    assert [gold.evidence_pages for gold in golds] == [(1, 2), (2,), ()]
    assert [gold.evidence_sources for gold in golds] == [("Table", "Chart"), ("Figure",), ()]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch owned')",
        "[open('owned', 'w')]",
        "[x for x in (1,)]",
        "(1, 2)",
        "{1: 2}",
        "{[]: 1}",
        "1",
        "",
        "[1, 2",
        "[1, 'two']",
        "[True]",
        "[1.5]",
        "[" * 5_000,
        "-" * 19_000 + "1",
        "[" + "9" * 5_000 + "]",
        "[" + "1," * 1_000_000 + "]",
        "\0",
        "['\\d']",
    ],
)
def test_a_hostile_list_of_pages_is_refused_unexecuted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_samples(tmp_path, [ROW, ROW | {"evidence_pages": text}])

    with pytest.raises(BenchmarkError) as refused:
        load_benchmark(NAME, tmp_path)

    assert "samples.json, question 1: evidence_pages" in str(refused.value)
    assert len(str(refused.value)) < 1_000
    assert not (tmp_path / "owned").exists()


def test_a_stray_backslash_in_a_source_is_no_fault(tmp_path: Path) -> None:
    row = ROW | {"evidence_sources": "['a\\d']"}

    benchmark = load_benchmark(NAME, write_samples(tmp_path, [row]))

    assert benchmark.examples[0].gold.evidence_sources == ("a\\d",)


@pytest.mark.parametrize(
    "name", ["../a.pdf", "..", ".", "", "/etc/passwd", "documents/a.pdf", "a.pdf\0", "a/../a.pdf"]
)
def test_a_document_outside_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    assert not is_plain_file_name(name)
    write_samples(tmp_path, [ROW | {"doc_id": name}])

    with pytest.raises(BenchmarkError, match=r"question 0: doc_id .* must be a plain file name"):
        load_benchmark(NAME, tmp_path)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "must hold a list of questions that is not empty"),
        ({}, "must hold a list of questions that is not empty"),
        ([1], "question 0: no field doc_id, question, answer, answer_format"),
        ([{"doc_id": "a.pdf"}], "question 0: no field question, answer, answer_format"),
        ([ROW, ROW | {"question": 3}], "question 1: question must be text"),
        ([ROW | {"answer_format": None}], "question 0: answer_format must be text"),
        ([ROW | {"doc_type": ["Brochure"]}], "question 0: doc_type must be text"),
    ],
)
def test_a_file_of_another_schema_is_refused_with_the_question_named(
    tmp_path: Path, rows: object, complaint: str
) -> None:
    with pytest.raises(BenchmarkError) as refused:
        load_benchmark(NAME, write_samples(tmp_path, rows))

    assert complaint in str(refused.value)


def test_a_question_that_stands_twice_keeps_two_ids(tmp_path: Path) -> None:
    benchmark = load_benchmark(NAME, write_samples(tmp_path, [ROW, ROW]))

    first, second = (example.question.id for example in benchmark.examples)
    assert second == f"{first}-2"


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff"])
def test_a_file_that_is_not_there_or_no_json_is_named(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "samples.json").write_bytes(content)

    with pytest.raises(BenchmarkError, match=r"samples\.json (is not there|cannot be read)"):
        load_benchmark(NAME, tmp_path)
