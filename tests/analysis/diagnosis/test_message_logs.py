from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awm.analysis.diagnosis.message_logs import langgraph_converter, smolagents_converter

GOLD = {"gold": 12, "format": "Int", "document": "d"}


def note(
    text: str, page: object = 3, id_: str = "c1", name: str = "update_memory"
) -> dict[str, Any]:
    return {"name": name, "args": {"text": text, "page": page}, "id": id_, "type": "tool_call"}


def dumped() -> list[dict[str, Any]]:
    return [
        {"type": "system", "content": "You read documents."},
        {"type": "human", "content": "How many trams?"},
        {"type": "ai", "content": "", "tool_calls": [note("12 trams"), note("x", 99, "c2")]},
        {"type": "tool", "content": "saved", "tool_call_id": "c1", "status": "success"},
        {"type": "tool", "content": "no page 99", "tool_call_id": "c2", "status": "error"},
        {"type": "ai", "content": [{"type": "text", "text": "Answer: 12"}], "tool_calls": []},
    ]


def as_dicts() -> list[dict[str, Any]]:
    return [{"type": message["type"], "data": message} for message in dumped()]


def as_constructors() -> list[dict[str, Any]]:
    names = {"system": "System", "human": "Human", "ai": "AI", "tool": "Tool"}
    return [
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", f"{names[message['type']]}Message"],
            "kwargs": message,
        }
        for message in dumped()
    ]


def as_openai() -> list[dict[str, Any]]:
    call = {"name": "update_memory", "arguments": '{"finding": "12 trams", "page": "3"}'}
    return [
        {"role": "system", "content": "You read documents."},
        {"role": "user", "content": "How many trams?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": call}],
        },
        {"role": "tool", "content": "saved", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Answer: 12"},
    ]


@pytest.mark.parametrize("messages", [dumped(), as_dicts(), as_constructors(), as_openai()])
def test_langgraph_messages_become_a_row_in_every_serialisation(
    messages: list[dict[str, Any]],
) -> None:
    row = langgraph_converter()({"messages": messages, **GOLD})

    assert row["question"] == "How many trams?"
    assert row["answer"] == "Answer: 12"
    assert row["memory"] == [{"text": "12 trams", "page": 3}]
    assert row["gold"] == 12
    assert "messages" not in row


def test_refused_writes_are_counted_and_not_remembered() -> None:
    assert langgraph_converter()({"messages": dumped()})["refused_writes"] == 1


def test_an_agent_that_stopped_within_its_calls_gave_no_answer() -> None:
    assert langgraph_converter()({"messages": dumped()[:-1]})["answer"] == ""


def test_the_final_state_can_hold_the_memory_itself() -> None:
    convert = langgraph_converter(memory_field="notes")

    assert convert({"messages": dumped(), "notes": ["12 trams"]})["memory"] == ["12 trams"]
    with pytest.raises(ValueError, match="notes: missing"):
        convert({"messages": dumped()})


def test_what_the_object_says_wins_over_the_messages() -> None:
    raw = {"messages": dumped(), "question": "Q", "answer": "A", "memory": "M"}

    row = langgraph_converter()(raw)

    assert (row["question"], row["answer"], row["memory"]) == ("Q", "A", "M")


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ({}, "messages: missing, empty or not a list"),
        ({"messages": []}, "messages: missing, empty or not a list"),
        ({"messages": ["hello"]}, r"messages\[0\]: not an object"),
        ({"messages": [{"type": "ai", "content": "12"}]}, "no human message has text"),
        (
            {"messages": [{"type": "human", "content": "Q"}, {"type": "ai", "tool_calls": ["x"]}]},
            r"messages\[1\].tool_calls",
        ),
        (
            {
                "messages": [
                    {"type": "human", "content": "Q"},
                    {
                        "type": "ai",
                        "content": "",
                        "tool_calls": [{"name": "update_memory", "args": {"body": "x"}, "id": "1"}],
                    },
                ]
            },
            r"messages\[1\].tool_calls\[0\]: update_memory has the arguments body",
        ),
    ],
)
def test_a_langgraph_log_says_where_it_is_wrong(raw: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        langgraph_converter()(raw)


def steps() -> list[dict[str, Any]]:
    def call(name: str, arguments: Any) -> dict[str, Any]:
        function = {"name": name, "arguments": arguments}
        return {"id": "c", "type": "function", "function": function}

    return [
        {"task": "How many trams?", "task_images": None},
        {"plan": "look", "timing": {}},
        {
            "step_number": 1,
            "tool_calls": [call("save_note", {"note": "12 trams", "page_number": 3})],
            "error": None,
            "is_final_answer": False,
        },
        {
            "step_number": 2,
            "tool_calls": [call("save_note", {"note": "lost"})],
            "error": {"type": "AgentExecutionError", "message": "x"},
            "is_final_answer": False,
        },
        {
            "step_number": 3,
            "tool_calls": [call("final_answer", {"answer": 12})],
            "error": None,
            "action_output": 12,
            "is_final_answer": True,
        },
    ]


def test_smolagents_steps_become_a_row() -> None:
    row = smolagents_converter(memory_tool="save_note")({"steps": steps(), **GOLD})

    assert row == {
        "question": "How many trams?",
        "answer": 12,
        "memory": [{"text": "12 trams", "page": 3}],
        "refused_writes": 1,
        **GOLD,
    }


def test_smolagents_steps_without_a_final_answer_gave_none() -> None:
    assert smolagents_converter("save_note")({"steps": steps()[:-1]})["answer"] == ""


def test_notes_within_code_cannot_be_read_and_it_is_said() -> None:
    code = "for page in pages:\n    save_note(text=find(page), page=page)"
    raw = {"steps": [*steps()[:1], {"tool_calls": [{"function": {"name": "python_interpreter"}}]}]}
    raw["steps"][1]["tool_calls"][0]["function"]["arguments"] = code

    with pytest.raises(ValueError, match="a CodeAgent calls save_note within code"):
        smolagents_converter("save_note")(raw)
    assert smolagents_converter("save_note", "notes")(raw | {"notes": "12"})["memory"] == "12"


_KEYS = """type role content data kwargs id tool_calls function name args arguments text page
    tool_call_id status task output is_final_answer error"""
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "human", "ai", "note"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_KEYS.split()),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(record=st.lists(_json, max_size=4) | _json)
def test_any_record_becomes_a_row_or_a_complaint(record: object) -> None:
    for convert in (langgraph_converter("note"), smolagents_converter("note")):
        with contextlib.suppress(ValueError):
            assert isinstance(convert({"messages": record, "steps": record}), dict)
