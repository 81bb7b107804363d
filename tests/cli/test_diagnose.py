from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from awm.cli.main import app


def invoke(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def row(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"q{number}",
        "question": f"Question {number}?",
        "document": f"d{number % 3}",
        "gold": number,
        "format": "Int",
        "answer": str(number),
        "memory": [{"text": f"The value is {number}.", "page": 2}],
    } | fields


def script(path: Path, *, delay_s: float = 0, broken: bool = False) -> str:
    reply: dict[str, Any] = {"content": "7", "delay_s": delay_s}
    if broken:
        reply = {"error": "timeout"}
    path.write_text(json.dumps({"replies": [reply]}) + "\n", encoding="utf-8")
    return f"scripted:{path}"


def test_json_has_every_key_of_an_evaluation_and_more(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [row(n, memory_answer="7") for n in (6, 7, 8)])

    evaluated = invoke("demo", "--run", tmp_path / "run", "--json")
    diagnosed = invoke("diagnose", log, "--json")

    assert (evaluated.exit_code, diagnosed.exit_code) == (0, 0)
    result = json.loads(diagnosed.stdout)
    assert set(json.loads(evaluated.stdout)) <= set(result)
    assert result["cells"] == {
        "memory_supported_correct": 1,
        "memory_missing_correct": 2,
        "answering_error": 0,
        "unresolved_error": 0,
    }
    assert result["p_mmc"] == pytest.approx(2 / 3)
    assert result["missing_documents"] == []


def test_the_dataset_hash_is_of_the_questions_and_not_of_the_system(tmp_path: Path) -> None:
    hashes = [
        json.loads(invoke("diagnose", write(tmp_path / "log.jsonl", [r]), "--json").stdout)[
            "dataset_hash"
        ]
        for r in (
            row(1, memory_answer="7"),
            row(1, memory_answer="8", memory="another"),
            row(2, memory_answer="7"),
        )
    ]

    assert hashes[0] == hashes[1] != hashes[2]


def test_the_table_says_what_was_measured(tmp_path: Path) -> None:
    rows = [row(n, memory_answer="7") for n in (6, 7, 8)] + [row(9, error="boom")]

    result = invoke("diagnose", write(tmp_path / "log.jsonl", rows))

    assert result.exit_code == 0
    assert "3 of 4 rows measured" in result.stdout
    assert "66.7 %" in result.stdout
    assert "1 row is unmeasured (1 with an `error` in the log): left out" in result.stdout
    assert "memory-supported correct" in result.stdout


def test_each_figure_of_a_group_has_its_own_n(tmp_path: Path) -> None:
    rows = [row(n, memory_answer="7") for n in (6, 7, 8)] + [row(9, memory_answer=None)]

    result = invoke("diagnose", write(tmp_path / "log.jsonl", rows))

    (line,) = [line for line in result.stdout.splitlines() if line.startswith("Int ")]
    figures = line.replace(" %", "%").split()
    assert figures[1:7] == ["100.0%", "4", "33.3%", "3", "66.7%", "3"]


def test_what_has_no_memory_is_counted_once_and_in_words(tmp_path: Path) -> None:
    rows = [row(n, memory_answer="7") for n in (6, 7, 8)]
    rows += [row(9, memory=None, memory_answer=None), row(10, error="boom")]

    out = invoke("diagnose", write(tmp_path / "log.jsonl", rows)).stdout

    assert "2 questions are left out of the audits: failed, or no memory recorded." in out
    assert "1 of the 4 rows without an `error` record no memory" in out
    assert "2 rows are unmeasured (1 with an `error` in the log; 1 without a memory" in out


def test_one_document_has_no_interval_and_says_so(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [row(n, memory_answer="7", document="d") for n in (6, 7)])

    out = invoke("diagnose", log).stdout

    assert "final-answer accuracy, memory-only accuracy, P_mmc: one document: no interval." in out


def test_one_is_written_in_the_singular(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [row(7, memory_answer="7", documnet="d")])

    out = invoke("diagnose", log).stdout

    assert "log.jsonl: 1 of 1 row measured over 1 document, judge" in out
    assert "was ignored (1 row; did you mean 'document'?)" in out
    assert not re.search(r"\b1 (rows|documents|questions|memories|readings)\b", out)


def test_another_reader_or_judge_gets_another_default_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = write(tmp_path / "log.jsonl", [row(7)])
    scripted = script(tmp_path / "reader.jsonl")

    runs = [
        json.loads(invoke("diagnose", log, "--reader", *args, "--json").stdout)["run"]
        for args in (("lexical",), (scripted,), ("lexical", "--set", "reader.max_retries=1"))
    ]

    assert runs[0] == runs[2] != runs[1]
    assert runs[0].startswith("runs/diagnose-log-")


def test_the_page_s_first_example_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    page = (Path(__file__).parents[2] / "docs" / "diagnose.md").read_text(encoding="utf-8")
    blocks = page.split("```")[1::2]
    rows, _, shown = blocks[:3]
    Path("log.jsonl").write_text(rows.removeprefix("json\n"), encoding="utf-8")

    result = invoke("diagnose", "log.jsonl", "--reader", "lexical")

    assert result.stdout.startswith(shown.strip().removesuffix("…"))


def test_the_page_s_snippet_prints_what_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "diagnose.md").read_text(encoding="utf-8")
    snippet = page.split("## From Python")[1].split("```")[1].removeprefix("python\n")

    ran = subprocess.run(
        [sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert ran.stdout == "0.5\n"


def test_markup_and_escapes_of_a_log_are_printed_as_text(tmp_path: Path) -> None:
    log = write(
        tmp_path / "log.jsonl",
        [row(1, memory_answer="1", document_type="[red]\x1b[31mx[/nothing]")],
    )

    result = invoke("diagnose", log)

    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "[red]" in result.stdout


@pytest.mark.parametrize(
    ("content", "args", "exit_code", "complaint"),
    [
        ("", (), 3, "is empty"),
        ("nonsense\n", (), 3, "line 1: not JSON"),
        ('{"answer": 1, "gold": 1, "format": "Int"}\n', (), 2, "name a --reader"),
        ('{"final_score": 1, "memory_score": 1}\n', ("--judge", "mine"), 2, "judge"),
        ('{"final_score": 1, "memory_score": 1}\n', ("--controls", "shuffled"), 2, "--reader"),
        ('{"final_score": 1, "memory_score": 1}\n', ("--from", "x"), 2, "source_format"),
        ('{"final_score": 1, "memory_score": 1}\n', ("--from", "langgraph"), 3, "messages: miss"),
        (
            '{"final_score": 1, "memory_score": 1, "memory": "a"}\n',
            ("--reader", "lexical", "--controls", "question-only"),
            2,
            "line 1 of",
        ),
        ('{"answer": 1, "gold": 1, "format": "Int"}\n', ("--reader", "lexical"), 3, "question"),
    ],
)
def test_what_cannot_be_done_says_why(
    tmp_path: Path, content: str, args: tuple[str, ...], exit_code: int, complaint: str
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(content, encoding="utf-8")

    result = invoke("diagnose", log, "--run", tmp_path / "run", *args)

    assert result.exit_code == exit_code
    assert complaint in result.stderr


def test_longdocurl_has_its_own_formats(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [row(1, memory_answer="1", format="Integer")])

    assert invoke("diagnose", log).exit_code == 3
    result = invoke("diagnose", log, "--judge", "longdocurl", "--json")
    assert json.loads(result.stdout)["memory_accuracy"] == 1.0


def test_a_reader_and_both_controls_run_and_the_same_command_reads_nothing_again(
    tmp_path: Path,
) -> None:
    log = write(tmp_path / "log.jsonl", [row(n) for n in range(6)])
    flags = ("--reader", "lexical", "--controls", "question-only,shuffled", "--json")
    args = ("diagnose", log, "--run", tmp_path / "run", *flags)

    first = invoke(*args)
    second = invoke(*args)

    assert (first.exit_code, second.exit_code) == (0, 0)
    result = json.loads(first.stdout)
    assert json.loads(second.stdout) == result
    assert set(result["lift"]) == {"question-only", "shuffled"}
    assert result["spent"]["calls"] == 18
    assert (tmp_path / "run" / "question-only" / "manifest.json").exists()


def test_failed_readings_are_unmeasured_and_the_next_run_mends_them(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [row(n) for n in (6, 7)])
    reader = script(tmp_path / "reader.jsonl", broken=True)
    args = ("diagnose", log, "--reader", reader, "--run", tmp_path / "run", "--json")

    failed = invoke(*args)
    script(tmp_path / "reader.jsonl")
    mended = invoke(*args)

    assert failed.exit_code == 5
    assert json.loads(failed.stdout)["memory_accuracy"] is None
    assert json.loads(failed.stdout)["errors"] == {"EndpointTimeoutError": 2}
    assert mended.exit_code == 0
    assert json.loads(mended.stdout)["memory_accuracy"] == 0.5


def test_an_extractor_shortens_both_answers(tmp_path: Path) -> None:
    log = write(
        tmp_path / "log.jsonl",
        [row(7, answer="It is seven.", memory_answer="Seven, I think."), row(8, final_score=1.0)],
    )
    reply = {"replies": ["Extracted answer: 7\nAnswer format: Integer"], "repeat_last": True}
    (tmp_path / "extractor.jsonl").write_text(json.dumps(reply) + "\n", encoding="utf-8")
    extractor = f"scripted:{tmp_path / 'extractor.jsonl'}"
    reader = script(tmp_path / "reader.jsonl")

    result = invoke(
        "diagnose",
        *(log, "--extractor", extractor, "--reader", reader, "--run", tmp_path / "run", "--json"),
    )

    assert result.exit_code == 0, result.stderr
    cells = json.loads(result.stdout)["cells"]
    assert (cells["memory_supported_correct"], cells["memory_missing_correct"]) == (1, 1)


def test_a_killed_diagnosis_resumes_where_it_was(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [row(n) for n in range(12)])
    reader = script(tmp_path / "reader.jsonl", delay_s=0.25)
    command = [sys.executable, "-m", "awm", "diagnose", str(log), "--reader", reader]
    command += ["--run", str(tmp_path / "run"), "--concurrency", "1", "--json"]
    readings = tmp_path / "run" / "readings.jsonl"

    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        deadline = time.monotonic() + 20
        while not readings.exists() or len(readings.read_bytes().splitlines()) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(killed.pid, signal.SIGKILL)
    n_before = readings.read_bytes().count(b"\n")
    script(tmp_path / "reader.jsonl")
    resumed = invoke(*command[3:])

    assert 3 <= n_before < 12
    assert resumed.exit_code == 0
    ids = [json.loads(line)["question_id"] for line in readings.read_text().splitlines()]
    assert sorted(ids) == sorted(f"q{n}" for n in range(12))  # each was read once
    assert json.loads(resumed.stdout)["n"] == 12


def test_message_logs_are_diagnosed_by_one_flag(tmp_path: Path) -> None:
    call = {"name": "note", "args": {"text": "12 trams", "page": 3}, "id": "1"}
    messages = [
        {"type": "human", "content": "How many trams?"},
        {"type": "ai", "content": "", "tool_calls": [call]},
        {"type": "ai", "content": "12"},
    ]
    log = write(
        tmp_path / "log.jsonl",
        [{"messages": messages, "gold": 12, "format": "Int", "memory_answer": "12"}],
    )

    result = invoke("diagnose", log, "--from", "langgraph", "--memory-tool", "note", "--json")

    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["cells"]["memory_supported_correct"] == 1
    assert found["audits"]["rates"]["echo_exact"]["value"] == 1.0
