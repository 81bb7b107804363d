"""What SFT imitates: trajectories of runs, filtered, with their page images drawn again.

A run keeps page images as hashes. They are drawn anew from the documents, by page number and with
the run's own render settings, and every hash must be the recorded one: a policy is never trained to
say of a page what was said of another.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from awm.agent.episode import BlockRecord, Episode, MessageRecord
from awm.benchmarks import Benchmark, load_benchmark
from awm.benchmarks.contamination import OverlapItem
from awm.documents import Document, RenderCache, RenderSettings
from awm.errors import ConfigError, DataError
from awm.models.chat import Block, ImageBlock, Message, Role, TextBlock, ToolCall
from awm.runs import RunStore, ScoreRecord, open_run
from awm.train.config import SFTSettings


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode to imitate."""

    question_id: str
    question: str
    document_id: str
    document_digest: str | None
    messages: tuple[MessageRecord, ...]
    """Page images as hashes; `TrajectorySet.messages` draws them."""
    run: int
    """Which of the runs it comes from."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The trajectories that were kept, and how many were left out and why."""

    trajectories: tuple[Trajectory, ...]
    n_left_out: dict[str, int]
    """By reason, the most frequent first."""

    def describe(self) -> str:
        """Say it in a line."""
        reasons = ", ".join(f"{n} {why}" for why, n in self.n_left_out.items() if n)
        return f"{len(self.trajectories)} trajectories kept; left out: {reasons or 'none'}"


class TrajectorySet:
    """Trajectories of runs, with what is needed to draw their pages.

    Args:
        settings: which runs, and what to keep.

    Raises:
        ConfigError: nothing is left, or a run's setting has no tools.
        DataError: a run or its benchmark cannot be read.
    """

    def __init__(self, settings: SFTSettings) -> None:
        self._sources = [_RunSource(open_run(path), settings.data) for path in settings.runs]
        self._cache = RenderCache(None)
        kept: list[Trajectory] = []
        left_out: Counter[str] = Counter()
        seen: set[str] = set()
        for index, source in enumerate(self._sources):
            for trajectory, why_not in _judged(source, settings):
                trajectory = replace(trajectory, run=index)
                key = _fingerprint(trajectory)
                if why_not is None and key in seen:
                    why_not = "said before, word by word"
                if why_not is not None:
                    left_out[why_not] += 1
                    continue
                seen.add(key)
                kept.append(trajectory)
        ordered = sorted(left_out.items(), key=lambda reason: (-reason[1], reason[0]))
        self.selection = Selection(tuple(kept), dict(ordered))
        if not kept:
            raise ConfigError(
                f"nothing to imitate in {', '.join(str(path) for path in settings.runs)}: "
                f"{self.selection.describe()}; widen keep, min_score or max_refusals"
            )

    @property
    def tools(self) -> tuple[int, bool]:
        """`top_k` and `view_pages` of the runs' agents: they decide the tools' schemas.

        Raises:
            ConfigError: the runs differ.
        """
        found = {source.agent for source in self._sources}
        if len(found) > 1:
            raise ConfigError(
                f"the runs had different tools (top_k, view_pages): {sorted(found)}; train on runs "
                "of one kind"
            )
        return found.pop()

    def messages(self, trajectory: Trajectory) -> tuple[Message, ...]:
        """Give a trajectory's conversation with its page images.

        Raises:
            DataError: a page no longer gives the image that the run recorded.
        """
        source = self._sources[trajectory.run]
        document = source.open(trajectory)
        return tuple(
            Message(
                role=_role(record.role),
                content=tuple(self._block(block, document, source) for block in record.content),
                tool_calls=tuple(
                    ToolCall(call.name, call.arguments, call.id) for call in record.tool_calls
                ),
                tool_call_id=record.tool_call_id,
                name=record.name,
            )
            for record in trajectory.messages
        )

    def overlap_items(self) -> list[OverlapItem]:
        """Give the questions, for the comparison with benchmarks."""
        return [
            OverlapItem(t.question_id, t.question, t.document_id, t.document_digest)
            for t in self.selection.trajectories
        ]

    def _block(self, block: BlockRecord, document: Document, source: _RunSource) -> Block:
        if block.image is None:
            return TextBlock(block.text or "")
        assert block.page is not None
        page = document.page(block.page)
        image = page.image(source.render, self._cache)
        if image.digest != block.image:
            raise DataError(
                f"page {block.page} of {document.id!r} gives the image {image.digest[:12]}, and "
                f"the run {source.store.path} recorded {block.image[:12]}: the document, the "
                "render settings or the drawing libraries changed. Train with the documents and "
                "versions of the run, or make the run again"
            )
        return ImageBlock(image, block.page, page)


