"""Rows of a log out of the message logs of LangGraph and smolagents agents.

Both converters take one object a line that holds the agent's own record beside what the agent
does not know (`gold`, `format`, `document`, …), which is passed on:

- LangGraph: `messages`, as `model_dump()`, `messages_to_dict`, `dumpd` or
  `convert_to_openai_messages` write them; other keys of the graph's final state may stand beside.
- smolagents: `steps`, as `agent.memory.get_full_steps()` gives them.

The question is the first human message (the first task) unless the object has a `question`, the
answer the last message of the model without tool calls (the output of the final-answer step)
unless it has an `answer`. The memory is what the calls of a note-taking tool wrote, in order, or,
with `memory_field`, that field of the object. A call whose result is an error was refused: it is
counted and not part of the memory.

>>> convert = langgraph_converter(memory_tool="note")
>>> call = {"name": "note", "args": {"text": "12 trams", "page": 3}, "id": "1"}
>>> convert({"messages": [{"type": "human", "content": "How many?"},
...                       {"type": "ai", "content": "", "tool_calls": [call]},
...                       {"type": "ai", "content": "12"}], "gold": 12, "format": "Int"})["memory"]
[{'text': '12 trams', 'page': 3}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from awm.analysis.diagnosis.logs import Converter

DEFAULT_MEMORY_TOOL = "update_memory"
TEXT_ARGUMENTS = ("text", "finding", "note", "content", "memory")
PAGE_ARGUMENTS = ("page", "page_number", "source_page")
_ROLES = {"user": "human", "assistant": "ai", "human": "human", "ai": "ai", "tool": "tool"}
_CLASSES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "ToolMessage": "tool",
}


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a tool, by either framework."""

    where: str
    name: str
    arguments: Any
    failed: bool


def langgraph_converter(
    memory_tool: str = DEFAULT_MEMORY_TOOL, memory_field: str | None = None
) -> Converter:
    """Make a converter of objects with `messages`.

    Args:
        memory_tool: the tool whose calls write the memory.
        memory_field: the key of the graph's state that holds the memory; None: the tool's calls.
    """

    def convert(raw: dict[str, Any]) -> dict[str, Any]:
        row, messages = _take(raw, "messages", memory_field)
        read = [_read_message(index, each) for index, each in enumerate(messages)]
        if "question" not in row:
            row["question"] = _first_question(read)
        if not row.keys() & {"answer", "final_score", "error"}:
            row["answer"] = _last_answer(read)
        if memory_field is None:
            _add_notes(row, list(_langgraph_calls(read)), memory_tool)
        return row

    return convert


def smolagents_converter(
    memory_tool: str = DEFAULT_MEMORY_TOOL, memory_field: str | None = None
) -> Converter:
    """Make a converter of objects with `steps`; the arguments are those of `langgraph_converter`.

    A `CodeAgent` calls its tools in code, where a call's arguments may be variables: what such a
    call wrote cannot be read from its steps, and the converter says so.
    """

    def convert(raw: dict[str, Any]) -> dict[str, Any]:
        row, steps = _take(raw, "steps", memory_field)
        for index, step in enumerate(steps):
            if not isinstance(step, dict):
                raise ValueError(f"steps[{index}]: not an object; write memory.get_full_steps()")
        if "question" not in row:
            row["question"] = next((step["task"] for step in steps if step.get("task")), None)
            if row["question"] is None:
                raise ValueError("steps: no step has a task, and there is no `question`")
        if not row.keys() & {"answer", "final_score", "error"}:
            row["answer"] = _final_output(steps)
        if memory_field is None:
            _add_notes(row, list(_smolagents_calls(steps, memory_tool)), memory_tool)
        return row

    return convert


def _take(
    raw: dict[str, Any], name: str, memory_field: str | None
) -> tuple[dict[str, Any], list[Any]]:
    """Split an object into a row and the agent's own record."""
    record = raw.get(name)
    if not isinstance(record, list) or not record:
        raise ValueError(f"{name}: missing, empty or not a list")
    row = {key: value for key, value in raw.items() if key != name}
    if memory_field is not None:
        if memory_field not in row:
            raise ValueError(f"{memory_field}: missing (it was named as the memory's field)")
        row["memory"] = row.pop(memory_field)
    return row, record


def _add_notes(row: dict[str, Any], calls: list[_Call], memory_tool: str) -> None:
    if "memory" in row:
        return
    notes = [call for call in calls if call.name == memory_tool]
    row["memory"] = [_note(call) for call in notes if not call.failed]
    row.setdefault("refused_writes", sum(call.failed for call in notes))


