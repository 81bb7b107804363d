from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from awm.benchmarks import load_benchmark
from awm.cli.main import app
from awm.errors import ConfigError, MissingExtraError
from awm.models.build import build_model
from awm.models.chat import ModelSettings

runner = CliRunner()


def test_the_benchmark_needs_no_data_and_takes_a_seed(tmp_path: Path) -> None:
    result = runner.invoke(
        app,
        f"eval --benchmark pocket --seed 3 --limit 4 --model lexical --reader lexical "
        f"--run {tmp_path / 'run'} --cache-dir {tmp_path / 'cache'}",
    )

    assert result.exit_code == 0, result.output
    assert "4 of 4 questions measured" in result.output


def test_another_seed_is_another_benchmark() -> None:
    one, other, same = (load_benchmark("pocket", None, seed=seed) for seed in (1, 2, 1))

    assert one.dataset_hash == same.dataset_hash != other.dataset_hash
    assert len(one.examples) == 1200
    assert not one.problems
    assert not {e.question.id for e in one.examples} & {e.question.id for e in other.examples}


def test_blank_paper_asks_the_same_questions() -> None:
    real, blank = load_benchmark("pocket", None, seed=1), load_benchmark("pocket-blank", None)

    assert [e.question.text for e in blank.examples] != [e.question.text for e in real.examples]
    blank = load_benchmark("pocket-blank", None, seed=1)
    assert [e.question.text for e in blank.examples] == [e.question.text for e in real.examples]
    assert blank.dataset_hash != real.dataset_hash


def test_a_seed_for_a_benchmark_that_is_not_generated_is_refused() -> None:
    with pytest.raises(ConfigError, match="'demo' is not generated and takes no seed"):
        load_benchmark("demo", None, seed=1)


def test_without_torch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MissingExtraError, match="the extra 'local'"):
        build_model(ModelSettings(spec=f"transformers:{tmp_path}"))

    result = runner.invoke(app, ["pocket", "train", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "the extra 'local'" in result.output


@pytest.mark.filterwarnings("default")
def test_a_training_of_two_steps_gives_a_folder_that_evaluates(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra `local` is not installed")
    out = tmp_path / "weights"
    trained = runner.invoke(
        app, ["pocket", "train", "--out", str(out), "--scale", "0.001", "--threads", "1"]
    )
    assert trained.exit_code == 0, trained.output

    refreshed = runner.invoke(app, ["pocket", "tokenizer", str(out)])
    assert refreshed.exit_code == 0, refreshed.output
    spec = f"pocket:{out}"
    result = runner.invoke(
        app,
        f"eval --benchmark pocket --limit 2 --model {spec} --reader {spec} "
        f"--run {tmp_path / 'run'} --cache-dir {tmp_path / 'cache'}",
    )
    assert result.exit_code == 0, result.output
    assert "2 of 2 questions measured" in result.output
