"""The improved memory of a controlled comparison: written by another model from the gold pages.

The writer sees the question and the images of the gold pages, not the gold answer, and writes
findings under the agent's own rules: `WorkingMemory` refuses what is empty, over the limits, or
cites a page that is not among those pages. Refusals are told to the writer, which may write again
once; what is refused then is lost and counted. A file of improved memories passes the same checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict

from awm.agent.episode import CallRecord, ErrorRecord, record_call, record_error
from awm.agent.reasoning import split_reasoning
from awm.errors import AwmError, DataError, MissingImageError, ToolError
from awm.faults import reason
from awm.memory import MAX_FINDING_WORDS, Finding, WorkingMemory
from awm.models.chat import ChatModel, Message, TextBlock, count_images, text_message
from awm.models.wire import without_lone_surrogates

MAX_FINDINGS = 12
"""Most findings of one memory: the agent's turn limit, which bounds its own memory, too."""
MAX_ATTEMPTS = 2
MAX_REPLY_CHARACTERS = 100_000
MAX_SHOWN_ENTRY = 200
"""Characters of a refused finding that its refusal quotes."""

WRITER_SYSTEM = """\
You take notes for someone who will answer a question about a document without seeing it. You see \
the pages that matter as images, each labelled with its page number, and the question.

Write the findings that are needed to answer: each one a specific fact with its names, numbers and \
units, and the number of the page it stands on. At most {max_words} words a finding, at most \
{max_findings} findings. If the answer has to be counted, compared or calculated, write down every \
value that it takes. Write what the pages say; do not write what they do not say.

Reply with one JSON object and nothing else:
{{"findings": [{{"page": 4, "finding": "Sales in Norway were 4.7 million euros in 2020."}}]}}"""

WRITER_USER = "Question: {question}"

WRITER_AGAIN = """\
These were not accepted:
{refusals}
Write again what was not accepted, as a JSON object of the same form. What was accepted is kept."""

_FENCE = re.compile(r"^```(?:json)?\s*\n(.*?)\n?```$", re.DOTALL)


