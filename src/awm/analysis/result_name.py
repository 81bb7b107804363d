"""The full name of a result, and what keeps it from being compared with others.

Two numbers are measurements of the same thing only if benchmark, release, setting, models,
extractor with its prompt, and judge agree; so all of these are the result's name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from awm.analysis.summary import RunSummary
from awm.benchmarks.releases import describe_release
from awm.counted import counted
from awm.runs import RunManifest

_PUBLISHED = ("mmlongbench-doc", "longdocurl")
_PROBLEMS = {
    "unreadable_document": "Documents that cannot be read",
    "missing_pages": "Questions left out because page images are missing",
    "evidence_outside_document": "Questions with gold pages outside their document",
}


@dataclass(frozen=True, slots=True)
class ResultName:
    """What a result is a measurement of."""

    benchmark: str
    release: str
    """In words, and how it was told."""
    dataset_hash: str
    setting: str
    model: str
    """Spec and sampling."""
    reader: str | None
    extractor: str | None
    extraction_prompt: str | None
    """Source and hash of the prompt; None without an extractor."""
    judge: str
    overlay: str | None
    """Name and hash of the corrections of annotations."""
    prompt: str
    """Version and hash of the agent's and the reader's prompts."""

    def parts(self) -> tuple[tuple[str, str], ...]:
        """Give the parts with their labels, in a fixed order."""
        extractor = self.extractor or "none"
        if self.extraction_prompt:
            extractor += f", prompt {self.extraction_prompt}"
        parts = [
            ("benchmark", self.benchmark),
            ("release", f"{self.release}, hash {self.dataset_hash[:12]}"),
            ("setting", self.setting),
            ("model", self.model),
            ("reader", self.reader or "none"),
            ("extractor", extractor),
            ("judge", self.judge),
            ("prompts", self.prompt),
        ]
        if self.overlay:
            parts.insert(2, ("overlay", self.overlay))
        return tuple(parts)

    def __str__(self) -> str:
        """Give the name on one line."""
        return "; ".join(f"{label} {value}" for label, value in self.parts())


def result_name(manifest: RunManifest) -> ResultName:
    """Name a run's result."""
    settings, dataset = manifest.settings, manifest.dataset
    overlay = dataset.overlay
    return ResultName(
        benchmark=dataset.benchmark,
        release=dataset.release
        or describe_release(dataset.benchmark, dataset.dataset_hash, dataset.n_dataset),
        dataset_hash=dataset.dataset_hash,
        setting=str(settings["setting"]),
        model=str(_model(settings["model"])),
        reader=_model(settings["reader"]),
        extractor=_model(settings["extractor"]),
        extraction_prompt=manifest.extraction_prompt,
        judge=manifest.judge,
        overlay=f"{overlay.name} ({overlay.digest[:12]})" if overlay else None,
        prompt=f"{manifest.prompt_version} ({manifest.prompt_hash[:12]})",
    )


def pooled_name(manifest: RunManifest, seeds: Sequence[int | None]) -> ResultName:
    """Name the result of runs that differ in seeds alone.

    Args:
        manifest: any of theirs.
        seeds: the model's, in the order of the runs; None: the server's own choice.
    """
    unseeded = {
        role: {**model, "seed": None} if model else None
        for role in ("model", "reader", "extractor")
        for model in (manifest.settings[role],)
    }
    name = result_name(manifest.model_copy(update={"settings": {**manifest.settings, **unseeded}}))
    told = ", ".join("none" if seed is None else str(seed) for seed in seeds)
    return replace(name, model=f"{name.model}, seeds {told}")


def _model(settings: dict[str, object] | None) -> str | None:
    if settings is None:
        return None
    sampling = [
        f"{name} {settings[name]}"
        for name in ("temperature", "top_p", "max_tokens", "seed")
        if settings.get(name) is not None
    ]
    return f"{settings['spec']}" + (f" ({', '.join(sampling)})" if sampling else "")


def comparability_notes(summary: RunSummary) -> tuple[str, ...]:
    """Say what limits a run's figures, the gravest first."""
    return (*_grave_notes(summary), *_data_notes(summary))


def _grave_notes(summary: RunSummary) -> list[str]:
    manifest, dataset = summary.manifest, summary.manifest.dataset
    notes = []
    if summary.routing.mismatched:
        notes.append(
            f"ROUTING: {len(summary.routing.mismatched)} of "
            f"{counted(summary.routing.n_checked, 'episode', 'episodes')} read another document "
            f"than their question's: {_first(summary.routing.mismatched)}. "
            "Do not use these figures."
        )
    if dataset.overlay is not None and dataset.overlay.n_answers:
        notes.append(
            f"The overlay {dataset.overlay.name} replaced "
            f"{counted(dataset.overlay.n_answers, 'gold answer', 'gold answers')}: no figure here "
            "is official."
        )
    if summary.n_unmeasured:
        kinds = ", ".join(f"{kind} x{n}" for kind, n in summary.errors.items()) or "not run yet"
        notes.append(
            f"{summary.n_unmeasured} of {summary.n_questions} questions are not fully measured "
            f"({kinds}): {_missing(summary)}. A figure leaves out what it lacks."
        )
    if summary.n_questions < dataset.n_dataset:
        notes.append(
            f"{summary.n_questions:,} of the dataset's {dataset.n_dataset:,} questions were asked: "
            "these are not figures of the whole benchmark."
        )
    if dataset.benchmark in _PUBLISHED:
        if manifest.settings["extractor"] is None:
            notes.append(
                "No extractor: answers were judged as they stand, while published figures are "
                "of answers that a model extracted first."
            )
        elif (manifest.extraction_prompt or "").startswith("awm:"):
            notes.append("The extraction prompt is AWM's own, not the benchmark's.")
    return notes


def _missing(summary: RunSummary) -> str:
    """Say which answers have no score."""
    parts = [("final answer", summary.final_accuracy.n)]
    if summary.outcomes is not None:
        parts.append(("memory-only", summary.memory_accuracy.n))
    lacking = [(what, summary.n_questions - n) for what, n in parts if n < summary.n_questions]
    return ", ".join(f"{what} not measured for {n}" for what, n in lacking)


def _data_notes(summary: RunSummary) -> list[str]:
    dataset = summary.manifest.dataset
    notes = []
    if dataset.missing_documents:
        notes.append(
            f"{counted(len(dataset.missing_documents), 'document is', 'documents are')} missing: "
            f"{_first(dataset.missing_documents)}."
        )
    kinds = Counter(problem.partition(":")[0] for problem in dataset.problems)
    notes.extend(f"{what}: {kinds[kind]}." for kind, what in _PROBLEMS.items() if kinds[kind])
    if dataset.n_excluded:
        notes.append(f"Questions left out because they have no gold page: {dataset.n_excluded}.")
    if summary.pages_without_text:
        n_pages = sum(len(pages) for pages in summary.pages_without_text.values())
        notes.append(
            f"Pages without a text layer, which the lexical search cannot find: {n_pages}, in "
            f"{counted(len(summary.pages_without_text), 'document', 'documents')}."
        )
    return notes


def _first(names: tuple[str, ...], n_shown: int = 3) -> str:
    more = len(names) - n_shown
    return ", ".join(names[:n_shown]) + (f" and {more} more" if more > 0 else "")
