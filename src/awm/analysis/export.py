"""A run's trajectories as a data set: JSON lines, Parquet, or a folder for the Hugging Face hub.

One row is one question with its finished episode: the whole conversation, the memory, both answers
and their scores. Conversations are JSON text: Arrow would give every text block an empty image
field, which chat templates take for an image. Page images stand in them as page number and SHA-256;
with `images` the files travel along, drawn again and compared with what the agent saw.

| format | what is written |
|---|---|
| `jsonl` | `trajectories.jsonl` and the card, `README.md` |
| `parquet` | `trajectories.parquet` and the card |
| `hf` | `data/train-00000-of-00001.parquet` and a card that `datasets.load_dataset(DIR)` reads |
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from awm._extras import require
from awm.agent.episode import BlockRecord, Episode, MessageRecord
from awm.agent.tools import retrieve_schema, update_memory_schema, view_pages_schema
from awm.analysis.data_card import CardFacts, write_card
from awm.analysis.source_runs import SourceRun, as_example, open_source
from awm.documents import RenderCache
from awm.errors import AwmError, ConfigError, DocumentError
from awm.evaluate import DocumentShelf, EvalSettings
from awm.faults import reason
from awm.runs import ExampleRecord, ScoreRecord

Format = Literal["jsonl", "parquet", "hf"]
FORMATS: tuple[Format, ...] = ("jsonl", "parquet", "hf")
_FILES: dict[Format, str] = {
    "jsonl": "trajectories.jsonl",
    "parquet": "trajectories.parquet",
    "hf": "data/train-00000-of-00001.parquet",
}
_SUFFIXES = {"image/jpeg": ".jpg", "image/png": ".png"}
_BATCH_ROWS = 256
EXTRA = "export"
"""The extra that brings pyarrow."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote."""

    folder: Path
    file: Path
    n_rows: int
    n_left_out: dict[str, int]
    """Questions without a row, by reason."""
    n_images: int | None
    """Image files; None where none were asked for."""
    image_problems: dict[str, int]
    """Images that were not written, by reason."""


def export_run(
    run: Path,
    to: Format,
    out: Path,
    *,
    images: bool = False,
    data: Path | None = None,
    cache_dir: Path | None = None,
) -> Exported:
    """Write a run's trajectories into the folder `out`, whole or not at all.

    Args:
        run: the run folder.
        to: the format.
        out: a folder that is not there, or is empty.
        images: write the page images, too.
        data: where the benchmark is now, for the images; None: where the run read it.
        cache_dir: keeps drawn pages.

    Raises:
        ConfigError: `out` holds something, or there is nothing to write.
        MissingExtraError: the format needs pyarrow, and it is not installed.
        DataError: the run or its benchmark cannot be read.
    """
    if to != "jsonl":
        require("pyarrow", EXTRA)
    source = open_source(run)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out} is not empty; name a folder that is not there yet")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        part.chmod(0o755)
        try:
            exported = _write(source, to, part, images, data, cache_dir)
            if out.exists():
                out.rmdir()
            part.rename(out)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written: {reason(error)}") from error
    return Exported(
        folder=out,
        file=out / _FILES[to],
        n_rows=exported.n_rows,
        n_left_out=exported.n_left_out,
        n_images=exported.n_images,
        image_problems=exported.image_problems,
    )


def _write(
    source: SourceRun,
    to: Format,
    folder: Path,
    images: bool,
    data: Path | None,
    cache_dir: Path | None,
) -> Exported:
    file = folder / _FILES[to]
    file.parent.mkdir(parents=True, exist_ok=True)
    gallery = _Gallery(source, folder, data, cache_dir) if images else None
    left_out: Counter[str] = Counter()
    try:
        rows = _rows(source, gallery, left_out)
        n_rows = _write_jsonl(rows, file) if to == "jsonl" else _write_parquet(rows, file)
    finally:
        if gallery is not None:
            gallery.close()
    if not n_rows:
        raise ConfigError(f"{source.store.path} holds no finished episode: {dict(left_out)}")
    problems = dict(gallery.problems) if gallery else {}
    n_images = len(gallery.written) if gallery else None
    facts = CardFacts(
        manifest=source.store.manifest,
        n_rows=n_rows,
        n_left_out=dict(left_out),
        n_images=n_images,
        image_problems=problems,
        data_file=_FILES[to],
    )
    (folder / "README.md").write_text(write_card(facts, COLUMNS), encoding="utf-8")
    return Exported(folder, file, n_rows, dict(left_out), n_images, problems)


