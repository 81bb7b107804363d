"""`awm show`: the list of a run's questions, and one episode turn by turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_eval_command import EVAL, awm

from towns import agent_replies, call, write_agent, write_corpus, write_reader, write_script


@pytest.fixture(autouse=True)
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    write_corpus(Path("corpus"), 12)
    write_agent(Path("agent.jsonl"), 12)
    write_reader(Path("reader.jsonl"), 12)


def test_the_list_is_readable_in_80_columns() -> None:
    write_script(Path("reader.jsonl"), {0: ["100"], 1: [{"error": "timeout"}]}, default=["wrong"])
    awm(*EVAL)

    result = awm("show", "run")

    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["#", "outcome", "answer", "gold", "question"]
    assert lines[1].split()[:4] == ["1", "supported", "100", "100"]
    assert lines[2].split()[:4] == ["2", "unmeasured", "101", "101"]
    assert lines[12].split()[:4] == ["12", "missing", "111", "111"]
    assert "How high is the tower" in lines[12]
    assert "missing: answer right, memory wrong" in result.stdout


def test_questions_that_were_not_run_are_listed_as_such() -> None:
    write_script(Path("agent.jsonl"), {0: agent_replies(0)}, default=[{"error": "timeout"}])
    arguments = ["--set", "max_failures_in_a_row=1", "--concurrency", "1"]
    assert awm(*EVAL, *arguments).exit_code == 4

    lines = awm("show", "run").stdout.splitlines()

    outcomes = [line.split()[1] for line in lines[1:4]]
    assert outcomes == ["supported", "unmeasured", "not"]
    assert "This question has not been run yet." in awm("show", "run", "3").stdout


@pytest.mark.parametrize("wanted", ["1", "town-00"])
def test_an_episode_is_shown_turn_by_turn(wanted: str) -> None:
    awm(*EVAL)

    shown = awm("show", "run", wanted).stdout

    expected = [
        "1. How high is the tower of Townville00, in metres?",
        "id town-00",
        "document towns_00.pdf",
        "gold 100 (Int, evidence pages: 1)",
        "… (--full prints it)",
        "Question: How high is the tower of Townville00",
        "turn 1",
        "assistant calls retrieve",
        "[image of page 1, ",
        "turn 2",
        'assistant calls update_memory {"page": 1, "finding": "The tower of',
        "turn 3",
        "assistant 100",
        "memory:",
        "  [p. 1] The tower of Townville00 is 100 metres high.",
        "answer: 100   score 1.00",
        "reader, from the memory alone: 100   score 1.00",
        "outcome: memory-supported correct",
    ]
    position = -1
    for text in expected:
        found = shown.find(text, position + 1)
        assert found > position, text
        position = found


def test_a_failure_and_refusals_are_shown_with_their_reasons() -> None:
    replies = [call("update_memory", page=1, finding="too early"), {"error": "timeout"}]
    write_script(Path("agent.jsonl"), {0: replies})
    awm(*EVAL, "--limit", "1")

    shown = awm("show", "run", "1").stdout

    assert "episode: EndpointTimeoutError: scripted timeout" in shown
    assert "refused in turn 1: Page 1 was not shown to you" in shown.replace("\n", " ")
    assert "score -" in shown


def test_the_system_prompt_is_one_line_unless_all_of_it_is_asked_for() -> None:
    awm(*EVAL, "--limit", "1")

    short, full = awm("show", "run", "1").stdout, awm("show", "run", "1", "--full").stdout

    position = short.splitlines().index(next(s for s in short.splitlines() if "--full" in s))
    assert short.splitlines()[position].startswith("system ")
    assert short.splitlines()[position + 1].startswith("user ")
    assert "--full" not in full
    assert len(full.splitlines()) > len(short.splitlines())


@pytest.mark.parametrize("cell", ["missing", "memory_missing_correct", "Memory-missing correct"])
def test_one_outcome_cell_can_be_listed(cell: str) -> None:
    write_script(Path("reader.jsonl"), {0: ["100"]}, default=["wrong"])
    awm(*EVAL, "--limit", "3")

    result = awm("show", "run", "--cell", cell)

    assert [line.split()[:2] for line in result.stdout.splitlines()[1:3]] == [
        ["2", "missing"],
        ["3", "missing"],
    ]
    assert "No question of 3 is unresolved error." in awm("show", "run", "--cell", "unr").stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--cell", "memory"), "names 2 cells; give one of: supported, missing"),
        (
            ("--cell", "misssing"),
            "names no cell; give one of: supported, missing, answering, unresolved; did you mean "
            "'missing'?",
        ),
        (("--cell", "x"), "names no cell"),
        (("--cell", ""), "names no cell"),
        (("1", "--cell", "missing"), "--cell filters the list"),
    ],
)
def test_a_cell_that_cannot_be_listed_is_refused(
    arguments: tuple[str, ...], complaint: str
) -> None:
    awm(*EVAL, "--limit", "1")

    result = awm("show", "run", *arguments)

    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())


def test_json_gives_the_list_and_the_records_of_a_question() -> None:
    awm(*EVAL, "--limit", "2")

    rows = json.loads(awm("show", "run", "--json").stdout)
    one = json.loads(awm("show", "run", "2", "--json").stdout)

    assert [row["number"] for row in rows] == [1, 2]
    assert rows[1]["outcome"] == "memory_supported_correct"
    assert (rows[1]["score"], rows[1]["memory_score"], rows[1]["is_run"]) == (1.0, 1.0, True)
    assert one["example"]["question_id"] == rows[1]["question_id"] == "town-01"
    assert one["episode"]["answer"] == "101"
    assert one["reading"]["answer"] == "101"
    assert one["score"]["outcome"] == "memory_supported_correct"


def test_a_diagnosed_log_shows_memory_reading_and_outcome_without_an_episode() -> None:
    row = {
        "question": "How many ships were built?",
        "gold": 64,
        "format": "Int",
        "answer": "46",
        "memory": [{"text": "64 ships were built.", "page": 2}],
    }
    Path("log.jsonl").write_text(json.dumps(row) + "\n")
    awm("diagnose", "log.jsonl", "--reader", "lexical", "--run", "readings")

    shown = awm("show", "readings", "1").stdout.splitlines()

    assert shown[0] == "1. How many ships were built?"
    assert "  [p. 2] 64 ships were built." in shown
    assert "answer: 46   score 0.00" in shown
    assert "reader, from the memory alone: 64   score 1.00" in shown
    assert shown[-1] == "outcome: answering error"


@pytest.fixture
def diagnosed() -> Path:
    """Diagnose five rows: a right list, a right number, a failure, no memory, a right text."""
    base = {"question": "Which lines run at night?", "memory": "Lines 4 and 7 run at night."}
    rows: list[dict[str, object]] = [
        {"gold": ["Line 4", "Line 7"], "format": "List", "answer": ["Line 4", "Line 7"]},
        {"gold": 64, "format": "Int", "answer": 64},
        {"gold": 64, "format": "Int", "error": "out of memory"},
        {"gold": "Line 4", "format": "Str", "answer": "Line 4", "memory": None},
        {"gold": "Line 4", "format": "Str", "answer": "Line 4"},
    ]
    Path("log.jsonl").write_text("".join(json.dumps(base | row) + "\n" for row in rows))
    result = awm("diagnose", "log.jsonl", "--reader", "lexical", "--run", "readings")
    assert result.exit_code == 0, result.output
    return Path("readings")


def test_an_answer_that_is_no_text_is_shown_as_it_was_judged(diagnosed: Path) -> None:
    listed = json.loads(awm("show", diagnosed, "--json").stdout)

    assert [row["answer"] for row in listed[:2]] == ["['Line 4', 'Line 7']", "64"]
    assert "answer: ['Line 4', 'Line 7']   score 1.00" in awm("show", diagnosed, "1").stdout


def test_unmeasured_rows_of_a_log_are_listed_with_the_reason(diagnosed: Path) -> None:
    lines = awm("show", diagnosed).stdout.splitlines()
    failed, no_memory = (" ".join(awm("show", diagnosed, number).stdout.split()) for number in "34")

    assert [line.split()[:2] for line in lines[3:5]] == [["3", "unmeasured"], ["4", "unmeasured"]]
    assert lines[5].split()[0] == "5"
    assert "NotMeasured: the log's row has an `error`: out of memory" in failed
    assert "answer: Line 4 score 1.00" in no_memory
    assert "NotMeasured: the log's row records no memory" in no_memory


def test_unmeasured_rows_of_a_log_are_not_tried_again(diagnosed: Path) -> None:
    scores = (diagnosed / "scores.jsonl").read_bytes()

    again = awm("diagnose", "log.jsonl", "--reader", "lexical", "--run", diagnosed)

    assert (again.exit_code, again.stderr) == (0, "")
    assert "3 of 5 rows measured" in again.stdout
    assert (diagnosed / "scores.jsonl").read_bytes() == scores


def test_text_of_models_cannot_steer_the_terminal_or_be_read_as_markup() -> None:
    answer = "\x1b[2J[red]100[/red] :key: \x07"
    write_script(Path("agent.jsonl"), {0: agent_replies(0, answer=answer)})
    awm(*EVAL, "--limit", "1")

    for shown in (awm("show", "run").stdout, awm("show", "run", "1").stdout):
        assert "\x1b" not in shown
        assert "\x07" not in shown
    assert "assistant �[2J[red]100[/red] :key: �" in awm("show", "run", "1").stdout


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ("town-0", "10 questions of this run's 12"),
        ("99", "no question of this run's 12"),
        ("0", "no question of this run's 12"),
        ("x", "no question of this run's 12"),
    ],
)
def test_a_question_that_is_not_one_is_refused(wanted: str, complaint: str) -> None:
    awm(*EVAL)

    result = awm("show", "run", wanted)

    assert result.exit_code == 2
    assert complaint in result.stderr


def test_a_folder_that_is_no_run_gives_exit_code_3(tmp_path: Path) -> None:
    result = awm("show", tmp_path)

    assert result.exit_code == 3
    assert "is not a run: it has no manifest.json" in result.stderr