class _RunSource:
    """A run, and the benchmark that holds its documents."""

    def __init__(self, store: RunStore, data: Path | None) -> None:
        self.store = store
        told = store.manifest.settings
        if told.get("setting") not in ("agent", "ep-given"):
            raise ConfigError(
                f"{store.path} was made with the setting {told.get('setting')!r}, which has no "
                "tools; imitate runs of the agent"
            )
        self.render = RenderSettings.model_validate(told["render"])
        agent = told["agent"]
        self.agent: tuple[int, bool] = (agent["top_k"], agent["view_pages"])
        self._told = told
        self._data = data
        self._benchmark: Benchmark | None = None
        self._open: tuple[str, Document] | None = None

    def open(self, trajectory: Trajectory) -> Document:
        """Open a trajectory's document; the latest one stays open."""
        document_id = trajectory.document_id
        if self._open is None or self._open[0] != document_id:
            if self._open is not None:
                self._open[1].close()
            document = self._load().open_document(document_id)
            if trajectory.document_digest not in (None, document.digest):
                raise DataError(
                    f"{document_id!r} is not the file that {self.store.path} read: its digest is "
                    f"{document.digest[:12]}, not {str(trajectory.document_digest)[:12]}"
                )
            self._open = (document_id, document)
        return self._open[1]

    def _load(self) -> Benchmark:
        if self._benchmark is None:
            told = self._told
            data = self._data or (Path(told["data"]) if told.get("data") else None)
            self._benchmark = load_benchmark(told["benchmark"], data, seed=told.get("seed"))
        return self._benchmark


def _judged(source: _RunSource, settings: SFTSettings) -> Iterator[tuple[Trajectory, str | None]]:
    """Give every episode with the reason to leave it out; None: keep it."""
    scores = {score.question_id: score for score in source.store.final_scores()}
    episodes = {e.question_id: e for e in source.store.episodes.read() if e.error is None}
    for question_id, episode in episodes.items():
        trajectory = Trajectory(
            question_id,
            episode.question,
            episode.document_id,
            episode.document_digest,
            episode.messages,
            0,
        )
        yield trajectory, _why_not(episode, scores.get(question_id), settings)


def _why_not(episode: Episode, score: ScoreRecord | None, settings: SFTSettings) -> str | None:
    if score is None or score.outcome is None:
        return "unmeasured"
    if score.outcome not in settings.keep:
        return str(score.outcome)
    if (score.final.score or 0.0) < settings.min_score:
        return f"scored below {settings.min_score}"
    if len(episode.refusals) > settings.max_refusals:
        return f"with more than {settings.max_refusals} refusals"
    return None


def _fingerprint(trajectory: Trajectory) -> str:
    said = [
        "\0".join(
            [block.text or "" for block in message.content]
            + [f"{call.name}({call.arguments})" for call in message.tool_calls]
        )
        for message in trajectory.messages
        if message.role == "assistant"
    ]
    parts = [trajectory.document_digest or trajectory.document_id, trajectory.question, *said]
    return hashlib.sha256("\1".join(parts).encode(errors="replace")).hexdigest()


_ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def _role(name: str) -> Role:
    return _ROLES[name]


def first_of_each_document(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Give one trajectory of each document, in order: a sample for checks."""
    seen: dict[str, Trajectory] = {}
    for trajectory in trajectories:
        seen.setdefault(trajectory.document_id, trajectory)
    return list(seen.values())
