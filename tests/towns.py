"""A tiny corpus for tests: one town a page, one question a town, and scripts that answer it.

Question i asks for the height of the tower of town i, which is 100 + i metres; the page that says
so is the only one that names the town, so a lexical search puts it first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reportlab.pdfgen.canvas import Canvas

Replies = Sequence[str | Mapping[str, Any]]


def question(i: int) -> str:
    """Give the text of question `i`."""
    return f"How high is the tower of {town(i)}, in metres?"


def town(i: int) -> str:
    """Give the name of town `i`."""
    return f"Townville{i:02}"


def write_pdf(path: Path, towns: Sequence[int]) -> None:
    """Write a PDF with one page a town."""
    canvas = Canvas(str(path), pagesize=(300, 200), invariant=1)
    for i in towns:
        canvas.drawString(20, 150, f"The tower of {town(i)} is {100 + i} metres high.")
        canvas.showPage()
    canvas.save()


def write_corpus(folder: Path, n_questions: int, pages_per_document: int = 4) -> Path:
    """Write the PDFs and questions.jsonl; ids go from town-00 upwards."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for first in range(0, n_questions, pages_per_document):
        towns = range(first, min(first + pages_per_document, n_questions))
        name = f"towns_{first:02}.pdf"
        write_pdf(folder / name, towns)
        rows += [question_row(i, name, page) for page, i in enumerate(towns, start=1)]
    write_jsonl(folder / "questions.jsonl", rows)
    return folder


def question_row(i: int, document: str, page: int) -> dict[str, Any]:
    """Give the line of question `i` in questions.jsonl."""
    return {
        "id": f"town-{i:02}",
        "question": question(i),
        "document": document,
        "answer": 100 + i,
        "answer_format": "Int",
        "evidence_pages": [page],
        "evidence_sources": ["Pure-text (Plain-text)"],
    }


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write one JSON object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def call(name: str, **arguments: object) -> dict[str, Any]:
    """Make a scripted reply that calls a tool."""
    return {"tool_calls": [{"name": name, "arguments": json.dumps(arguments), "id": "c"}]}


def agent_replies(i: int, answer: str | None = None, pages_per_document: int = 4) -> Replies:
    """Give the replies of an agent that searches, notes the height and answers."""
    page = i % pages_per_document + 1
    finding = f"The tower of {town(i)} is {100 + i} metres high."
    return [
        call("retrieve", query=town(i)),
        call("update_memory", page=page, finding=finding),
        str(100 + i) if answer is None else answer,
    ]


def write_script(path: Path, replies: Mapping[int, Replies], default: Replies = ()) -> Path:
    """Write a script: `replies` by question number, `default` for every other question."""
    rows: list[dict[str, Any]] = [
        {"match": town(i), "replies": list(given)} for i, given in replies.items()
    ]
    if default:
        rows.append({"match": "", "replies": list(default), "repeat_last": True})
    return write_jsonl(path, rows)


def write_agent(path: Path, n_questions: int) -> Path:
    """Write the script of an agent that answers every question right."""
    return write_script(path, {i: agent_replies(i) for i in range(n_questions)})


def write_reader(path: Path, n_questions: int) -> Path:
    """Write the script of a reader that reads every memory right."""
    return write_script(path, {i: [str(100 + i)] for i in range(n_questions)})


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Read every line of a journal."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