def _rows(
    source: SourceRun, gallery: _Gallery | None, left_out: Counter[str]
) -> Iterator[dict[str, Any]]:
    store = source.store
    latest: dict[str, int] = {}
    failed: set[str] = set()
    for offset, episode in store.episodes.read_with_offsets():
        if episode.error is None:
            latest[episode.question_id] = offset
        else:
            failed.add(episode.question_id)
    scores = {record.question_id: record for record in store.final_scores()}
    for example in store.examples.read():
        id_ = example.question_id
        if id_ not in latest:
            left_out["the episode failed" if id_ in failed else "not run"] += 1
            continue
        episode = store.episodes.read_at(latest[id_])
        files = gallery.write(example, episode) if gallery is not None else {}
        yield trajectory_row(example, episode, scores.get(id_), source.settings, files)


def trajectory_row(
    example: ExampleRecord,
    episode: Episode,
    score: ScoreRecord | None,
    settings: EvalSettings,
    files: dict[str, str],
) -> dict[str, Any]:
    """Give one row.

    Args:
        example: the question with its gold.
        episode: what the agent did.
        score: both answers judged; None where that is not done.
        settings: the run's.
        files: by image hash, the image's path in the export.
    """
    memory = score.memory if score else None
    return {
        "question_id": example.question_id,
        "question": example.question,
        "document_id": example.document_id,
        "document_sha256": episode.document_digest,
        "page_window": list(example.page_window) if example.page_window else None,
        "setting": episode.setting,
        "model": settings.model.spec,
        "reader": settings.reader.spec if settings.reader else None,
        "messages": _json_text([_message(message, files) for message in episode.messages]),
        "tools": _json_text(_tools(settings)),
        "answer": episode.answer,
        "final_prediction": score.final.prediction if score else None,
        "memory": _memory(episode),
        "memory_prediction": memory.prediction if memory else None,
        "gold": _json_text(example.answer),
        "answer_format": example.answer_format,
        "evidence_pages": list(example.evidence_pages),
        "evidence_sources": list(example.evidence_sources),
        "document_type": example.document_type,
        "final_score": score.final.score if score else None,
        "memory_score": memory.score if memory else None,
        "outcome": score.outcome.value if score and score.outcome else None,
        "stop_reason": episode.stop_reason,
        "turns": episode.turns,
        "n_refusals": len(episode.refusals),
        "pages_shown": list(episode.pages_shown),
    }


def _json_text(value: Any) -> str:
    return orjson.dumps(value).decode()


def _memory(episode: Episode) -> list[dict[str, Any]] | None:
    return None if episode.memory is None else [f.model_dump() for f in episode.memory]


def _tools(settings: EvalSettings) -> list[dict[str, Any]]:
    if settings.setting in ("direct", "rag"):
        return []
    top_k = settings.agent.top_k
    tools = [retrieve_schema(top_k), update_memory_schema()]
    return [*tools, view_pages_schema(top_k)] if settings.agent.view_pages else tools


def _message(message: MessageRecord, files: dict[str, str]) -> dict[str, Any]:
    """Give a message in the form of the OpenAI chat protocol, images as references."""
    given: dict[str, Any] = {
        "role": message.role,
        "content": [_block(block, files) for block in message.content],
    }
    if message.tool_calls:
        given["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    optional = {
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "reasoning_content": message.reasoning,
    }
    return given | {key: value for key, value in optional.items() if value is not None}


def _block(block: BlockRecord, files: dict[str, str]) -> dict[str, Any]:
    if block.image is None:
        return {"type": "text", "text": block.text or ""}
    image = {
        "type": "image",
        "page": block.page,
        "sha256": block.image,
        "width": block.width,
        "height": block.height,
    }
    return image | ({"path": files[block.image]} if block.image in files else {})