def _note(call: _Call) -> dict[str, Any]:
    arguments = call.arguments
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return {"text": arguments}
    if not isinstance(arguments, Mapping):
        raise ValueError(f"{call.where}: the arguments of {call.name} are no object: {arguments!r}")
    text = next((arguments[key] for key in TEXT_ARGUMENTS if key in arguments), None)
    if not isinstance(text, str):
        raise ValueError(
            f"{call.where}: {call.name} has the arguments {', '.join(arguments) or 'none'}; the "
            f"note's text must be one of {', '.join(TEXT_ARGUMENTS)}. Rename it, or give the "
            "memory in a field of its own."
        )
    page = next((arguments[key] for key in PAGE_ARGUMENTS if key in arguments), None)
    if isinstance(page, str) and page.strip().isdecimal():
        page = int(page)
    return {"text": text, "page": page}


@dataclass(frozen=True, slots=True)
class _Message:
    where: str
    kind: str
    content: str
    calls: tuple[dict[str, Any], ...]
    call_id: str | None
    failed: bool


def _read_message(index: int, raw: Any) -> _Message:
    """Read a message in any of the four serialisations."""
    where = f"messages[{index}]"
    if not isinstance(raw, dict):
        raise ValueError(f"{where}: not an object; write message.model_dump() for each message")
    kind = _ROLES.get(str(raw.get("role") or raw.get("type")))
    fields = raw
    if raw.get("type") == "constructor":  # dumpd
        fields = raw.get("kwargs") or {}
        kind = _CLASSES.get((raw.get("id") or [""])[-1], "other")
    elif isinstance(raw.get("data"), dict):  # messages_to_dict
        fields = raw["data"]
    calls = fields.get("tool_calls") or ()
    if not isinstance(calls, list | tuple) or not all(isinstance(call, dict) for call in calls):
        raise ValueError(f"{where}.tool_calls: not a list of objects")
    return _Message(
        where=where,
        kind=kind or "other",
        content=_text(fields.get("content")),
        calls=tuple(calls),
        call_id=fields.get("tool_call_id"),
        failed=fields.get("status") == "error",
    )


def _text(content: Any) -> str:
    """Join the text blocks of a message's content."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [
        block if isinstance(block, str) else block.get("text", "")
        for block in blocks
        if isinstance(block, str) or (isinstance(block, dict) and block.get("type") == "text")
    ]
    return "\n".join(texts)


def _first_question(messages: list[_Message]) -> str:
    for message in messages:
        if message.kind == "human" and message.content.strip():
            return message.content
    raise ValueError("messages: no human message has text, and there is no `question`")


def _last_answer(messages: list[_Message]) -> str:
    """Give the last turn's text; "" where the agent stopped within its tool calls."""
    last = next((message for message in reversed(messages) if message.kind == "ai"), None)
    return last.content if last is not None and not last.calls else ""


def _langgraph_calls(messages: list[_Message]) -> Iterator[_Call]:
    failed = {message.call_id for message in messages if message.kind == "tool" and message.failed}
    for message in messages:
        for number, call in enumerate(message.calls):
            function = call.get("function")
            inner = function if isinstance(function, dict) else call
            arguments = inner.get("args", inner.get("arguments"))
            where = f"{message.where}.tool_calls[{number}]"
            yield _Call(where, str(inner.get("name")), arguments, call.get("id") in failed)


def _smolagents_calls(steps: list[dict[str, Any]], memory_tool: str) -> Iterator[_Call]:
    for index, step in enumerate(steps):
        for number, call in enumerate(step.get("tool_calls") or ()):
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                raise ValueError(f"steps[{index}].tool_calls[{number}]: has no `function`")
            name, arguments = str(function.get("name")), function.get("arguments")
            where = f"steps[{index}].tool_calls[{number}]"
            if name == "python_interpreter" and f"{memory_tool}(" in str(arguments):
                raise ValueError(
                    f"{where}: a CodeAgent calls {memory_tool} within code, so what it wrote "
                    "cannot be read from the steps; log the terminal memory in a field of its own"
                )
            yield _Call(where, name, arguments, step.get("error") is not None)


def _final_output(steps: list[dict[str, Any]]) -> Any:
    """Give the output of the final answer; "" where there is none."""
    for step in reversed(steps):
        if step.get("is_final_answer"):
            return step.get("action_output")
        if set(step) == {"output"}:  # FinalAnswerStep
            return step["output"]
    return ""
