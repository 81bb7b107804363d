"""Extraction: the originals' messages, and a parser that reads what models really reply."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.errors import ConfigError, EndpointReplyError
from awm.models.scripted import Script, ScriptedModel
from awm.scoring.extraction import (
    ExtractionPrompt,
    extract_answer,
    extraction_messages,
    parse_labelled,
    parse_tagged,
)

LABELLED = ExtractionPrompt("Shorten it.", "labelled", "test")
TAGGED = ExtractionPrompt("Shorten it.", "tagged", "test")


def test_the_labelled_form_sends_the_prompt_as_user_and_the_analysis_as_assistant() -> None:
    messages = extraction_messages("How many?", "There are 5.", LABELLED)

    assert [(message.role, message.text) for message in messages] == [
        ("user", "Shorten it."),
        ("assistant", "\n\nQuestion:How many?\nAnalysis:There are 5.\n"),
    ]


def test_the_tagged_form_sends_all_in_one_user_turn() -> None:
    messages = extraction_messages("How many?", "There are 5.", TAGGED)

    assert [(message.role, message.text) for message in messages] == [
        ("user", "Shorten it.\nQuestion: How many?\nAnalysis: There are 5.")
    ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Extracted answer: 12\nAnswer format: Integer", ("12", "Integer")),
        ("Extracted answer: 12 Answer format: Integer", ("12", "Integer")),
        ("Extracted answer:\n12\nAnswer format:\nInteger", ("12", "Integer")),
        ("**Extracted answer:** 12\n**Answer format:** Integer", ("12", "Integer")),
        ("**Extracted answer**: 12\n**Answer format**: Integer", ("12", "Integer")),
        ("**Extracted answer: 12**\n**Answer format: Integer**", ("12", "Integer")),
        ("**Extracted answer:** 5 **Answer format:** Integer", ("5", "Integer")),
        ("Extracted answer: **12**\nAnswer format: `Integer`", ("12", "Integer")),
        ("`Extracted answer: 12`", ("12", None)),
        ("- **Extracted answer**: a b\n- **Answer format**: String", ("a b", "String")),
        ("> ## Extracted answer: x\n> ## Answer format: String", ("x", "String")),
        ("extracted answer: 5%\nANSWER FORMAT: Float", ("5%", "Float")),
        (
            "Here it is.\n\nExtracted answer: 12\nAnswer format: Integer\nBye.",
            ("12", "Integer"),
        ),
        ("Extracted answer: 12\n\nThis is on page 3.", ("12", None)),
        ("Extracted answer: 12", ("12", None)),
        ("Extracted answer: ['a',\n 'b']\nAnswer format: List", ("['a',\n 'b']", "List")),
        ("Extracted answer: ['a',\n ['b']]\nI hope it helps.", ("['a',\n ['b']]", None)),
        ("Extracted answer: [a, b\nand c", ("[a, b", None)),
        ("Extracted answer: 2 * 3\nAnswer format: String", ("2 * 3", "String")),
        ("Extracted answer: __init__\nAnswer format: String", ("__init__", "String")),
        ("<think>Extracted answer: 9</think>Extracted answer: 5", ("5", None)),
        ("Extracted answer: 5\nAnswer format: Integer\n<think>or 6", ("5", "Integer")),
    ],
)
def test_a_labelled_reply_is_read(reply: str, expected: tuple[str, str | None]) -> None:
    assert parse_labelled(reply) == expected


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Extracted answer: A\nAnswer format: String\n\nExtracted answer: B", "A"),
        ("Extracted answer: A\nExtracted answer: B\nAnswer format: String", "A"),
        ("The extracted answer: must be short.\nExtracted answer: A", "A"),
        ("So Extracted answer: A\nmore", "A"),
    ],
)
def test_of_several_labels_the_first_counts_and_one_at_a_line_start_before_others(
    reply: str, answer: str
) -> None:
    assert parse_labelled(reply)[0] == answer


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("", 'no "Extracted answer:"'),
        ("12", 'no "Extracted answer:"'),
        ("Answer format: Integer", 'no "Extracted answer:"'),
        ("Answer: 12\nAnswer format: Integer", 'no "Extracted answer:"'),
        ("<think>Extracted answer: 12", 'no "Extracted answer:"'),
        ("Extracted answer:\nAnswer format: None", "is empty"),
        ("Extracted answer:", "is empty"),
        ("**Extracted answer:** **\n", "is empty"),
    ],
)
def test_a_labelled_reply_without_an_answer_is_a_failure(reply: str, message: str) -> None:
    with pytest.raises(EndpointReplyError, match=message):
        parse_labelled(reply)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            "<concise_answer>12</concise_answer>\n<answer_format>Integer</answer_format>",
            ("12", "Integer"),
        ),
        ("Well: <concise_answer>\n['a',\n'b']\n</concise_answer> bye", ("['a',\n'b']", None)),
        ("<CONCISE_ANSWER>x</CONCISE_ANSWER>", ("x", None)),
        ("<concise_answer>A</concise_answer><concise_answer>B</concise_answer>", ("A", None)),
        (
            "<think><concise_answer>A</concise_answer></think><concise_answer>B</concise_answer>",
            ("B", None),
        ),
        ("<concise_answer>x</concise_answer><answer_format></answer_format>", ("x", None)),
    ],
)
def test_a_tagged_reply_is_read(reply: str, expected: tuple[str, str | None]) -> None:
    assert parse_tagged(reply) == expected


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("12", "no <concise_answer>"),
        ("<concise_answer>12", "no <concise_answer>"),
        ("</concise_answer>12<concise_answer>", "no <concise_answer>"),
        ("<concise_answer> </concise_answer>", "is empty"),
    ],
)
def test_a_tagged_reply_without_a_whole_element_is_a_failure(reply: str, message: str) -> None:
    with pytest.raises(EndpointReplyError, match=message):
        parse_tagged(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "*" * 1_000_000,
        "extracted answer" + "*" * 1_000_000,
        "extracted " + " " * 1_000_000,
        "extracted answer:" * 60_000,
        "Extracted answer: " + "[" * 1_000_000,
        "Extracted answer: " + "**" * 500_000,
        "answer format:" * 70_000,
        "<concise_answer>" * 60_000,
        "<think>" * 140_000,
    ],
)
def test_hostile_replies_take_bounded_time(reply: str) -> None:
    for parse in (parse_labelled, parse_tagged):
        start = time.perf_counter()
        try:
            answer, _ = parse(reply)
        except EndpointReplyError:
            answer = "-"
        assert answer
        assert time.perf_counter() - start < 1.0


@given(st.text(alphabet="ab1*_`[]<>/:\n -", max_size=60))
def test_any_text_between_the_labels_gives_an_answer_or_a_failure(text: str) -> None:
    try:
        answer, named = parse_labelled(f"Extracted answer: {text}\nAnswer format: String")
    except EndpointReplyError:
        return
    assert answer == answer.strip() != ""
    assert named == "String"


async def test_reply_and_parse_are_kept() -> None:
    reply = "**Extracted answer:** 5\nAnswer format: Integer"
    model = ScriptedModel([Script(replies=("", reply))])

    extraction = await extract_answer("How many?", "There are 5.", model, LABELLED)

    assert (extraction.raw, extraction.answer, extraction.answer_format) == (reply, "5", "Integer")
    assert extraction.error is None
    assert model.conversations == [extraction_messages("How many?", "There are 5.", LABELLED)]


async def test_a_reply_without_tags_keeps_the_reply_and_says_why() -> None:
    model = ScriptedModel([Script(replies=("five",))])

    extraction = await extract_answer("How many?", "There are 5.", model, TAGGED)

    assert (extraction.raw, extraction.answer) == ("five", None)
    assert extraction.error == "EndpointReplyError: the extractor gave no <concise_answer>: 'five'"


async def test_an_extractor_that_fails_leaves_no_reply() -> None:
    model = ScriptedModel([])

    extraction = await extract_answer("How many?", "There are 5.", model, TAGGED)

    assert (extraction.raw, extraction.answer) == (None, None)
    assert extraction.error is not None
    assert extraction.error.startswith("EndpointReplyError: no script matches")


def test_the_digest_names_a_prompt_by_its_text(tmp_path: Path) -> None:
    file = tmp_path / "official.md"
    file.write_text("Shorten it.", encoding="utf-8")

    prompt = ExtractionPrompt.from_file(file, "tagged")

    # sha256("Shorten it."), first 16 hex digits
    assert (prompt.source, prompt.digest) == ("official.md", LABELLED.digest)
    assert prompt.digest != ExtractionPrompt.own("tagged").digest
    assert len(prompt.digest) == 16


def test_an_empty_or_missing_prompt_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text(" \n")

    with pytest.raises(ConfigError, match=r"empty\.md is empty"):
        ExtractionPrompt.from_file(tmp_path / "empty.md", "labelled")
    with pytest.raises(ConfigError, match=r"gone\.md"):
        ExtractionPrompt.from_file(tmp_path / "gone.md", "labelled")
