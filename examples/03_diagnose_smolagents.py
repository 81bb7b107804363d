"""Diagnose a smolagents agent, and let a reader answer from its memory."""

import json
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from awm.cli.main import app


def full_steps(task: str, note: str, answer: object) -> list[dict[str, object]]:
    """Stand in for `agent.memory.get_full_steps()`, shortened to what is read."""

    def call(name: str, arguments: dict[str, object]) -> dict[str, object]:
        return {"id": "call", "function": {"name": name, "arguments": arguments}}

    note_call = call("save_note", {"note": note, "page": 4})
    answer_call = call("final_answer", {"answer": answer})
    return [
        {"task": task, "task_images": None},
        {"step_number": 1, "tool_calls": [note_call], "error": None, "is_final_answer": False},
        {"step_number": 2, "tool_calls": [answer_call], "error": None}
        | {"action_output": answer, "is_final_answer": True},
    ]


def main() -> None:
    """Write a log, run `awm diagnose` with the embedded reader, and print the figures."""
    task = "How many letters did the library answer?"
    rows = [
        {
            "steps": full_steps(task, note, 512),
            "document": "museum_annual_report.pdf",
            "gold": 512,
            "format": "Int",
        }
        for note in ("The library answered 512 letters.", "The page is about the library.")
    ]
    folder = Path(tempfile.mkdtemp())
    log = folder / "smolagents.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    flags = ["--from", "smolagents", "--memory-tool", "save_note", "--reader", "lexical"]
    command = ["diagnose", str(log), *flags, "--run", str(folder / "run"), "--json"]
    found = json.loads(CliRunner().invoke(app, command).stdout)
    print("final-answer accuracy:", found["final_accuracy"])
    print("memory-only accuracy:", found["memory_accuracy"])
    print("generic findings:", found["audits"]["rates"]["generic_findings"]["value"])


main()
