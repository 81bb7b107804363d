"""From a run folder to what audits, breakdowns and controls work on.

Journals are read once, one record at a time; what is kept of a question is small.
"""

from __future__ import annotations

from dataclasses import dataclass

from awm.analysis.audits import Audit, AuditCase, AuditSummary
from awm.analysis.breakdowns import QuestionResult, plan_resampling
from awm.analysis.controls import MemorySource
from awm.analysis.diagnosis.log_rows import Note
from awm.analysis.echo import is_answerable
from awm.analysis.rereading import UNMEASURED, Answered
from awm.errors import ConfigError
from awm.memory import render_findings
from awm.runs import AnswerScore, ExampleRecord, RunStore, ScoreRecord


@dataclass(frozen=True, slots=True)
class RunResults:
    """A run's questions in order, with everything that was measured of each."""

    store: RunStore
    examples: list[ExampleRecord]
    scores: dict[str, ScoreRecord]
    episode_at: dict[str, int]
    """By question: where its last whole episode stands."""
    pages_shown: dict[str, tuple[int, ...]]
    page_counts: dict[str, int]

    def results(self) -> list[QuestionResult]:
        """Give what `breakdowns` needs."""
        return [self._result(example) for example in self.examples]

    def memory_scores(self) -> list[float | None]:
        """Give the memory-only scores, one a question."""
        return [result.memory_score for result in self.results()]

    def _result(self, example: ExampleRecord) -> QuestionResult:
        record = self.scores.get(example.question_id)
        return QuestionResult(
            id=example.question_id,
            cluster=example.document_id,
            final_score=record.final.score if record else None,
            memory_score=record.memory.score if record and record.memory else None,
            answer_format=example.answer_format,
            document_type=example.document_type,
            evidence_sources=example.evidence_sources,
            evidence_pages=example.evidence_pages,
            pages_shown=self.pages_shown.get(example.question_id),
            is_answerable=is_answerable(example.answer),
        )


def read_results(store: RunStore) -> RunResults:
    """Read a run, finished or not."""
    episode_at: dict[str, int] = {}
    pages_shown: dict[str, tuple[int, ...]] = {}
    for offset, episode in store.episodes.read_with_offsets():
        if episode.error is None:
            episode_at[episode.question_id] = offset
            pages_shown[episode.question_id] = episode.pages_shown
    return RunResults(
        store=store,
        examples=list(store.examples.read()),
        scores={record.question_id: record for record in store.scores.read()},
        episode_at=episode_at,
        pages_shown=pages_shown,
        page_counts={d.document_id: d.page_count for d in store.documents.read()},
    )


def audit_run(run: RunResults) -> AuditSummary:
    """Audit the terminal memory of every question.

    Raises:
        ConfigError: the run keeps no memory.
    """
    audit = Audit()
    has_memory = False
    for example in run.examples:
        offset = run.episode_at.get(example.question_id)
        episode = None if offset is None else run.store.episodes.read_at(offset)
        if episode is None or episode.memory is None:
            audit.add(None)
            continue
        has_memory = True
        audit.add(
            AuditCase(
                memory=tuple(Note(finding.text, finding.page) for finding in episode.memory),
                question=example.question,
                gold=example.answer,
                evidence_pages=example.evidence_pages,
                pages_shown=episode.pages_shown,
                page_count=run.page_counts.get(example.document_id),
                refused_writes=sum(r.tool == "update_memory" for r in episode.refusals),
            )
        )
    if not has_memory:
        setting = run.store.manifest.settings.get("setting")
        raise ConfigError(
            f"{run.store.path} holds no memory to audit (setting {setting!r}, "
            f"{len(run.episode_at)} episodes); audit a run of `agent` or `ep-given`"
        )
    plan = plan_resampling([example.document_id for example in run.examples])
    return audit.summarize(plan, run.memory_scores())


def memory_source(run: RunResults) -> MemorySource:
    """Give the run's memories, to be read again under a control."""
    examples = [e for e in run.examples if e.question_id in run.episode_at]

    def load_memory(index: int) -> str:
        episode = run.store.episodes.read_at(run.episode_at[examples[index].question_id])
        return render_findings(episode.memory or ())

    def load_final(index: int) -> AnswerScore | Answered:
        record = run.scores.get(examples[index].question_id)
        if record is None:
            return AnswerScore(prediction=None, score=None, error=UNMEASURED)
        return record.final

    return MemorySource(examples, load_memory, load_final, run.store.manifest.dataset)
