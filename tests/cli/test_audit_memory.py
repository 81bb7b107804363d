from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from awm.analysis.summary import summarize
from awm.cli.main import app
from awm.memory import EMPTY_MEMORY
from awm.runs import open_run


def invoke(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "run"
    assert invoke("demo", "--run", folder, "--json").exit_code == 0
    return folder


def test_audits_of_a_run_need_no_model(run: Path) -> None:
    result = invoke("audit", "memory", run, "--json")

    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    rates = found["audits"]["rates"]
    assert rates["schema_violations"]["value"] == 0.0
    assert rates["pages_in_document"]["value"] == 1.0
    assert rates["pages_shown"]["value"] == 1.0
    assert 0 < rates["pages_in_evidence"]["value"] < 1
    assert found["failures"]["n"] > 0
    assert {"evidence source", "document type"} <= set(found["breakdowns"])
    assert found["lift"] == {}


def test_controls_are_runs_of_their_own_that_resume(run: Path, tmp_path: Path) -> None:
    flags = ("--controls", "question-only,shuffled", "--run", tmp_path / "controls", "--json")
    args = ("audit", "memory", run, *flags)
    before = sorted((p.name, p.read_bytes()) for p in run.iterdir())

    first = invoke(*args)
    second = invoke(*args)

    assert (first.exit_code, second.exit_code) == (0, 0), first.stderr
    assert json.loads(second.stdout) == json.loads(first.stdout)
    assert sorted((p.name, p.read_bytes()) for p in run.iterdir()) == before
    lift = json.loads(first.stdout)["lift"]["question-only"]
    accuracies = lift["memory_accuracy"]["value"], lift["control_accuracy"]["value"]
    assert lift["lift"]["value"] == pytest.approx(accuracies[0] - accuracies[1])
    control = tmp_path / "controls" / "question-only"
    manifest = json.loads((control / "manifest.json").read_text())
    assert manifest["settings"]["control"] == "question-only"
    assert manifest["settings"]["source"]["question_ids_hash"]
    readings = (control / "readings.jsonl").read_text().splitlines()
    assert {json.loads(line)["memory"] for line in readings} == {EMPTY_MEMORY}
    n_questions = len((run / "examples.jsonl").read_text().splitlines())
    assert len(readings) == n_questions  # the second command read nothing again


def test_another_reader_reads_the_memories_themselves_too(run: Path, tmp_path: Path) -> None:
    (tmp_path / "reader.jsonl").write_text('{"replies": ["Not answerable"]}\n')
    reader = f"scripted:{tmp_path / 'reader.jsonl'}"
    out = tmp_path / "controls"

    result = invoke(
        *("audit", "memory", run, "--controls", "question-only", "--reader", reader),
        *("--run", out, "--json"),
    )

    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in out.iterdir()) == ["memory", "question-only"]
    assert json.loads(result.stdout)["lift"]["question-only"]["lift"]["value"] == 0.0


def test_the_tables_are_printed(run: Path) -> None:
    result = invoke("audit", "memory", run)

    assert result.exit_code == 0
    assert "cited pages that are gold pages" in result.stdout
    assert "by evidence source" in result.stdout
    assert "has no reader" not in result.stdout
    legend = "11/10/01/00: questions by answer, then memory (1 right, 0 wrong): supported / missing"
    assert result.stdout.count(legend) == 1


@pytest.mark.parametrize(
    ("args", "exit_code", "complaint"),
    [
        (("--controls", "nothing"), 2, "question-only, shuffled"),
        (("--reader", "lexical"), 2, "name them"),
    ],
)
def test_what_cannot_be_done_says_why(
    run: Path, args: tuple[str, ...], exit_code: int, complaint: str
) -> None:
    result = invoke("audit", "memory", run, *args)

    assert result.exit_code == exit_code
    assert complaint in result.stderr


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    assert invoke("audit", "memory", tmp_path).exit_code == 3


def test_a_run_without_memories_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    evaluated = invoke(
        *("eval", "--benchmark", "demo", "--model", "lexical", "--setting", "rag", "--limit", "2"),
        *("--run", folder, "--json"),
    )
    assert evaluated.exit_code == 0, evaluated.stderr

    result = invoke("audit", "memory", folder)

    assert result.exit_code == 2
    assert "holds no memory to audit (setting 'rag'" in result.stderr


def test_a_run_without_a_reader_is_said_to_have_none_first(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    evaluated = invoke(
        *("eval", "--benchmark", "demo", "--model", "lexical", "--reader", "none", "--limit", "2"),
        *("--run", folder, "--json"),
    )
    assert evaluated.exit_code == 0, evaluated.stderr

    printed = invoke("audit", "memory", folder)

    assert printed.exit_code == 0
    assert printed.stdout.splitlines()[0].startswith(f"{folder} has no reader: ")
    assert json.loads(invoke("audit", "memory", folder, "--json").stdout)["run_reader"] is None


def test_a_run_written_as_a_log_has_the_runs_own_figures(run: Path, tmp_path: Path) -> None:
    store = open_run(run)
    episodes = {episode.question_id: episode for episode in store.episodes.read()}
    readings = {reading.question_id: reading for reading in store.readings.read()}
    page_counts = {d.document_id: d.page_count for d in store.documents.read()}
    log = tmp_path / "log.jsonl"
    with log.open("w", encoding="utf-8") as out:
        for example in store.examples.read():
            episode = episodes[example.question_id]
            row = {
                "id": example.question_id,
                "question": example.question,
                "document": example.document_id,
                "gold": example.answer,
                "format": example.answer_format,
                "answer": episode.answer,
                "memory": [
                    {"text": finding.text, "page": finding.page} for finding in episode.memory or ()
                ],
                "memory_answer": readings[example.question_id].answer,
                "evidence_pages": example.evidence_pages,
                "evidence_sources": example.evidence_sources,
                "document_type": example.document_type,
                "pages_shown": episode.pages_shown,
                "page_count": page_counts[example.document_id],
                "refused_writes": 0,
            }
            out.write(json.dumps(row) + "\n")

    diagnosed = json.loads(invoke("diagnose", log, "--json").stdout)
    audited = json.loads(invoke("audit", "memory", run, "--json").stdout)
    summary = summarize(store).as_json()

    for key in ("n", "n_unmeasured", "cells", "estimates"):
        assert diagnosed[key] == summary[key]
    for key in ("audits", "breakdowns", "failures"):
        assert diagnosed[key] == audited[key]
