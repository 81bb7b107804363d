"""The run store: what survives a torn, damaged, foreign or half-made folder."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from awm.agent.environment import Refusal
from awm.agent.episode import Episode
from awm.errors import RunMismatchError, RunStoreError
from awm.evaluate import EvalSettings
from awm.models.chat import ModelSettings
from awm.runs import (
    AnswerScore,
    DatasetRecord,
    ExampleRecord,
    Journal,
    RunManifest,
    RunStore,
    ScoreRecord,
    SessionRecord,
    compare_manifests,
    create_or_resume,
    open_run,
)
from awm.scoring.outcome import Outcome

SESSION = SessionRecord(started_at="2026-01-01T00:00:00+00:00", versions={}, git_revision=None)


def score_record(i: int, score: float | None = 1.0) -> ScoreRecord:
    answer = AnswerScore(prediction=f"Zürich {i} 東京 \N{SNOWMAN}\u2028", score=score)
    return ScoreRecord(
        question_id=f"q{i}",
        document_id="d",
        final=answer,
        memory=answer,
        outcome=None if score is None else Outcome.MEMORY_SUPPORTED_CORRECT,
    )


def example_record(i: int) -> ExampleRecord:
    return ExampleRecord(
        question_id=f"q{i}", question="?", document_id="d", answer=i, answer_format="Int"
    )


def make_manifest(*, settings: dict[str, Any] | None = None, **changes: Any) -> RunManifest:
    evaluated = EvalSettings(
        benchmark="demo",
        run=Path("run"),
        model=ModelSettings(spec="lexical", **(settings or {})),
        reader=ModelSettings(spec="lexical"),
    )
    fields: dict[str, Any] = {
        "settings": evaluated.model_dump(mode="json"),
        "prompt_version": "1",
        "prompt_hash": "abc",
        "extraction_prompt": None,
        "judge": "mmlongbench-doc",
        "dataset": DatasetRecord(
            benchmark="demo", dataset_hash="d" * 64, n_dataset=3, n_runnable=3
        ),
        "question_ids_hash": "e" * 64,
        "n_questions": 3,
        "versions": {},
        "git_revision": None,
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    return RunManifest(**(fields | changes))


def open_store(path: Path, manifest: RunManifest | None = None) -> RunStore:
    examples = [example_record(i) for i in range(3)]
    return create_or_resume(path, manifest or make_manifest(), examples, SESSION)


def write_scores(path: Path, *records: ScoreRecord) -> Journal[ScoreRecord]:
    journal = Journal(path, ScoreRecord)
    journal.open()
    for record in records:
        journal.append(record)
    journal.close()
    return journal


def test_a_record_torn_at_any_byte_is_cut_off_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    whole = [score_record(0), score_record(1)]
    kept = write_scores(path, *whole).path.read_bytes()
    torn = write_scores(tmp_path / "other.jsonl", score_record(2)).path.read_bytes()

    for n_bytes in range(len(torn)):
        path.write_bytes(kept + torn[:n_bytes])
        assert list(Journal(path, ScoreRecord).read()) == whole, n_bytes
        journal = write_scores(path, score_record(2))
        assert path.read_bytes() == kept + torn, n_bytes
        assert list(journal.read()) == [*whole, score_record(2)]


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"{}garbage\n", b"\xff\xfe\n", b"[1]\n", b"\n"])
def test_a_tail_that_is_no_record_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "scores.jsonl"
    kept = write_scores(path, score_record(0)).path.read_bytes()
    path.write_bytes(kept + tail)

    journal = write_scores(path, score_record(1))

    assert list(journal.read()) == [score_record(0), score_record(1)]


def test_a_damaged_line_with_whole_ones_behind_it_is_named_by_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    first = write_scores(path, score_record(0)).path.read_bytes()
    damaged = first + b'{"question_id": "q1", \n' + first
    path.write_bytes(damaged)

    with pytest.raises(RunStoreError, match=rf"scores\.jsonl.*byte {len(first)} is damaged"):
        Journal(path, ScoreRecord).open()

    assert path.read_bytes() == damaged


def test_a_line_of_another_schema_is_named_by_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    first = write_scores(path, score_record(0)).path.read_bytes()
    path.write_bytes(first + b'{"a": 1}\n' + first)

    with pytest.raises(RunStoreError, match=f"byte {len(first)} is damaged .question_id: missing"):
        list(Journal(path, ScoreRecord).read())


def test_a_reader_passes_over_the_line_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    journal = write_scores(path, score_record(0))
    with path.open("ab") as file:
        file.write(b'{"question_id": "q1"')

    assert list(journal.read()) == [score_record(0)]


def test_a_record_can_be_read_at_its_offset(tmp_path: Path) -> None:
    journal = write_scores(tmp_path / "s.jsonl", *(score_record(i) for i in range(3)))

    offsets = [offset for offset, _ in journal.read_with_offsets()]

    assert [journal.read_at(offset) for offset in reversed(offsets)] == [
        score_record(i) for i in (2, 1, 0)
    ]


def test_a_record_that_does_not_fit_on_the_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    kept = write_scores(path, score_record(0)).path.read_bytes()
    journal = Journal(path, ScoreRecord)
    journal.open()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept) + 20, limits[1]))
    try:
        with pytest.raises(RunStoreError, match=r"could not be written: .* What is done is kept"):
            journal.append(score_record(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    assert path.read_bytes() == kept
    journal.append(score_record(2))
    assert list(journal.read()) == [score_record(0), score_record(2)]


def test_a_lone_surrogate_of_a_model_is_written_as_a_question_mark(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "episodes.jsonl", Episode)
    journal.open()
    journal.append(
        Episode(
            question_id="q",
            question="?",
            document_id="d",
            document_digest=None,
            setting="agent",
            stop_reason="step_limit",
            answer=None,
            memory=(),
            refusals=(Refusal(turn=0, tool="a\ud800b", message="no such tool"),),
        )
    )

    assert next(journal.read()).refusals[0].tool == "a?b"


def test_a_journal_that_is_not_open_refuses_to_append(tmp_path: Path) -> None:
    with pytest.raises(RunStoreError, match="not open for writing"):
        Journal(tmp_path / "s.jsonl", ScoreRecord).append(score_record(0))


def test_the_latest_record_of_a_question_counts_in_the_order_of_the_run(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        for record in (score_record(2), score_record(0, None), score_record(0)):
            store.scores.append(record)

    assert list(open_run(tmp_path / "run").final_scores()) == [score_record(0), score_record(2)]


def test_a_run_folder_may_lie_on_a_path_with_spaces_and_unicode(tmp_path: Path) -> None:
    path = tmp_path / "läufe und runs" / "東京 [1]"
    open_store(path).close()

    assert open_run(path).manifest == make_manifest()


def test_every_start_is_written_down_even_behind_a_torn_line(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    with (tmp_path / "sessions.jsonl").open("ab") as file:
        file.write(b'{"started_at": "20')
    open_store(tmp_path).close()

    assert list(open_run(tmp_path).sessions.read()) == [SESSION, SESSION]


HOLD_THE_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_run_that_another_process_writes_is_refused_until_it_dies(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, tmp_path / "run.lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"

        with pytest.raises(RunMismatchError, match="another process is writing"):
            open_store(tmp_path)
        assert open_run(tmp_path).manifest == make_manifest()

        other.kill()
    open_store(tmp_path).close()


def test_a_run_is_refused_to_the_process_that_already_writes_it(tmp_path: Path) -> None:
    with open_store(tmp_path), pytest.raises(RunMismatchError, match="another process"):
        open_store(tmp_path)


def test_other_settings_are_refused_with_every_difference_named(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    before = (tmp_path / "manifest.json").read_bytes()
    body = {"chat_template_kwargs": {"enable_thinking": False}, "timeout_s": 3}
    other = make_manifest(
        settings={"temperature": 0.5, "extra_body": body},
        prompt_hash="xyz",
        dataset=DatasetRecord(benchmark="demo", dataset_hash="0" * 64, n_dataset=3, n_runnable=3),
    )

    with pytest.raises(RunMismatchError) as refused:
        open_store(tmp_path, other)

    message = str(refused.value)
    assert "was made with other settings (the run's -> those given now)" in message
    for difference in (
        "model.temperature: None -> 0.5",
        "model.extra_body.chat_template_kwargs.enable_thinking: (not set) -> False",
        "model.extra_body.timeout_s: (not set) -> 3",
        "prompt_hash: 'abc' -> 'xyz'",
        f"dataset_hash: '{'d' * 64}' -> '{'0' * 64}'",
    ):
        assert difference in message
    assert "judge" not in message
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_a_reader_that_was_not_there_before_is_a_difference(tmp_path: Path) -> None:
    settings = make_manifest().settings | {"reader": None}
    open_store(tmp_path, make_manifest().model_copy(update={"settings": settings})).close()

    with pytest.raises(RunMismatchError, match=r"reader\.spec: \(not set\) -> 'lexical'"):
        open_store(tmp_path)


def test_what_decides_how_and_not_what_may_change(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    changed = make_manifest(
        settings={"timeout_s": 5, "max_retries": 0, "max_in_flight": 2, "api_key_env": "KEY"}
    )
    settings = changed.settings | {
        "run": "elsewhere",
        "concurrency": 99,
        "cache_dir": "/tmp/x",
        "data": "moved",
        "max_failures_in_a_row": 1,
    }

    with open_store(tmp_path, changed.model_copy(update={"settings": settings})) as store:
        assert store.manifest == make_manifest()


@pytest.mark.parametrize(
    "left_behind",
    [
        (),
        ("run.lock",),
        ("run.lock", "examples.jsonl.part"),
        ("run.lock", "examples.jsonl"),
        ("run.lock", "examples.jsonl", "manifest.json.part"),
    ],
)
def test_a_folder_that_was_half_made_is_made_again(
    tmp_path: Path, left_behind: tuple[str, ...]
) -> None:
    for name in left_behind:
        (tmp_path / name).write_bytes(b'{"half": ')

    open_store(tmp_path).close()

    run = open_run(tmp_path)
    assert run.manifest == make_manifest()
    assert [example.question_id for example in run.examples.read()] == ["q0", "q1", "q2"]


def test_journals_without_a_manifest_are_refused_and_kept(tmp_path: Path) -> None:
    kept = write_scores(tmp_path / "scores.jsonl", score_record(0)).path.read_bytes()

    with pytest.raises(RunStoreError, match=r"holds journals and no manifest\.json"):
        open_store(tmp_path)

    assert (tmp_path / "scores.jsonl").read_bytes() == kept


@pytest.mark.parametrize("kept", ["notes.txt", "scores.jsonl"])
def test_a_refused_folder_is_left_as_it_was(tmp_path: Path, kept: str) -> None:
    (tmp_path / kept).write_text("mine")

    with pytest.raises((RunMismatchError, RunStoreError), match=r"not empty|holds journals"):
        open_store(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [kept]


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run"
    file.write_text("mine")

    for path in (file, file / "inner"):
        with pytest.raises(RunStoreError, match="cannot be used as a run folder"):
            open_store(path)
        with pytest.raises(RunStoreError, match="is not a run"):
            open_run(path)
    assert file.read_text() == "mine"


def test_a_folder_without_a_manifest_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunStoreError, match=r"is not a run: it has no manifest\.json"):
        open_run(tmp_path)


def test_a_path_without_anything_is_said_not_to_exist(tmp_path: Path) -> None:
    with pytest.raises(RunStoreError, match=r"nowhere is not a run: it does not exist; `awm eval"):
        open_run(tmp_path / "nowhere")


def test_a_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunStoreError, match=r"notes\.txt is not a run: it is a file"):
        open_run(tmp_path / "notes.txt")


def test_a_folder_of_runs_names_some_of_them(tmp_path: Path) -> None:
    for i in range(7):
        open_store(tmp_path / f"run-{i}").close()

    with pytest.raises(RunStoreError) as refused:
        open_run(tmp_path)

    named = ", ".join(str(tmp_path / f"run-{i}") for i in range(5))
    assert str(refused.value) == (
        f"{tmp_path} is not a run, but a folder of runs; name one of them: {named} and 2 more"
    )


def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    (tmp_path / "manifest.json").write_bytes(b'{"run_version": 1')

    with pytest.raises(RunStoreError, match="is damaged, or no manifest of version 1"):
        open_run(tmp_path)


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path, make_manifest(run_version=2)).close()

    with pytest.raises(RunStoreError, match="is of version 2, and this AWM reads version 1"):
        open_run(tmp_path)


def test_a_server_may_move_and_a_model_may_not() -> None:
    def served(spec: str) -> RunManifest:
        manifest = make_manifest()
        settings = manifest.settings | {"model": manifest.settings["model"] | {"spec": spec}}
        return manifest.model_copy(update={"settings": settings})

    here = served("openai:a/b@http://h1:8000/v1")
    assert compare_manifests(here, served("openai:a/b@https://h2/v1")) == []
    (difference,) = compare_manifests(here, served("openai:a/c@http://h1:8000/v1"))
    assert difference == "model.spec: 'openai:a/b' -> 'openai:a/c'"