class _Gallery:
    """Writes the page images that the agent saw, each once."""

    def __init__(
        self, source: SourceRun, folder: Path, data: Path | None, cache_dir: Path | None
    ) -> None:
        self._folder = folder
        self._render = source.settings.render
        self._shelf = DocumentShelf(source.load_benchmark(data))
        self._cache = RenderCache(cache_dir)
        self.written: dict[str, str] = {}
        """By SHA-256: the path in the export."""
        self.problems: Counter[str] = Counter()

    def write(self, example: ExampleRecord, episode: Episode) -> dict[str, str]:
        """Write the images of an episode that are not there yet; give their paths."""
        for message in episode.messages:
            for block in message.content:
                if block.image is None or block.image in self.written or block.page is None:
                    continue
                try:
                    self.written[block.image] = self._draw(example, block.page, block.image)
                except AwmError as error:
                    self.problems[type(error).__name__] += 1
        return self.written

    def _draw(self, example: ExampleRecord, page: int, digest: str) -> str:
        document = self._shelf.take(as_example(example))
        image = document.page(page).image(self._render, self._cache)
        if image.digest != digest:
            raise DocumentError(
                f"page {page} of {example.document_id!r} draws differently than it did: the file "
                "or the renderer is another one"
            )
        path = f"images/{digest}{_SUFFIXES[image.media_type]}"
        (self._folder / "images").mkdir(exist_ok=True)
        (self._folder / path).write_bytes(image.data)
        return path

    def close(self) -> None:
        """Close the documents."""
        self._shelf.close()


def _write_jsonl(rows: Iterator[dict[str, Any]], file: Path) -> int:
    n = 0
    with file.open("wb") as out:
        for row in rows:
            out.write(orjson.dumps(row) + b"\n")
            n += 1
    return n


def _write_parquet(rows: Iterator[dict[str, Any]], file: Path) -> int:
    parquet = require("pyarrow.parquet", EXTRA)
    arrow = require("pyarrow", EXTRA)
    schema = _schema(arrow)
    n = 0
    batch: list[dict[str, Any]] = []
    with parquet.ParquetWriter(str(file), schema) as writer:
        for row in rows:
            batch.append(row)
            n += 1
            if len(batch) == _BATCH_ROWS:
                writer.write_table(arrow.Table.from_pylist(batch, schema=schema))
                batch.clear()
        if batch:
            writer.write_table(arrow.Table.from_pylist(batch, schema=schema))
    return n


def _schema(arrow: Any) -> Any:
    """Give the columns' types: a run without memories must not change them."""
    text, number, pages = arrow.string(), arrow.int64(), arrow.list_(arrow.int64())
    finding = arrow.struct([("text", text), ("page", number), ("turn", number)])
    special = {
        "page_window": pages,
        "memory": arrow.list_(finding),
        "evidence_pages": pages,
        "evidence_sources": arrow.list_(text),
        "final_score": arrow.float64(),
        "memory_score": arrow.float64(),
        "turns": number,
        "n_refusals": number,
        "pages_shown": pages,
    }
    return arrow.schema([(name, special.get(name, text)) for name in COLUMNS])


COLUMNS: dict[str, str] = {
    "question_id": "stable id of the question",
    "question": "what the agent was asked",
    "document_id": "the document's name in the benchmark",
    "document_sha256": "of the file that was read",
    "page_window": "first and last page that could be seen; null: all",
    "setting": "agent, ep-given, direct or rag",
    "model": "spec of the agent's model",
    "reader": "spec of the frozen reader; null: none",
    "messages": "JSON text: the conversation in the form of the OpenAI chat protocol; an image is "
    "its page and SHA-256",
    "tools": "JSON text: the schemas of the agent's tools",
    "answer": "the final turn's text; null: the episode ended without one",
    "final_prediction": "the short answer that was judged",
    "memory": "the findings: text, page (1-based), turn (from 0); null: the setting keeps none",
    "memory_prediction": "the reader's short answer from the memory alone",
    "gold": "JSON text: the benchmark's answer",
    "answer_format": "the benchmark's own name of the answer's kind",
    "evidence_pages": "gold pages, 1-based",
    "evidence_sources": "the benchmark's own names",
    "document_type": "the benchmark's own name; null: not annotated",
    "final_score": "official score of the answer, 0 to 1; null: unmeasured",
    "memory_score": "official score of the memory-only answer; null: unmeasured",
    "outcome": "the cell of both scores; null: unmeasured",
    "stop_reason": "answered or step_limit",
    "turns": "assistant turns",
    "n_refusals": "calls and answers that were refused",
    "pages_shown": "in the order of showing",
}
"""The columns of every format, with what they hold."""
