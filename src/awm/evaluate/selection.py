"""Which questions a run asks, and with what extraction prompt."""

from __future__ import annotations

from collections.abc import Sequence

from awm.agent.episode import Setting
from awm.benchmarks import Benchmark, Example
from awm.benchmarks.subsets import load_subset
from awm.errors import (
    ConfigError,
)
from awm.evaluate.settings import EvalSettings
from awm.scoring.extraction import ExtractionPrompt


def select_examples(benchmark: Benchmark, settings: EvalSettings) -> list[Example]:
    """Pick the questions of a run, in the dataset's order.

    Raises:
        ConfigError: an id is unknown, or nothing is left to run.
    """
    examples = [e for e in in_subset(benchmark, settings) if can_ask(e, settings.setting)]
    if settings.questions:
        known = {example.question.id for example in examples}
        unknown = [id_ for id_ in settings.questions if id_ not in known]
        if unknown:
            raise ConfigError(f"no question that can run has the id {unknown[0]!r}")
        examples = [e for e in examples if e.question.id in settings.questions]
    if settings.limit is not None:
        examples = examples[: settings.limit]
    if not examples:
        reasons = "; ".join(problem.message for problem in benchmark.problems[:3])
        raise ConfigError(f"no question of {benchmark.name} can run. {reasons}".strip())
    return examples


def in_subset(benchmark: Benchmark, settings: EvalSettings) -> Sequence[Example]:
    """Give the runnable questions of the settings' subset; all of them where there is none."""
    if settings.subset is None:
        return benchmark.examples
    return load_subset(settings.subset, benchmark).pick(benchmark.examples)


def can_ask(example: Example, setting: Setting) -> bool:
    """Say whether a setting can ask a question: EP-given needs a gold page."""
    return setting != "ep-given" or bool(example.gold.evidence_pages)


def choose_extraction_prompt(
    settings: EvalSettings, benchmark: Benchmark
) -> ExtractionPrompt | None:
    """Read the extraction prompt that settings name; None without an extractor.

    Raises:
        ConfigError: there is a prompt and no extractor, or its file cannot be used.
    """
    if settings.extractor is None:
        if settings.extraction_prompt is not None:
            raise ConfigError("an extraction prompt needs an extractor (--extractor)")
        return None
    form = benchmark.extraction_form
    if settings.extraction_prompt is None:
        return ExtractionPrompt.own(form)
    return ExtractionPrompt.from_file(settings.extraction_prompt, form)
