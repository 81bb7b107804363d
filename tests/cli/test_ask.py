"""`awm ask`: one question over one document."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas
from typer.testing import CliRunner, Result

from awm.cli.main import app
from towns import agent_replies, call, question, write_agent, write_pdf, write_reader, write_script


def ask(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["ask", *(str(argument) for argument in arguments)])


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    write_pdf(Path("towns.pdf"), range(4))
    write_agent(Path("agent.jsonl"), 4)
    write_reader(Path("reader.jsonl"), 4)


SCRIPTED = ("--model", "scripted:agent.jsonl", "--reader", "scripted:reader.jsonl")


def test_the_answer_comes_with_the_memory_and_what_the_reader_says() -> None:
    result = ask("towns.pdf", question(2), *SCRIPTED)

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Answer   102",
        "Memory   (3 turns; pages shown: 3, 1, 2)",
        "  [p. 3] The tower of Townville02 is 102 metres high.",
        "Reader   102  (from the memory alone)",
        "Model    scripted:agent.jsonl; reader scripted:reader.jsonl",
    ]


def test_json_is_one_object_on_stdout_and_nothing_else() -> None:
    result = ask("towns.pdf", question(2), *SCRIPTED, "--json")

    shown = json.loads(result.stdout)
    assert (shown["answer"], shown["memory_answer"]) == ("102", "102")
    assert [finding["page"] for finding in shown["memory"]] == [3]
    assert (shown["model"], shown["reader"]) == SCRIPTED[1::2]
    assert shown["pages_without_text"] == []
    assert shown["error"] is shown["reader_error"] is None


def test_the_embedded_model_answers_over_a_demo_document_without_settings() -> None:
    corpus = resources.files("awm.benchmarks") / "demo_corpus" / "documents"

    result = ask(corpus / "energy_report.pdf", "How much energy did industry use in 2020?")

    assert result.exit_code == 0
    assert "Answer   " in result.stdout
    assert "[p. " in result.stdout
    assert "Reader   " in result.stdout
    assert "Model    lexical; reader lexical" in result.stdout


def test_the_help_names_the_model_that_is_the_default() -> None:
    assert "default: lexical" in " ".join(ask("--help").stdout.split())


@pytest.mark.parametrize(
    ("flags", "role"),
    [(("--model", "lexcial"), "--model"), (("--reader", "lexcial"), "--reader")],
)
def test_a_model_that_is_unknown_is_named_with_its_flag(flags: tuple[str, str], role: str) -> None:
    result = ask("towns.pdf", "?", *flags)

    assert result.exit_code == 2
    assert f"Error: {role}: unknown model 'lexcial'; did you mean 'lexical'?" in result.stderr


def test_a_reader_may_be_left_out() -> None:
    shown = json.loads(
        ask("towns.pdf", question(2), *SCRIPTED[:2], "--reader", "none", "--json").stdout
    )

    assert (shown["answer"], shown["memory_answer"]) == ("102", None)
    assert shown["reader"] is None


def test_the_reader_is_the_agent_s_model_unless_named() -> None:
    write_script(Path("agent.jsonl"), {}, default=["the same model"])

    shown = json.loads(ask("towns.pdf", "?", "--model", "scripted:agent.jsonl", "--json").stdout)

    assert shown["memory_answer"] == "the same model"


def test_a_config_of_an_evaluation_serves_too_and_its_typos_are_named() -> None:
    Path("eval.toml").write_text(
        'benchmark = "demo"\nmodel = "scripted:agent.jsonl"\nreader = "none"\nlimit = 3\n'
    )
    Path("typo.toml").write_text('modle = "lexical"\n')

    assert "Answer   102" in ask("towns.pdf", question(2), "--config", "eval.toml").stdout
    refused = ask("towns.pdf", question(2), "--config", "typo.toml")
    assert refused.exit_code == 2
    assert "modle: no such setting; did you mean 'model'?" in refused.stderr


def write_scan(n_pages: int) -> None:
    canvas = Canvas("scan.pdf", pagesize=(200, 200))
    for _ in range(n_pages):
        canvas.rect(20, 20, 100, 100, fill=1)
        canvas.showPage()
    canvas.save()


def test_pages_without_text_that_were_not_shown_are_pointed_out() -> None:
    write_scan(12)

    result = ask("scan.pdf", "How much?")

    assert result.exit_code == 0
    assert "12 of 12 pages have no text layer: a lexical search cannot find them" in (
        " ".join(result.stdout.split())
    )
    shown = json.loads(ask("scan.pdf", "How much?", "--json").stdout)
    assert shown["pages_without_text"] == list(range(1, 13))


def test_pages_that_were_shown_are_not_said_to_be_beyond_finding() -> None:
    write_scan(1)
    write_script(
        Path("seeing.jsonl"),
        {},
        default=[call("retrieve", query="a"), call("update_memory", page=1, finding="7"), "7"],
    )

    blind = " ".join(ask("scan.pdf", "How much?").stdout.split())
    seeing = " ".join(
        ask("scan.pdf", "How much?", "--model", "scripted:seeing.jsonl").stdout.split()
    )

    shown = "1 of 1 pages have no text layer: the agent was shown them as images alone."
    assert shown in blind
    assert shown in seeing
    assert "cannot find them" not in blind + seeing
    assert "lexical reads text layers alone; to read images, name a vision model" in blind
    assert "text layers alone" not in seeing


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "There is no document at 'x.pdf'"),
        (b"", "x.pdf"),
        (b"just text", "x.pdf"),
        (b"%PDF-1.7\nbroken", "x.pdf"),
    ],
)
def test_a_file_that_is_no_document_gives_exit_code_3(
    content: bytes | None, complaint: str
) -> None:
    if content is not None:
        Path("x.pdf").write_bytes(content)

    result = ask("x.pdf", "How much?", "--json")

    assert result.exit_code == 3
    assert result.stdout == ""
    assert complaint in result.stderr


@pytest.mark.parametrize("who", ["agent", "reader"])
def test_a_model_that_fails_gives_exit_code_4_with_its_reason(who: str) -> None:
    write_script(Path(f"{who}.jsonl"), {}, default=[{"error": "timeout"}])

    result = ask("towns.pdf", question(2), *SCRIPTED)
    shown = json.loads(ask("towns.pdf", question(2), *SCRIPTED, "--json").stdout)

    assert result.exit_code == 4
    assert f"Error: {who}: EndpointTimeoutError: scripted timeout" in result.stderr
    assert "EndpointTimeoutError" not in result.stdout
    errors = {"agent": shown["error"], "reader": shown["reader_error"]}
    assert errors[who]["type"] == "EndpointTimeoutError"


def test_a_turn_limit_is_no_failure() -> None:
    write_script(Path("agent.jsonl"), {2: [*agent_replies(2)[:2], ""]})

    result = ask("towns.pdf", question(2), *SCRIPTED, "--set", "agent.max_turns=3")

    assert result.exit_code == 0
    assert "Answer   (no answer: the turn limit was reached)" in result.stdout
    assert "Refused  1 call; the last, in turn 3: Your turn was empty." in result.stdout


def test_a_turn_limit_says_what_was_refused() -> None:
    early = call("update_memory", page=3, finding="too early")
    write_script(Path("agent.jsonl"), {2: [early, early]})

    result = ask("towns.pdf", question(2), *SCRIPTED, "--set", "agent.max_turns=2")

    assert result.exit_code == 0
    assert "Refused  2 calls; the last, in turn 2: Page 3 was not shown to you" in result.stdout


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_question_is_refused(text: str) -> None:
    result = ask("towns.pdf", text, *SCRIPTED)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "the question is empty" in result.stderr
