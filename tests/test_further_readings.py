"""Several readers and several samples in one evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awm.analysis.summary import RunSummary, summarize
from awm.errors import RunMismatchError
from awm.evaluate import EvalSettings, evaluate
from awm.models.chat import ModelSettings
from awm.runs import open_run
from towns import read_jsonl, write_agent, write_corpus, write_reader, write_script


class Stage:
    """Four towns, an agent that is always right, and two readers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = write_corpus(folder / "corpus", 4)
        self.agent = write_agent(folder / "agent.jsonl", 4)
        self.good = write_reader(folder / "good.jsonl", 4)
        # Right on questions 0 and 1 only.
        self.weak = write_script(
            folder / "weak.jsonl",
            {i: [str(100 + i) if i < 2 else "Not answerable"] for i in range(4)},
        )

    async def evaluate(self, **changes: Any) -> RunSummary:
        fields: dict[str, Any] = {
            "benchmark": "jsonl",
            "data": self.data,
            "run": self.folder / "run",
            "model": ModelSettings(spec=f"scripted:{self.agent}"),
            "reader": ModelSettings(spec=f"scripted:{self.good}"),
            "readers": (ModelSettings(spec=f"scripted:{self.weak}"),),
        }
        return summarize(open_run(await evaluate(EvalSettings(**(fields | changes)))))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_two_readers_have_their_own_figures_and_the_first_one_s_are_the_run_s(
    stage: Stage,
) -> None:
    summary = await stage.evaluate()

    assert (summary.p_mmc.value, summary.memory_accuracy.value) == (0.0, 1.0)
    assert summary.readers is not None
    good, weak = summary.readers.readers
    assert (good.p_mmc.value, weak.p_mmc.value) == (0.0, 0.5)  # 2 of 4 right answers
    assert summary.readers.missing_for_every.value == 0.0
    assert summary.readers.missing_for_any.value == 0.5
    (migration,) = summary.readers.migrations
    assert migration.n_moved == 2
    assert summary.n_unmeasured_rereadings == 0


async def test_a_failed_further_reading_is_unmeasured_and_only_it_is_done_again(
    stage: Stage,
) -> None:
    good = stage.weak.read_text()
    write_script(stage.weak, {i: [str(100 + i)] if i else [{"error": "timeout"}] for i in range(4)})
    first = await stage.evaluate()
    assert first.n_unmeasured_rereadings == 1
    assert first.readers is not None
    assert first.readers.readers[1].outcomes.n_unmeasured == 1
    assert first.n_unmeasured == 0

    stage.weak.write_text(good)
    second = await stage.evaluate()

    assert second.n_unmeasured_rereadings == 0
    run = stage.folder / "run"
    assert [len(read_jsonl(run / f"{n}.jsonl")) for n in ("episodes", "readings", "scores")] == [
        4
    ] * 3
    assert len(read_jsonl(run / "rereadings.jsonl")) == 5  # 4, and the one that failed again


async def test_samples_are_counted_and_the_first_reading_is_not_read_again(stage: Stage) -> None:
    summary = await stage.evaluate(reader_samples=3, readers=())

    assert summary.readers is None
    (rollouts,) = summary.rollouts
    assert rollouts.n_rollouts == 3
    assert rollouts.mean_accuracy.value == 1.0
    records = read_jsonl(stage.folder / "run" / "rereadings.jsonl")
    assert sorted((r["question_id"], r["sample"]) for r in records) == sorted(
        (r["question_id"], sample)
        for r in read_jsonl(stage.folder / "run" / "examples.jsonl")
        for sample in (1, 2)
    )


def test_samples_at_temperature_0_are_refused() -> None:
    cold = ModelSettings(spec="lexical", temperature=0)
    with pytest.raises(ValueError, match="would be one sample"):
        EvalSettings(benchmark="demo", run=Path("x"), model=cold, reader=cold, reader_samples=2)


def test_two_readers_of_one_spec_have_two_names() -> None:
    lexical = ModelSettings(spec="lexical")
    settings = EvalSettings(
        benchmark="demo", run=Path("x"), model=lexical, reader=lexical, readers=(lexical,)
    )
    assert settings.reader_names == ("lexical", "lexical #2")


async def test_another_set_of_readers_on_an_old_folder_is_refused(stage: Stage) -> None:
    await stage.evaluate()
    with pytest.raises(RunMismatchError, match="readers"):
        await stage.evaluate(readers=())
