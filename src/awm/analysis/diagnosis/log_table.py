"""A log in memory: a few columns a row, and the way back to each row in the file.

Reading a log judges what can be judged without a model. The rows that a model has to work on, and
the memories that a control reads again, are given in the form of a run's questions; their texts
are read from the file when their turn comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from awm.agent.episode import ErrorRecord, short_answer
from awm.analysis.audits import Audit, AuditCase
from awm.analysis.breakdowns import QuestionResult
from awm.analysis.controls import Control, MemorySource
from awm.analysis.diagnosis.log_rows import Given, LogRow, render_memory
from awm.analysis.diagnosis.logs import Log
from awm.analysis.echo import is_answerable
from awm.analysis.rereading import UNMEASURED, Answered, Source, Task
from awm.benchmarks import Example
from awm.benchmarks.benchmark import Gold
from awm.errors import ConfigError, DataError
from awm.faults import MAX_FAULTS
from awm.question import Question
from awm.runs import AnswerScore, DatasetRecord, ExampleRecord, ScoreRecord
from awm.scoring import JUDGES
from awm.scoring.literals import python_text
from awm.scoring.score import Judge

DEFAULT_READER = "memory_answer"
"""Name of the reader that a row does not name."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is kept of a row of the log."""

    id: str
    line: int
    offset: int
    document: str | None
    facts: QuestionResult
    """Its scores are overlaid by `LogTable`."""
    has_memory: bool


@dataclass(slots=True)
class LogTable:
    """A log that was read: one entry a row in each list; None: not measured."""

    log: Log
    judge: str
    rows: list[Row] = field(default_factory=list)
    finals: list[float | None] = field(default_factory=list)
    memories: list[float | None] = field(default_factory=list)
    question_only: list[float | None] = field(default_factory=list)
    shuffled: list[float | None] = field(default_factory=list)
    readers: dict[str, list[tuple[float | None, ...]]] = field(default_factory=dict)
    """By reader that the log names: each row's rollouts."""
    answers: dict[str, list[tuple[str | None, ...]]] = field(default_factory=dict)
    audit: Audit = field(default_factory=Audit)
    to_read: list[int] = field(default_factory=list)
    """Rows that a model has to work on."""
    unreadable: list[int] = field(default_factory=list)
    """Rows that failed, or record neither a memory nor what a reader answers from one."""
    n_errors: int = 0
    primary: str | None = None
    """The reader whose answers make the memory-only figures: the first that the log names."""

    def clusters(self) -> list[object]:
        """Give each row's document; a row without one is a cluster of its own."""
        return [row.document if row.document is not None else ("row", row.id) for row in self.rows]

    def results(self) -> list[QuestionResult]:
        """Give what `breakdowns` needs."""
        return [
            replace(row.facts, final_score=final, memory_score=memory)
            for row, final, memory in zip(self.rows, self.finals, self.memories, strict=True)
        ]

    def take_scores(self, records: Iterable[ScoreRecord]) -> None:
        """Take over what a reader's run measured."""
        index = {self.rows[i].id: i for i in (*self.to_read, *self.unreadable)}
        for record in records:
            i = index[record.question_id]
            self.finals[i] = record.final.score
            self.memories[i] = record.memory.score if record.memory else None

    def take_control(self, control: Control, records: Iterable[ScoreRecord]) -> None:
        """Take over what a control's run measured."""
        column = self.question_only if control == "question-only" else self.shuffled
        index = {row.id: i for i, row in enumerate(self.rows)}
        for record in records:
            column[index[record.question_id]] = record.memory.score if record.memory else None


def read_table(log: Log, judge: str, *, has_reader: bool, has_extractor: bool) -> LogTable:
    """Read a log, and judge what can be judged without a model.

    Args:
        log: the log.
        judge: the judge's name.
        has_reader: whether a reader will read the memories of rows without a memory-only answer.
        has_extractor: whether answers are to be extracted before they are judged.

    Raises:
        DataError: the log cannot be used; or rows lack what a reader would have given.
        ConfigError: no row has a memory-only answer, and there is no reader.
    """
    table = LogTable(log, judge)
    lacking: list[str] = []
    n_lacking = 0
    for row in log.rows():
        problem = _lacks(row, has_reader, has_extractor)
        if problem is not None:
            n_lacking += 1
            if len(lacking) < MAX_FAULTS:
                lacking.append(f"line {row.line}, {problem}")
        _add(table, row, JUDGES[judge], has_extractor)
    if n_lacking and n_lacking == len(table.rows) and not has_reader:
        raise ConfigError(
            f"no row of {log.path} says what a reader answers from its memory: name a --reader, "
            "or write memory_answer (the reader's answer) or memory_score into the rows"
        )
    if n_lacking:
        raise DataError(
            f"{n_lacking} of {len(table.rows)} rows of {log.path} lack something:\n  "
            + "\n  ".join(lacking)
        )
    return table


