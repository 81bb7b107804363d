"""Exports: what a row holds, what travels, and what the card says."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from awm.analysis.export import COLUMNS, export_run
from awm.errors import ConfigError, MissingExtraError
from awm.evaluate import EvalSettings, evaluate
from awm.models.chat import ModelSettings
from towns import (
    agent_replies,
    read_jsonl,
    town,
    write_corpus,
    write_pdf,
    write_reader,
    write_script,
)

N = 3
HAS_ARROW = importlib.util.find_spec("pyarrow") is not None


@pytest.fixture(autouse=True)
async def _run(tmp_path: Path) -> None:
    """Make a run of three questions; the last episode fails."""
    write_corpus(tmp_path / "corpus", N)
    failing: list[dict[str, Any]] = [{"error": "timeout"}]
    write_script(tmp_path / "agent.jsonl", {0: agent_replies(0), 1: agent_replies(1), 2: failing})
    write_reader(tmp_path / "reader.jsonl", N)
    await evaluate(
        EvalSettings(
            benchmark="jsonl",
            data=tmp_path / "corpus",
            run=tmp_path / "run",
            model=ModelSettings(spec=f"scripted:{tmp_path / 'agent.jsonl'}"),
            reader=ModelSettings(spec=f"scripted:{tmp_path / 'reader.jsonl'}"),
        )
    )


def test_a_row_holds_the_conversation_the_memory_and_both_scores(tmp_path: Path) -> None:
    export_run(tmp_path / "run", "jsonl", tmp_path / "out")

    row = read_jsonl(tmp_path / "out" / "trajectories.jsonl")[0]
    assert list(row) == list(COLUMNS)
    assert row["question_id"] == "town-00"
    assert row["memory"][0]["text"] == f"The tower of {town(0)} is 100 metres high."
    assert (row["final_score"], row["memory_score"]) == (1.0, 1.0)
    assert row["outcome"] == "memory_supported_correct"
    assert json.loads(row["gold"]) == 100
    messages = json.loads(row["messages"])
    assert [m["role"] for m in messages][:4] == ["system", "user", "assistant", "tool"]
    assert messages[2]["tool_calls"][0]["function"]["name"] == "retrieve"
    assert [tool["function"]["name"] for tool in json.loads(row["tools"])] == [
        "retrieve",
        "update_memory",
    ]


def test_messages_are_text_whose_text_blocks_have_no_image_field(tmp_path: Path) -> None:
    export_run(tmp_path / "run", "jsonl", tmp_path / "out")

    blocks = [
        block
        for row in read_jsonl(tmp_path / "out" / "trajectories.jsonl")
        for message in json.loads(row["messages"])
        for block in message["content"]
    ]
    texts = [block for block in blocks if block["type"] == "text"]
    images = [block for block in blocks if block["type"] == "image"]
    assert texts
    assert all(set(block) == {"type", "text"} for block in texts)
    assert images
    assert all(set(b) == {"type", "page", "sha256", "width", "height"} for b in images)


def test_failed_episodes_are_left_out_and_counted(tmp_path: Path) -> None:
    done = export_run(tmp_path / "run", "jsonl", tmp_path / "out")

    assert (done.n_rows, done.n_left_out) == (2, {"the episode failed": 1})
    assert "2 of 3 questions (left out: 1: the episode failed)" in card_of(tmp_path / "out")


def card_of(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


def test_images_travel_as_the_files_that_the_agent_saw(tmp_path: Path) -> None:
    done = export_run(tmp_path / "run", "jsonl", tmp_path / "out", images=True)

    rows = read_jsonl(tmp_path / "out" / "trajectories.jsonl")
    shown = [
        block
        for row in rows
        for message in json.loads(row["messages"])
        for block in message["content"]
        if block["type"] == "image"
    ]
    assert shown
    assert done.n_images == len({block["sha256"] for block in shown})
    for block in shown:
        data = (tmp_path / "out" / block["path"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == block["sha256"]


def test_an_image_that_draws_differently_is_not_written(tmp_path: Path) -> None:
    write_pdf(tmp_path / "corpus" / "towns_00.pdf", [7, 8, 9])

    done = export_run(tmp_path / "run", "jsonl", tmp_path / "out", images=True)

    assert done.n_images == 0
    assert done.image_problems["DocumentError"] > 0
    assert "path" not in read_jsonl(tmp_path / "out" / "trajectories.jsonl")[0]["messages"]
    assert "not written: " in card_of(tmp_path / "out")


def test_the_card_warns_of_licence_and_contamination_and_names_no_path(tmp_path: Path) -> None:
    export_run(tmp_path / "run", "jsonl", tmp_path / "out")

    card = card_of(tmp_path / "out")
    assert card.startswith("---\npretty_name: ")
    assert "license: other" in card
    assert "Check its terms before you share this data or train on it." in card
    assert "evaluation questions with their gold answers" in card
    assert all(f"| `{column}` |" in card for column in COLUMNS)
    assert str(tmp_path / "corpus") not in card


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")

    with pytest.raises(ConfigError, match="is not empty"):
        export_run(tmp_path / "run", "jsonl", tmp_path / "out")

    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_an_export_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "run" / "episodes.jsonl").write_bytes(b"")
    before = sorted(path.name for path in tmp_path.iterdir())

    with pytest.raises(ConfigError, match=r"holds no finished episode: \{'not run': 3\}"):
        export_run(tmp_path / "run", "jsonl", tmp_path / "out")

    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.skipif(HAS_ARROW, reason="pyarrow is installed")
@pytest.mark.parametrize("to", ["parquet", "hf"])
def test_without_pyarrow_the_extra_is_named(tmp_path: Path, to: Any) -> None:
    with pytest.raises(MissingExtraError, match=r"pip install -e '\.\[export\]'"):
        export_run(tmp_path / "run", to, tmp_path / "out")

    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not HAS_ARROW, reason="pyarrow is not installed: the extra export")
def test_parquet_holds_the_rows_of_jsonl(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    export_run(tmp_path / "run", "jsonl", tmp_path / "lines")
    done = export_run(tmp_path / "run", "hf", tmp_path / "hub")

    rows = parquet.read_table(str(done.file)).to_pylist()

    assert done.file == tmp_path / "hub" / "data" / "train-00000-of-00001.parquet"
    assert rows == read_jsonl(tmp_path / "lines" / "trajectories.jsonl")
    assert "path: data/train-00000-of-00001.parquet" in card_of(tmp_path / "hub")
