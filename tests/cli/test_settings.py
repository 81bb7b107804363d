"""Flags, --set and TOML files: each says everything, and flags win."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awm.cli.eval import eval_settings
from awm.errors import ConfigError

FLAGS: dict[str, Any] = {"benchmark": "demo", "run": Path("r"), "model": "lexical"}

CONFIG = """
benchmark = "demo"
run = "runs/x"
model = "lexical"
limit = 5
setting = "agent"

[reader]
spec = "openai:Qwen/Qwen3-14B@http://localhost:8001/v1"
temperature = 0.0
max_tokens = 512
extra_body = { chat_template_kwargs = { enable_thinking = false } }

[agent]
max_turns = 6
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "eval.toml"
    path.write_text(CONFIG)
    return path


def test_a_toml_file_alone_says_everything(config: Path) -> None:
    settings = eval_settings(config, {}, [])

    assert settings.run == Path("runs/x")
    assert settings.model.spec == "lexical"
    assert settings.reader is not None
    assert settings.reader.max_tokens == 512
    assert settings.reader.extra_body == {"chat_template_kwargs": {"enable_thinking": False}}
    assert (settings.limit, settings.agent.max_turns) == (5, 6)


def test_flags_win_over_the_file_and_assignments_over_flags(config: Path) -> None:
    flags = {"reader": "lexical", "limit": 7, "concurrency": None}

    settings = eval_settings(config, flags, ["limit=9", "reader.temperature = 0.5"])

    assert settings.reader is not None
    assert (settings.reader.spec, settings.reader.temperature) == ("lexical", 0.5)
    assert settings.reader.max_tokens == 512
    assert (settings.limit, settings.concurrency) == (9, 8)


def test_every_setting_of_the_file_can_be_assigned() -> None:
    name = "reader.extra_body.chat_template_kwargs.enable_thinking"

    settings = eval_settings(
        None,
        FLAGS,
        [
            f"{name}=false",
            "reader.spec=openai:m@http://localhost:1/v1",
            "agent.view_pages=true",
            'questions=["demo-01"]',
        ],
    )

    assert settings.reader is not None
    assert settings.reader.extra_body == {"chat_template_kwargs": {"enable_thinking": False}}
    assert settings.agent.view_pages
    assert settings.questions == ("demo-01",)


@pytest.mark.parametrize(
    ("flags", "assignments"),
    [({"reader": "none"}, []), ({}, ["reader=none"]), ({}, ["reader.spec=none"])],
)
def test_a_reader_may_be_none_however_it_is_said(
    flags: dict[str, Any], assignments: list[str]
) -> None:
    assert eval_settings(None, FLAGS | flags, assignments).reader is None


def test_a_missing_reader_is_asked_for_and_not_by_a_baseline() -> None:
    with pytest.raises(ConfigError, match=r"reader: missing \(give --reader or reader = … in"):
        eval_settings(None, FLAGS | {"reader": None}, [])

    assert eval_settings(None, FLAGS | {"setting": "rag"}, []).reader is None


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("limit", "--set 'limit': write name=value"),
        ("=3", "--set '=3': write name=value"),
        ("limit=[1", "'[1' is not a TOML value"),
        ("limit=0", "limit: 0 is out of range: it must be at least 1"),
        ("limits=3", "limits: no such setting; did you mean 'limit'?"),
        (
            "reader.temprature=0",
            "reader.temprature: no such setting; did you mean 'temperature'?",
        ),
        ("agent.topk=4", "agent.topk: no such setting; did you mean 'top_k'?"),
        ("max_turns=4", "max_turns: no such setting; did you mean agent.max_turns?"),
        ("limit=1.5", "limit: 1.5 is a number, not a whole number"),
        ("agent=3", "agent: 3 is a number, not a table with fields"),
        ("limit.x=1", "limit: is a table, not a whole number"),
        ("setting=other", "setting: 'other' is none of agent, ep-given, direct, rag"),
        ("benchmark.x=1", "benchmark.x: benchmark is 'demo' and has no settings of its own"),
    ],
)
def test_what_cannot_be_used_is_named(assignment: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        eval_settings(None, FLAGS | {"reader": "lexical"}, [assignment])

    assert complaint in str(refused.value)


def test_every_unknown_key_of_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "eval.toml"
    path.write_text('reader = "lexical"\nbenchmrk = "demo"\n[model]\nspec = "lexical"\nkey = "k"\n')

    with pytest.raises(ConfigError) as refused:
        eval_settings(path, {"run": Path("r")}, [])

    assert "benchmark: missing (give benchmark = … in the TOML file)" in str(refused.value)
    assert "benchmrk: no such setting; did you mean 'benchmark'?" in str(refused.value)
    assert "model.key: no such setting" in str(refused.value)


def test_all_that_is_missing_is_named_at_once_with_its_flag() -> None:
    flags = dict.fromkeys(("benchmark", "data", "model", "reader", "run"))

    with pytest.raises(ConfigError) as nothing:
        eval_settings(None, flags, [])
    with pytest.raises(ConfigError) as own_data:
        eval_settings(None, flags | {"benchmark": "jsonl"}, [])

    for name in ("benchmark", "model", "reader"):
        assert f"  {name}: missing (give --{name} or {name} = … in the TOML" in str(nothing.value)
    assert "data: missing" not in str(nothing.value)
    assert "data: missing (give --data or data = … in the TOML file); the folder or file that" in (
        str(own_data.value)
    )


def test_a_fault_of_the_whole_does_not_print_the_settings() -> None:
    with pytest.raises(ConfigError) as refused:
        eval_settings(None, FLAGS | {"reader": "none"}, ["reader_samples=2"])

    assert str(refused.value) == (
        "settings that cannot be used:\n  further readers and samples need a first reader"
    )


def test_a_key_in_the_wrong_place_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "eval.toml"
    path.write_text('reader = "lexical"\n[model]\nspec = "lexical"\napi_key = "sk-secret"\n')

    with pytest.raises(ConfigError) as refused:
        eval_settings(path, FLAGS, [])

    assert "sk-secret" not in str(refused.value)


@pytest.mark.parametrize("content", [None, b"limit = ", b"\xff"])
def test_a_file_that_is_not_there_or_no_toml_is_named(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "eval.toml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=r"config .*eval\.toml"):
        eval_settings(path, FLAGS, [])
