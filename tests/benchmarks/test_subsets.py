"""The fixed subsets: which questions they hold, and what a run of one says about the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from awm.benchmarks import Benchmark, load_benchmark
from awm.benchmarks.subsets import ANSWERABLE_500, choose_answerable, load_subset
from awm.errors import ConfigError
from awm.evaluate import EvalSettings, select_examples
from awm.models.chat import ModelSettings

SHARED = Path(os.environ.get("AWM_SHARED") or Path(__file__).resolve().parents[2].parent / "shared")
SAMPLES = SHARED / "data" / "mmlongbench-doc"


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    if not (SAMPLES / "samples.json").exists():
        pytest.skip(f"no MMLongBench-Doc at {SAMPLES}; name the shared folder by AWM_SHARED")
    return load_benchmark("mmlongbench-doc", SAMPLES)


def settings(setting: str = "ep-given") -> EvalSettings:
    return EvalSettings.model_validate(
        {
            "benchmark": "mmlongbench-doc",
            "run": "run",
            "setting": setting,
            "subset": ANSWERABLE_500,
            "model": ModelSettings(spec="lexical"),
        }
    )


def test_the_shipped_ids_are_those_that_the_dataset_gives(benchmark: Benchmark) -> None:
    every = (*benchmark.examples, *benchmark.left_out)

    ids = load_subset(ANSWERABLE_500, benchmark).ids

    assert len(every) == 1082
    assert len(set(ids)) == 500
    assert choose_answerable(every) == ids


def test_every_question_of_the_subset_has_an_answer_and_an_evidence_page(
    benchmark: Benchmark,
) -> None:
    every = (*benchmark.examples, *benchmark.left_out)

    picked = load_subset(ANSWERABLE_500, benchmark).pick(every)

    assert len(picked) == 500
    assert all(example.gold.answer != "Not answerable" for example in picked)
    assert all(example.gold.annotated_pages for example in picked)


def test_what_can_run_is_run_and_the_rest_is_named(benchmark: Benchmark) -> None:
    runnable = select_examples(benchmark, settings())

    subset = load_subset(ANSWERABLE_500, benchmark)
    missing = subset.missing(runnable)
    assert 0 < len(runnable) < 500
    assert len(runnable) + len(missing) == 500
    assert {e.question.id for e in runnable}.isdisjoint(missing)


def test_both_settings_of_the_paper_ask_the_same_questions(benchmark: Benchmark) -> None:
    ids = [e.question.id for e in select_examples(benchmark, settings("ep-given"))]

    assert ids == [e.question.id for e in select_examples(benchmark, settings("agent"))]


def test_a_subset_of_another_benchmark_is_refused() -> None:
    with pytest.raises(ConfigError, match="questions of mmlongbench-doc, not of demo"):
        load_subset(ANSWERABLE_500, load_benchmark("demo", None))


def test_an_unknown_subset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'answerable-5' is none of: answerable-500"):
        load_subset("answerable-5", load_benchmark("demo", None))
