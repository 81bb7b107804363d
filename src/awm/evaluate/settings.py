"""All that an evaluation can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from awm.agent.environment import AgentSettings
from awm.agent.episode import Setting
from awm.documents import RenderSettings
from awm.models.chat import ModelSettings


class EvalSettings(BaseModel):
    """All that `awm eval` can be told, by flags or by a TOML file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmark: str
    data: Path | None = None
    """Folder or file of the benchmark; not needed by `demo`."""
    overlay: Path | None = None
    """Corrections of the benchmark's annotations, .toml or .jsonl."""
    seed: int | None = None
    """Which of a generated benchmark's sets of questions; None: 0. Others take none."""
    run: Path
    """The run folder."""
    setting: Setting = "agent"
    model: ModelSettings
    """The agent's policy."""
    reader: ModelSettings | None = None
    """The frozen reader; None: memories are not read, and their figures not measured."""
    readers: tuple[ModelSettings, ...] = ()
    """Further readers of the same memories; `reader` stays the one whose figures are the run's."""
    reader_samples: int = Field(default=1, ge=1)
    """Readings of each memory by each reader, with seeds of their own; the first one counts."""
    extractor: ModelSettings | None = None
    """None: the answer is judged as it is. Its temperature is 0 and its limit 256 tokens, as in
    the original, unless told otherwise."""
    extraction_prompt: Path | None = None
    """The benchmark's own prompt; None: AWM's."""
    limit: int | None = Field(default=None, ge=1)
    """Only the first so many questions that can run."""
    questions: tuple[str, ...] = ()
    """Only the questions with these ids."""
    subset: str | None = None
    """Only the questions of a fixed subset that ships with AWM, e.g. "answerable-500"."""
    agent: AgentSettings = AgentSettings()
    render: RenderSettings = RenderSettings()
    concurrency: int = Field(default=8, ge=1)
    """Questions under way at once."""
    cache_dir: Path | None = None
    """Keeps drawn pages between runs; None: only in memory."""
    max_failures_in_a_row: int = Field(default=25, ge=1)
    """Stop when so many questions in a row failed at an endpoint: it is down."""

    @field_validator("extractor")
    @classmethod
    def _extract_as_the_originals_do(cls, extractor: ModelSettings | None) -> ModelSettings | None:
        """Fill in temperature 0 and 256 tokens (MMLongBench-Doc's) where neither was chosen."""
        if extractor is None:
            return None
        wanted = {"temperature": 0.0, "max_tokens": 256}
        left = {k: v for k, v in wanted.items() if k not in extractor.model_fields_set}
        return extractor.model_copy(update=left)

    @model_validator(mode="after")
    def _check_readers(self) -> Self:
        if self.reader is None and (self.readers or self.reader_samples > 1):
            raise ValueError("further readers and samples need a first reader")
        if self.reader_samples > 1:
            for reader in self.all_readers:
                if reader.temperature == 0:
                    raise ValueError(
                        f"{self.reader_samples} samples of {reader.spec} at temperature 0 would be "
                        "one sample; give a temperature above 0"
                    )
        return self

    @property
    def all_readers(self) -> tuple[ModelSettings, ...]:
        """The reader and the further ones."""
        return () if self.reader is None else (self.reader, *self.readers)

    @property
    def reader_names(self) -> tuple[str, ...]:
        """A name for each of `all_readers`: its spec, numbered where two share one."""
        specs = [reader.spec for reader in self.all_readers]
        return tuple(
            spec if specs.index(spec) == i else f"{spec} #{specs[: i + 1].count(spec)}"
            for i, spec in enumerate(specs)
        )
