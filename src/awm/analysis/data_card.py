"""The card of an exported data set: what it is, how it was made, and whose content it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from awm.runs import RunManifest

_LICENCES = {
    "demo": "The demo corpus is invented and in the public domain (CC0 1.0).",
    "mmlongbench-doc": "MMLongBench-Doc is published under CC BY-NC 4.0 for research use, and its "
    "documents belong to their publishers.",
    "longdocurl": "LongDocURL's terms stand with its release, and its documents belong to their "
    "publishers.",
}
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What the card states."""

    manifest: RunManifest
    n_rows: int
    n_left_out: dict[str, int]
    n_images: int | None
    image_problems: dict[str, int]
    data_file: str


def write_card(facts: CardFacts, columns: Mapping[str, str]) -> str:
    """Give the text of README.md: front matter of the Hugging Face hub, then prose and tables."""
    manifest = facts.manifest
    settings, dataset = manifest.settings, manifest.dataset
    licence = _LICENCES.get(
        dataset.benchmark, "The questions and documents are under the terms of their owners."
    )
    left_out = "; ".join(f"{n}: {why}" for why, n in facts.n_left_out.items()) or "none"
    reader = settings["reader"]["spec"] if settings["reader"] else "none"
    facts_table = {
        "rows": f"{facts.n_rows} of {manifest.n_questions} questions (left out: {left_out})",
        "benchmark": f"{dataset.benchmark}, dataset hash {dataset.dataset_hash}",
        "setting": settings["setting"],
        "agent": settings["model"]["spec"],
        "reader": reader,
        "judge": manifest.judge,
        "prompts": f"version {manifest.prompt_version}, hash {manifest.prompt_hash}",
        "run made": f"{manifest.created_at} with AWM {manifest.versions.get('awm', '(unknown)')}",
        "images": _images(facts),
    }
    lines = [
        *_front_matter(facts),
        f"# Trajectories of {settings['model']['spec']} on {dataset.benchmark}",
        "",
        f"{facts.n_rows} episodes of a document question answering agent that keeps a working "
        "memory: conversations with tool calls, findings with their source pages, final answers, "
        "and what a frozen reader answers from the memory alone. Exported by AWM.",
        "",
        "## Licence",
        "",
        f"Questions, gold answers and page content are the benchmark's, not AWM's. {licence} Check "
        "its terms before you share this data or train on it.",
        "",
        "These are **evaluation questions with their gold answers**. A model that is trained on "
        f"them can no longer be evaluated on {dataset.benchmark}; `awm check --train` finds what a "
        "training set shares with a benchmark.",
        "",
        "## Facts",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in facts_table.items()),
        "",
        "## Columns",
        "",
        "| column | holds |",
        "|---|---|",
        *(f"| `{name}` | {_cell(meaning)} |" for name, meaning in columns.items()),
        "",
        "## Settings",
        "",
        "```json",
        orjson.dumps(_public(settings), option=orjson.OPT_INDENT_2).decode(),
        "```",
        "",
    ]
    return "\n".join(lines)


def _front_matter(facts: CardFacts) -> list[str]:
    benchmark = facts.manifest.dataset.benchmark
    size = next((name for most, name in _SIZES if facts.n_rows < most), "100K<n<1M")
    is_free = benchmark == "demo"
    return [
        "---",
        f"pretty_name: AWM trajectories on {benchmark}",
        f"license: {'cc0-1.0' if is_free else 'other'}",
        *([] if is_free else ["license_name: terms-of-the-benchmark"]),
        "task_categories:",
        "- visual-question-answering",
        "- document-question-answering",
        "tags:",
        "- awm",
        "- agent-trajectories",
        "- working-memory",
        f"size_categories:\n- {size}",
        "configs:",
        "- config_name: default",
        "  data_files:",
        "  - split: train",
        f"    path: {facts.data_file}",
        "---",
        "",
    ]


def _images(facts: CardFacts) -> str:
    if facts.n_images is None:
        return "not in this export; messages name them by page and SHA-256"
    failed = ", ".join(f"{n} {kind}" for kind, n in facts.image_problems.items())
    return f"{facts.n_images} files in images/" + (f"; not written: {failed}" if failed else "")


def _public(settings: dict[str, object]) -> dict[str, object]:
    """Leave out paths of the machine that made the run."""
    paths = ("run", "data", "cache_dir", "overlay", "extraction_prompt")
    return {key: value for key, value in settings.items() if key not in paths}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
