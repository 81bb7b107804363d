r"""Extraction: a model turns a free-form answer into the short form that a judge can compare.

The benchmarks do this with a large model before scoring, so the extractor is part of a result's
name: two results with different extractors are two measurements. The official prompts are not
ours to ship; `ExtractionPrompt.from_file` takes the user's copy, and without it AWM's own prompt
with the same contract is used.

The messages are the originals': MMLongBench-Doc (`eval/extract_answer.py`) sends the prompt as a
user turn, question and analysis as an assistant turn after it; LongDocURL
(`eval/api_models/eval_api_models.py`) sends all three in one user turn. Its API models get a system
sentence in front of the prompt: who wants it puts it into the prompt file.

The first label or element counts, as in the originals. Where they misread or crash, we deviate:
reasoning and bold markers are taken off, labels may be in another case, a label that begins a line
goes before one in the middle of prose, and prose after an answer that no "Answer format:" ends is
left out. A reply without the label, or with nothing behind it, is
a failure (unmeasured), never an answer and never 0.

>>> parse_labelled("Extracted answer: **12**\nAnswer format: Integer")
('12', 'Integer')
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from awm.errors import AwmError, ConfigError, EndpointError, EndpointReplyError
from awm.faults import reason
from awm.models.chat import ChatModel, Message, text_message

ReplyForm = Literal["labelled", "tagged"]
"""`labelled`: "Extracted answer: …" and "Answer format: …" (MMLongBench-Doc); `tagged`:
<concise_answer> and <answer_format> elements (LongDocURL)."""

_LABELLED_PROMPT = """\
Below, an assistant answers a question about a document. Reduce its analysis to the short answer.

Reply with exactly two lines:
Extracted answer: the short answer and nothing else
Answer format: one of Integer, String, List, Float

Rules:
- Take the answer from the analysis; do not answer the question yourself and do not correct it.
- A list is written like ['first', 'second'].
- If the analysis says that the document does not contain what is asked, write Not answerable.
- If the analysis gives no answer at all (it only says it could not read, or breaks off), write \
Fail to answer.

Example
Question: How many members did the club have in 1998?
Analysis: The table on page 7 lists 214 members for 1998.
Extracted answer: 214
Answer format: Integer
"""

_TAGGED_PROMPT = """\
Below, an assistant answers a question about a document. Reduce its analysis to the short answer.

Reply with exactly two elements:
<concise_answer>the short answer and nothing else</concise_answer>
<answer_format>one of Integer, String, List, Float, None</answer_format>

Rules:
- Take the answer from the analysis; do not answer the question yourself and do not correct it.
- Where the question names a range of pages, leave out what the analysis takes from other pages.
- A list is written like ['first', 'second'].
- If the analysis says that the document does not contain what is asked, write Not answerable, \
with the format None.
- If the analysis gives no answer at all, write Fail to answer, with the format None.
"""

# No pattern begins with a repetition: a search would try it anew at each character of a long run.
_ANSWER_LABEL = re.compile(r"extracted[ \t]+answer[*_`]*[ \t]*:[*_`]*", re.IGNORECASE)
_FORMAT_LABEL = re.compile(r"answer[ \t]+format[*_`]*[ \t]*:[*_`]*", re.IGNORECASE)
_BRACKET = re.compile(r"[\[\]]")
_MARKERS = ("**", "`")
_LINE_PREFIX = "*_`#>- \t"
_MAX_LINE_PREFIX = 16
_MAX_LIST_CHARS = 20_000
_TAGS = {
    name: (re.compile(rf"<{name}>", re.IGNORECASE), re.compile(rf"</{name}>", re.IGNORECASE))
    for name in ("concise_answer", "answer_format")
}


@dataclass(frozen=True, slots=True)
class ExtractionPrompt:
    """The instruction to an extractor."""

    text: str
    form: ReplyForm
    source: str
    """"awm" for ours, else the file's name."""

    @property
    def digest(self) -> str:
        """SHA-256 of the text, the first 16 hex digits: part of a result's name."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @classmethod
    def own(cls, form: ReplyForm) -> ExtractionPrompt:
        """Give AWM's own prompt."""
        return cls(_LABELLED_PROMPT if form == "labelled" else _TAGGED_PROMPT, form, "awm")

    @classmethod
    def from_file(cls, path: Path, form: ReplyForm) -> ExtractionPrompt:
        """Read the official prompt from the user's copy of the benchmark's repository.

        Raises:
            ConfigError: the file cannot be read or is empty.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"extraction prompt {path}: {reason(error)}") from error
        if not text.strip():
            raise ConfigError(f"extraction prompt {path} is empty")
        return cls(text, form, path.name)


class Extraction(BaseModel):
    """The record of one extraction."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    raw: str | None
    """The extractor's reply; None where none came."""
    answer: str | None
    """The short answer; None where the extraction failed."""
    answer_format: str | None = None
    """The format that the extractor named; the judge uses the gold's."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None
    """"Type: message" where it failed."""


def extraction_messages(
    question: str, analysis: str, prompt: ExtractionPrompt
) -> tuple[Message, ...]:
    """Give what the extractor is sent, in the roles of the benchmark's own code."""
    if prompt.form == "labelled":
        return (
            text_message("user", prompt.text),
            text_message("assistant", f"\n\nQuestion:{question}\nAnalysis:{analysis}\n"),
        )
    text = f"{prompt.text}\nQuestion: {question}\nAnalysis: {analysis}"
    return (text_message("user", text),)