def _lacks(row: LogRow, has_reader: bool, has_extractor: bool) -> str | None:
    if row.error is not None:
        return None
    if not row.readers and not has_reader:
        return (
            "memory_answer: missing, and so is memory_score; write one of them (null where it is "
            "not measured), or name a --reader"
        )
    if row.question is None and (not row.readers or has_extractor):
        return "question: missing, and a model has to be asked"
    if not row.readers and (row.gold is None or row.answer_format is None):
        return "gold: missing (or format), and a reader's answer has to be judged"
    if has_extractor and (
        len(row.readers) > 1
        or any(len(rollouts) > 1 for rollouts in row.readers.values())
        or any(given and not given.is_scored for given in (row.question_only, row.shuffled))
    ):
        return (
            "memory_answers: an extractor serves one reader and no answers of controls; leave "
            "--extractor out, or give their scores"
        )
    return None


def _add(table: LogTable, row: LogRow, judge: Judge, has_extractor: bool) -> None:
    failed = row.error is not None
    table.n_errors += failed
    readers = {reader or DEFAULT_READER: rollouts for reader, rollouts in row.readers.items()}
    if table.primary is None:
        table.primary = next(iter(readers), None)
    primary = readers.get(table.primary or "", ())[:1]
    must_extract = has_extractor and any(
        not given.is_scored and given.answer is not None for given in (row.final, *primary)
    )
    must_read = not readers and row.memory is not None
    if not failed and (must_read or must_extract):
        table.to_read.append(len(table.rows))
    elif failed or not readers:
        table.unreadable.append(len(table.rows))
    scores = {
        reader: tuple(
            None if failed or has_extractor else _score(given, row, judge) for given in rollouts
        )
        for reader, rollouts in readers.items()
    }
    table.finals.append(None if must_extract else _score(row.final, row, judge))
    own = scores.get(table.primary or "", ())
    if has_extractor and not must_extract and primary and not failed:
        own = (primary[0].score,)
    table.memories.append(own[0] if own else None)
    for column, given in (
        (table.question_only, row.question_only),
        (table.shuffled, row.shuffled),
    ):
        column.append(None if given is None or failed else _score(given, row, judge))
    if not has_extractor:
        _add_readers(table, readers, scores)
    table.rows.append(_kept(row))
    table.audit.add(None if failed or row.memory is None else _audit_case(row))


def _kept(row: LogRow) -> Row:
    return Row(
        id=row.id,
        line=row.line,
        offset=row.offset,
        document=row.document,
        facts=QuestionResult(
            id=row.id,
            cluster=row.document if row.document is not None else ("row", row.id),
            final_score=None,
            memory_score=None,
            answer_format=row.answer_format,
            document_type=row.document_type,
            evidence_sources=row.evidence_sources,
            evidence_pages=row.evidence_pages,
            pages_shown=row.pages_shown,
            is_answerable=is_answerable(row.gold),
        ),
        has_memory=row.memory is not None and row.error is None,
    )


def _add_readers(
    table: LogTable,
    readers: dict[str, tuple[Given, ...]],
    scores: dict[str, tuple[float | None, ...]],
) -> None:
    index = len(table.rows)
    for reader, rollouts in readers.items():
        column = table.readers.setdefault(reader, [])
        answers = table.answers.setdefault(reader, [])
        column += [()] * (index - len(column))  # rows that do not name this reader
        answers += [()] * (index - len(answers))
        column.append(scores[reader])
        is_repeated = len(rollouts) > 1
        answers.append(tuple(_as_text(given.answer) for given in rollouts) if is_repeated else ())


def _audit_case(row: LogRow) -> AuditCase:
    assert row.memory is not None
    return AuditCase(
        memory=row.memory,
        question=row.question,
        gold=row.gold,
        evidence_pages=row.evidence_pages,
        pages_shown=row.pages_shown,
        page_count=row.page_count,
        refused_writes=row.refused_writes,
    )


def _score(given: Given, row: LogRow, judge: Judge) -> float | None:
    """Judge what is given; no answer at all is a measured 0."""
    if given.is_scored:
        return given.score
    answer = given.answer
    if answer is None or row.answer_format is None:
        return None
    if isinstance(answer, str):
        if not answer.strip():
            return 0.0
        answer = short_answer(answer)
    return judge.score(row.gold, answer, row.answer_format).value


