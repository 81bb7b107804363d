"""Fixed subsets of a benchmark that ship as lists of question ids.

`answerable-500` of MMLongBench-Doc stands for the paper's 500 answerable questions, which it does
not name (arXiv 2608.25618): ours are the first 500 in the order of
SHA-256("awm-answerable-500:" + id) among the questions that

- have an answer: the gold answer is other than "Not answerable", and
- name at least one evidence page: without one, the setting `ep-given` has nothing to show. This
  leaves out 12 of the 859 questions that have an answer, so that both settings of the paper ask
  the same questions.

Ids are those of `stable_question_ids`: a question keeps its id in every release that keeps its
wording. Where documents are missing, the part of a subset that can run is run, and the rest is
named in the run's manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

from awm.benchmarks.benchmark import Benchmark, Example
from awm.errors import ConfigError

ANSWERABLE_500 = "answerable-500"
SUBSETS: dict[str, str] = {ANSWERABLE_500: "mmlongbench-doc"}
"""Names of the subsets that ship with AWM, and the benchmark of each."""
_NOT_ANSWERABLE = "not answerable"
_SIZE = 500


@dataclass(frozen=True, slots=True)
class Subset:
    """The questions of a benchmark that a run is limited to."""

    name: str
    ids: tuple[str, ...]
    """In the order of their hashes; a run keeps the dataset's order."""

    def pick(self, examples: Iterable[Example]) -> list[Example]:
        """Give the examples that are in the subset, in their own order."""
        wanted = frozenset(self.ids)
        return [example for example in examples if example.question.id in wanted]

    def missing(self, examples: Iterable[Example]) -> tuple[str, ...]:
        """Give the ids of the subset that are not among `examples`."""
        there = {example.question.id for example in examples}
        return tuple(id_ for id_ in self.ids if id_ not in there)


def load_subset(name: str, benchmark: Benchmark) -> Subset:
    """Read a subset that ships with AWM.

    Raises:
        ConfigError: there is no such subset, or it is one of another benchmark.
    """
    if name not in SUBSETS:
        raise ConfigError(f"subset {name!r} is none of: {', '.join(SUBSETS)}")
    if benchmark.name != SUBSETS[name]:
        raise ConfigError(
            f"subset {name!r} holds questions of {SUBSETS[name]}, not of {benchmark.name}"
        )
    file = resources.files("awm.benchmarks") / "subsets" / f"{name}.txt"
    lines = file.read_text(encoding="utf-8").split("\n")
    return Subset(name, tuple(line for line in lines if line and not line.startswith("#")))


def choose_answerable(examples: Iterable[Example], size: int = _SIZE) -> tuple[str, ...]:
    """Compute the ids of `answerable-500` from all questions of a dataset.

    Args:
        examples: the dataset's, also those whose documents are missing.
        size: how many.
    """
    ids = [
        example.question.id
        for example in examples
        if str(example.gold.answer).strip().casefold() != _NOT_ANSWERABLE
        and example.gold.annotated_pages
    ]
    return tuple(sorted(ids, key=_order)[:size])


def _order(id_: str) -> str:
    return hashlib.sha256(f"awm-{ANSWERABLE_500}:{id_}".encode()).hexdigest()
