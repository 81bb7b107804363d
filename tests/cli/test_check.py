"""`awm check`: the faults of a benchmark's files, and what a training set shares with it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from reportlab.pdfgen.canvas import Canvas
from typer.testing import CliRunner

from awm.cli.check import OVERLAP_FOUND
from awm.cli.main import app


def check(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def check_json(*arguments: str | Path) -> tuple[int, Any]:
    code, out, err = check(*arguments, "--json")
    assert not err
    return code, json.loads(out)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    canvas = Canvas(str(folder / "a.pdf"), invariant=1)
    canvas.drawString(50, 700, "The only page.")
    canvas.save()
    (folder / "broken.pdf").write_bytes(b"hello")
    write_jsonl(
        folder / "questions.jsonl",
        {"id": "q1", "question": "How high is [the] tower?", "document": "a.pdf", "answer": 1},
        {
            "id": "q2",
            "question": "How wide is the tower at its base?",
            "document": "a.pdf",
            "answer": 2,
            "evidence_pages": [7],
        },
        {"id": "q3", "question": "Who built it?", "document": "gone.pdf", "answer": "X"},
        {"id": "q4", "question": "When?", "document": "broken.pdf", "answer": 1900},
    )
    return folder


def write_jsonl(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def test_every_kind_of_fault_is_counted_and_named(data: Path) -> None:
    code, out, _ = check("--benchmark", "jsonl", "--data", data)

    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "jsonl: your own questions (N=4)"
    assert lines[1].startswith("dataset hash ")
    assert lines[2] == "2 of 4 questions can run, over 1 of 3 documents"
    assert lines[3:5] == ["missing_document: 1, touching 1 questions", "  gone.pdf"]
    assert lines[5] == "unreadable_document: 1, touching 1 questions"
    assert lines[6].startswith("  broken.pdf: The file ")
    assert lines[7] == "evidence_outside_document: 1, touching 1 questions"
    assert lines[8].startswith("  a.pdf: question 'q2': evidence pages [7] are outside 1 to 1")
    assert len(lines) == 9


def test_json_holds_the_same_and_overlap_is_null_where_it_was_not_asked_for(data: Path) -> None:
    code, told = check_json("--benchmark", "jsonl", "--data", data)

    assert code == 0
    assert (told["n_dataset"], told["n_runnable"]) == (4, 2)
    assert (told["n_documents"], told["n_documents_readable"]) == (3, 1)
    assert [problem["kind"] for problem in told["problems"]] == [
        "missing_document",
        "unreadable_document",
        "evidence_outside_document",
    ]
    assert len(told["dataset_hash"]) == 64
    assert told["overlap"] is None
    assert told["n_questions_touched"] is None
    assert told["overlay"] is None


def test_a_clean_benchmark_says_so() -> None:
    code, out, _ = check("--benchmark", "demo")

    assert code == 0
    assert out.splitlines()[-1] == "no faults found"


def test_an_overlap_is_listed_and_has_an_exit_code_of_its_own(data: Path, tmp_path: Path) -> None:
    train = write_jsonl(
        tmp_path / "train.jsonl",
        {"id": "t1", "question": "how high is THE tower", "document": "data/a.pdf"},
        {"id": "t2", "question": "How wide is the tower at its top?", "document": "gone.pdf"},
        {"id": "t3", "question": "Which bird sings at night?"},
    )

    code, out, _ = check("--benchmark", "jsonl", "--data", data, "--train", train)

    assert code == OVERLAP_FOUND == 6
    assert "overlap of 3 training questions with 4: 3 questions of the benchmark are touched" in out
    assert "shared documents: 1\n  a.pdf: 1 training questions, 2 of the benchmark" in out
    assert "bytes not compared for 2 training and 2 benchmark questions" in out
    assert "same name: 1\n  gone.pdf: 1 training questions, 1 of the benchmark" in out
    assert (
        "  1.00 t1 ~ q1 (same document): 'how high is THE tower' ~ 'How high is [the] tower?'"
    ) in out
    assert "nearly equal questions (similarity 0.7 or more): 1\n  0." in out
    assert "t2 ~ q2 (document not compared)" in out


def test_an_overlap_in_json_has_every_pair(data: Path, tmp_path: Path) -> None:
    train = write_jsonl(tmp_path / "train.jsonl", {"question": "Who built it?"})

    code, told = check_json("--benchmark", "jsonl", "--data", data, "--train", train)

    assert code == OVERLAP_FOUND
    [pair] = told["overlap"]["same_questions"]
    assert (pair["train_ids"], pair["benchmark_ids"]) == (["line 1"], ["q3"])
    assert told["overlap"]["shared_documents"] is None
    assert told["n_questions_touched"] == 1


def test_no_overlap_is_exit_code_0(data: Path, tmp_path: Path) -> None:
    train = write_jsonl(tmp_path / "train.jsonl", {"question": "Which bird sings at night?"})

    code, out, _ = check("--benchmark", "jsonl", "--data", data, "--train", train)

    assert code == 0
    assert "0 questions of the benchmark are touched" in out
    assert "shared documents: not measured" in out


def test_the_threshold_decides_what_is_nearly_equal(data: Path, tmp_path: Path) -> None:
    train = write_jsonl(tmp_path / "train.jsonl", {"question": "How wide is the tower at its top?"})
    arguments = ("--benchmark", "jsonl", "--data", data, "--train", train, "--threshold")

    assert check(*arguments, "0.99")[0] == 0
    assert check(*arguments, "0.5")[0] == OVERLAP_FOUND
    code, _, err = check(*arguments, "1.5")
    assert code == 2
    assert "threshold is 1.5" in err


def test_an_overlay_is_applied_and_counted(data: Path, tmp_path: Path) -> None:
    overlay = write_jsonl(
        tmp_path / "o.jsonl",
        {"id": "q2", "evidence_pages": [1]},
        {"id": "q3", "evidence_pages": [1]},
    )

    code, out, _ = check("--benchmark", "jsonl", "--data", data, "--overlay", overlay)

    assert code == 0
    assert "1 corrections applied, 1 of questions that cannot run, 0 change an answer" in out
    assert "evidence_outside_document" not in out


def test_long_lists_are_cut_and_say_so(tmp_path: Path) -> None:
    rows = [{"question": f"Number {n}?", "document": "a.pdf", "answer": n} for n in range(30)]
    data = write_jsonl(tmp_path / "questions.jsonl", *rows)

    code, out, _ = check("--benchmark", "jsonl", "--data", data, "--train", data)

    assert code == OVERLAP_FOUND
    assert "same questions: 30" in out
    assert "… and 10 more; --json lists all" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--benchmark", "nothing"], 2, "is none of: demo"),
        (["--benchmark", "jsonl"], 2, "needs --data"),
        (["--benchmark", "demo", "--train", "no/such.jsonl"], 3, "cannot be read"),
        (["--benchmark", "demo", "--overlay", "no.toml"], 3, "no.toml cannot be read"),
    ],
)
def test_what_cannot_be_used_is_named(arguments: list[str], code: int, message: str) -> None:
    given, out, err = check(*arguments)

    assert (given, out) == (code, "")
    assert message in err


def test_the_help_documents_the_exit_code() -> None:
    _, out, _ = check("--help")

    assert "Exit code 6" in " ".join(out.replace("│", " ").split())


def test_the_real_longdocurl_sample_names_what_is_missing() -> None:
    beside = Path(__file__).parents[2].parent / "shared"
    folder = Path(os.environ.get("AWM_SHARED", beside)) / "data" / "longdocurl"
    if not (folder / "LongDocURL.jsonl").is_file():
        pytest.skip(f"no LongDocURL at {folder}; set AWM_SHARED")

    code, told = check_json("--benchmark", "longdocurl", "--data", folder)

    assert code == 0
    assert told["release"] == "LongDocURL, sample of its repository (3 questions)"
    assert (told["n_dataset"], told["n_runnable"]) == (3, 1)
    assert [p["document_id"] for p in told["problems"]] == ["4127644", "4151603"]