def _as_text(answer: Any) -> str | None:
    return answer if answer is None or isinstance(answer, str) else python_text(answer)


def reading_source(table: LogTable) -> Source:
    """Give the rows that a model has to work on, in the form of a run's questions.

    The unreadable ones stand among them in the order of the log, unmeasured and with the reason,
    so that the run folder does not pass over them in silence.
    """
    indices = sorted((*table.to_read, *table.unreadable))
    examples = [_example_record(_reload(table, i)) for i in indices]

    def load(position: int) -> Task:
        row = _reload(table, indices[position])
        if row.error is not None:
            failed = _unmeasured(f"the log's row has an `error`: {row.error}")
            return Task(_example(row), memory=None, final=failed, memory_answer=failed)
        rollouts = next((r for name, r in row.readers.items() if _is(name, table.primary)), ())
        given = rollouts[0] if rollouts else None
        return Task(
            example=_example(row),
            memory=None if row.memory is None else render_memory(row.memory),
            final=_final(table, indices[position], row),
            memory_answer=_memory_answer(row, given),
        )

    return Source(examples, load, _dataset(table))


def _memory_answer(row: LogRow, given: Given | None) -> AnswerScore | Answered | None:
    """Give the row's own memory-only answer, or why there can be none; None: ask the reader."""
    if given is not None:
        return _known(given)
    return _unmeasured("the log's row records no memory") if row.memory is None else None


def _unmeasured(message: str) -> AnswerScore:
    error = ErrorRecord(type=UNMEASURED.type, message=message)
    return AnswerScore(prediction=None, score=None, error=error)


def _final(table: LogTable, index: int, row: LogRow) -> AnswerScore | Answered:
    """Give the final answer to be judged, or with its score where it was judged as it stands.

    A list or a number is judged as such when the log is read, and its text might score otherwise.
    """
    answer, score = row.final.answer, table.finals[index]
    if isinstance(answer, str) or score is None:
        return _known(row.final)
    return AnswerScore(prediction=_as_text(answer), score=score)


def _is(reader: str | None, name: str | None) -> bool:
    return (reader or DEFAULT_READER) == name


def log_memories(table: LogTable) -> MemorySource:
    """Give the log's memories, to be read under a control.

    Raises:
        ConfigError: rows lack the question, the gold or the document.
    """
    indices = [i for i, row in enumerate(table.rows) if row.has_memory]
    rows = [_reload(table, i) for i in indices]
    for row in rows:
        missing = [
            name
            for name, value in (
                ("question", row.question),
                ("gold", row.gold),
                ("format", row.answer_format),
            )
            if value is None
        ]
        if missing:
            raise ConfigError(
                f"line {row.line} of {table.log.path} has no {missing[0]}, which a control needs"
            )
    examples = [_example_record(row) for row in rows]

    def load_memory(index: int) -> str:
        memory = _reload(table, indices[index]).memory
        assert memory is not None
        return render_memory(memory)

    def load_final(index: int) -> AnswerScore | Answered:
        final = table.finals[indices[index]]
        return _known(Given(score=final, is_scored=True))

    return MemorySource(examples, load_memory, load_final, _dataset(table))


def _reload(table: LogTable, index: int) -> LogRow:
    return table.log.row_at(table.rows[index].offset, table.rows[index].line)


def _known(given: Given) -> AnswerScore | Answered:
    if given.is_scored:
        error = UNMEASURED if given.score is None else None
        return AnswerScore(prediction=None, score=given.score, error=error)
    if given.answer is None:
        return AnswerScore(prediction=None, score=None, error=UNMEASURED)
    return Answered(_as_text(given.answer) or "")


def _example(row: LogRow) -> Example:
    return Example(
        Question(id=row.id, text=row.question or "", document_id=row.document or row.id),
        Gold(answer=row.gold, answer_format=row.answer_format or ""),
    )


def _example_record(row: LogRow) -> ExampleRecord:
    return ExampleRecord(
        question_id=row.id,
        question=row.question or "",
        document_id=row.document or row.id,
        answer=row.gold,
        answer_format=row.answer_format or "",
        evidence_pages=row.evidence_pages or (),
        evidence_sources=row.evidence_sources or (),
        document_type=row.document_type,
    )


def _dataset(table: LogTable) -> DatasetRecord:
    return DatasetRecord(
        benchmark=table.log.path.name,
        dataset_hash=table.log.digest,
        n_dataset=len(table.rows),
        n_runnable=len(table.rows),
    )