class MemoryWrite(BaseModel):
    """The record of one improved memory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question_id: str
    findings: tuple[Finding, ...]
    """Those that were accepted; empty where none was. `turn` is the attempt, from 0."""
    refusals: tuple[str, ...] = ()
    """Every refusal, of both attempts, as the writer was told."""
    n_lost: int = 0
    """Refusals of the last attempt: findings, or whole replies, that are not in the memory."""
    replies: tuple[str, ...] = ()
    """What the writer wrote, unparsed."""
    calls: tuple[CallRecord, ...] = ()
    error: ErrorRecord | None = None
    """Set where the writer gave no reply or the pages cannot be shown: unmeasured."""


def writer_messages(question: str, pages: Message) -> tuple[Message, Message]:
    """Give what the writer is told.

    Args:
        question: the question's text.
        pages: a user message with the labelled images of the gold pages.
    """
    system = WRITER_SYSTEM.format(max_words=MAX_FINDING_WORDS, max_findings=MAX_FINDINGS)
    asked = TextBlock(WRITER_USER.format(question=question))
    return text_message("system", system), Message("user", (*pages.content, asked))


async def write_memory(
    question_id: str,
    question: str,
    pages: Message,
    page_numbers: Collection[int],
    writer: ChatModel,
) -> MemoryWrite:
    """Let `writer` write a memory from `pages`.

    Args:
        question_id: for the record.
        question: the question's text.
        pages: a user message with the labelled images of the gold pages.
        page_numbers: those pages.
        writer: the model.

    Returns:
        The record; an endpoint's failure is in it (unmeasured), not raised.
    """
    memory = WorkingMemory(page_numbers)
    memory.mark_shown(page_numbers)
    messages: list[Message] = list(writer_messages(question, pages))
    refusals: list[str] = []
    lost: list[str] = []
    replies: list[str] = []
    calls: list[CallRecord] = []
    error: ErrorRecord | None = None
    try:
        for attempt in range(MAX_ATTEMPTS):
            reply, call = await _ask(writer, messages)
            calls.append(call)
            replies.append(without_lone_surrogates(reply))
            lost = _add_findings(memory, reply, attempt)
            refusals += lost
            if not lost:
                break
            told = WRITER_AGAIN.format(refusals="\n".join(f"- {refusal}" for refusal in lost))
            messages += [text_message("assistant", reply), text_message("user", told)]
    except AwmError as problem:
        error = record_error(problem)
    return MemoryWrite(
        question_id=question_id,
        findings=() if error else memory.snapshot(),
        refusals=tuple(refusals),
        n_lost=0 if error else len(lost),
        replies=tuple(replies),
        calls=tuple(calls),
        error=error,
    )


async def _ask(writer: ChatModel, messages: list[Message]) -> tuple[str, CallRecord]:
    completion = await writer.complete(tuple(messages))
    if completion.images_sent != count_images(messages):
        raise MissingImageError(
            f"the writer's request holds {count_images(messages)} page images and carried "
            f"{completion.images_sent}: it did not see the pages"
        )
    reply, _ = split_reasoning(completion.message.text)
    return reply, record_call(completion)


def _add_findings(memory: WorkingMemory, reply: str, attempt: int) -> list[str]:
    """Add what a reply writes; give the refusals."""
    try:
        written = parse_findings(reply)
    except ToolError as error:
        return [str(error)]
    refusals = []
    for entry in written:
        try:
            page, text = _check_entry(entry)
            if len(memory) >= MAX_FINDINGS:
                raise ToolError(f"There are {MAX_FINDINGS} findings already; that is the limit.")
            memory.add(text, page, attempt)
        except ToolError as error:
            shown = json.dumps(entry, ensure_ascii=False)[:MAX_SHOWN_ENTRY]
            refusals.append(without_lone_surrogates(f"{shown}: {error}"))
    return refusals


def refusal_reason(refusal: str) -> str:
    r"""Give a refusal without the finding that was refused, which precedes it.

    >>> refusal_reason('{"page": 9, "finding": "x"}: There is no page 9 here. Nothing was saved.')
    'There is no page 9 here. Nothing was saved.'
    """
    try:
        _, end = json.JSONDecoder().raw_decode(refusal)
    except (ValueError, RecursionError):
        end = MAX_SHOWN_ENTRY  # what is longer was cut
    return refusal[end + 2 :] if refusal[end : end + 2] == ": " else refusal


def parse_findings(reply: str) -> list[Any]:
    """Parse a writer's reply: a JSON object whose only key is "findings", fenced or not.

    Raises:
        ToolError: it is anything else; the text is written for the model.
    """
    text = reply.strip()
    fenced = _FENCE.match(text)
    if len(text) > MAX_REPLY_CHARACTERS:
        raise ToolError(f"The reply has {len(text)} characters; that is too long.")
    try:
        value = json.loads(fenced.group(1) if fenced else text)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"The reply is not one JSON object ({error}).") from error
    if not isinstance(value, dict) or set(value) != {"findings"}:
        raise ToolError('The reply must be a JSON object with the key "findings" alone.')
    findings = value["findings"]
    if not isinstance(findings, list) or not findings:
        raise ToolError('"findings" must be a list that is not empty.')
    return findings


def _check_entry(entry: Any) -> tuple[int, str]:
    if not isinstance(entry, dict) or set(entry) != {"page", "finding"}:
        raise ToolError('A finding must be an object with exactly "page" and "finding".')
    page, text = entry["page"], entry["finding"]
    if not isinstance(page, int) or isinstance(page, bool):
        raise ToolError("page must be a whole number such as 5.")
    if not isinstance(text, str):
        raise ToolError("finding must be a text.")
    return page, without_lone_surrogates(text)


def read_improved_file(path: Path, page_counts: Mapping[str, int | None]) -> dict[str, MemoryWrite]:
    """Read improved memories: JSONL rows of `question_id` and `findings` of `page` and `finding`.

    Args:
        path: the file.
        page_counts: by question id, the pages of its document; None where that is not known.
            Rows of other questions are passed over.

    Raises:
        DataError: a row is not of that form, a finding breaks the memory's rules, or a question
            stands twice; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {reason(error)}") from error
    writes: dict[str, MemoryWrite] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        row = _improved_row(line, where)
        id_ = row["question_id"]
        if id_ in writes:
            raise DataError(f"{where}: question {id_!r} stands twice")
        if id_ in page_counts:
            writes[id_] = _improved_memory(row, page_counts[id_], where)
    return writes


def _improved_row(line: str, where: str) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON: {error}") from error
    if not isinstance(row, dict) or set(row) != {"question_id", "findings"}:
        raise DataError(f"{where}: a row must hold exactly question_id and findings")
    if not isinstance(row["question_id"], str) or not isinstance(row["findings"], list):
        raise DataError(f"{where}: question_id must be text, and findings a list")
    return row


def _improved_memory(row: dict[str, Any], page_count: int | None, where: str) -> MemoryWrite:
    pages = [entry.get("page") for entry in row["findings"] if isinstance(entry, dict)]
    whole = [page for page in pages if isinstance(page, int) and page > 0]
    allowed = range(1, 1 + (page_count or max(whole, default=0)))
    memory = WorkingMemory(allowed)
    memory.mark_shown(allowed)
    for index, entry in enumerate(row["findings"]):
        try:
            page, text = _check_entry(entry)
            memory.add(text, page, 0)
        except ToolError as error:
            raise DataError(f"{where}, findings[{index}]: {error}") from error
    return MemoryWrite(question_id=row["question_id"], findings=memory.snapshot())