async def extract_answer(
    question: str, analysis: str, model: ChatModel, prompt: ExtractionPrompt
) -> Extraction:
    """Reduce `analysis` to its short answer.

    Returns:
        The record; a failure is in it, not raised.
    """
    raw: str | None = None
    try:
        completion = await model.complete(extraction_messages(question, analysis, prompt))
        raw = completion.message.text
        parse = parse_labelled if prompt.form == "labelled" else parse_tagged
        answer, answer_format = parse(raw)
    except EndpointError as error:
        return Extraction(raw=raw, answer=None, error=_describe(error))
    return Extraction(
        raw=raw,
        answer=answer,
        answer_format=answer_format,
        prompt_tokens=completion.usage.prompt_tokens,
        completion_tokens=completion.usage.completion_tokens,
    )


def _describe(error: AwmError) -> str:
    return f"{type(error).__name__}: {error}"


def parse_labelled(reply: str) -> tuple[str, str | None]:
    """Read "Extracted answer: …" and "Answer format: …", in bold or not, amid other prose.

    Returns:
        The answer, and the format that was named, None without one.

    Raises:
        EndpointReplyError: the answer's label is missing, or nothing stands behind it.
    """
    visible = _without_reasoning(reply)
    label = _find_answer_label(visible)
    if label is None:
        raise EndpointReplyError(f'the extractor gave no "Extracted answer:": {reply[:300]!r}')
    rest = visible[label.end() :]
    named = _FORMAT_LABEL.search(rest)
    again = _ANSWER_LABEL.search(rest)
    ends = [found.start() for found in (named, again) if found]
    answer = _without_markers(rest[: min(ends)] if ends else _leading_answer(rest))
    if not answer:
        raise EndpointReplyError(f"the extracted answer is empty: {reply[:300]!r}")
    format_line = rest[named.end() :].strip().partition("\n")[0] if named else ""
    return answer, _without_markers(format_line) or None


def parse_tagged(reply: str) -> tuple[str, str | None]:
    """Read the first <concise_answer> and <answer_format> elements.

    Returns:
        The answer, and the format that was named, None without one.

    Raises:
        EndpointReplyError: there is no whole <concise_answer> element, or it is empty.
    """
    visible = _without_reasoning(reply)
    answer = _element(visible, "concise_answer")
    if answer is None:
        raise EndpointReplyError(f"the extractor gave no <concise_answer>: {reply[:300]!r}")
    if not answer:
        raise EndpointReplyError(f"the extracted answer is empty: {reply[:300]!r}")
    return answer, _element(visible, "answer_format") or None


def _find_answer_label(text: str) -> re.Match[str] | None:
    """Find the first label that begins a line, bullets and bold markers aside, else the first."""
    first: re.Match[str] | None = None
    for label in _ANSWER_LABEL.finditer(text):
        before = text[max(0, label.start() - _MAX_LINE_PREFIX) : label.start()]
        _, newline, line_prefix = before.rpartition("\n")
        reaches_line_start = bool(newline) or len(before) == label.start()
        if reaches_line_start and not line_prefix.strip(_LINE_PREFIX):
            return label
        first = first or label
    return first


def _leading_answer(text: str) -> str:
    """Cut the prose after an answer that nothing ends: a list at its bracket, else one line."""
    indent = len(text) - len(text.lstrip())
    line_end = text.find("\n", indent)
    line_end = len(text) if line_end < 0 else line_end
    if text[indent : indent + 1] == "[":
        depth = 0
        for bracket in _BRACKET.finditer(text, 0, _MAX_LIST_CHARS):
            depth += 1 if bracket.group() == "[" else -1
            if depth == 0:
                return text[: bracket.end()]
    return text[:line_end]


def _without_reasoning(reply: str) -> str:
    """Drop think blocks; what follows an opening tag without a closing one is reasoning, too."""
    return reply.rpartition("</think>")[2].partition("<think>")[0]


def _element(text: str, name: str) -> str | None:
    opening, closing = _TAGS[name]
    start = opening.search(text)
    end = closing.search(text, start.end()) if start else None
    return text[start.end() : end.start()].strip() if start and end else None


def _without_markers(text: str) -> str:
    """Take off bold and code markers around the text, and those of a label beside it."""
    head, newline, last_line = text.rpartition("\n")
    if newline and not last_line.strip(_LINE_PREFIX):
        text = head  # the markers in front of the next line's label
    text = text.strip()
    if not text.strip("*` "):
        return ""
    for marker in _MARKERS:
        if text.startswith(marker) and text.endswith(marker):
            return text[len(marker) : -len(marker)].strip()
        if text.endswith(marker) and text.count(marker) % 2:
            return text[: -len(marker)].rstrip()
    return text
