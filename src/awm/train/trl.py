"""The agent's world for TRL: `GRPOTrainer(environment_factory=world.new_environment)`.

A `RolloutEnvironment` is a slot for one rollout; `reset` puts a fresh `DocumentEnvironment` into
it, the one of evaluation, for the question that the dataset row names. AWM's trainer
(`awm.train.trainer`) hands it whole turns as text, through the parser of evaluation, so every rule
holds as in evaluation: a page counts as shown from the next turn, a turn has one retrieval, an
answer with a finding due is refused and the episode goes on, a broken call is answered.

In a plain `GRPOTrainer` the public methods work as tools, and three things differ, because TRL
parses turns itself and hands over single calls:

- each call counts as a turn of its own, so two calls of one turn do not know that they are one;
- TRL ends a rollout at the first turn without a call. An answer that evaluation would refuse (a
  finding is due, the turn is empty or a broken call) is no answer: the record has `answer=None`
  and scores 0, and the memory stands as it is;
- arguments of unknown names never reach us; TRL answers them with its own text.

Errors of the environment itself, which TRL would turn into `{'error': ...}` text for the policy,
are kept in the slot and raised by the reward function: a bug stops training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from awm.agent.environment import (
    AgentSettings,
    DocumentEnvironment,
    DrawnPages,
    EnvironmentResult,
    Step,
)
from awm.agent.tools import retrieve_schema, update_memory_schema
from awm.benchmarks import Benchmark, Example
from awm.documents import RenderCache, RenderSettings
from awm.errors import AgentError, ConfigError
from awm.evaluate import DocumentShelf
from awm.models.chat import ImageBlock, Message, TextBlock, ToolCall, text_message
from awm.retrieval import BM25Retriever, Retriever
from awm.train.rendering import open_image


class TrainingWorld:
    """The questions and documents that rollouts are made of.

    Args:
        benchmark: where they come from.
        examples: the questions that can be asked.
        agent: the rules of an episode.
        render: how pages are drawn.
        retriever: what answers `retrieve`; None: BM25, as in evaluation.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        examples: Sequence[Example],
        agent: AgentSettings | None = None,
        render: RenderSettings | None = None,
        retriever: Retriever | None = None,
    ) -> None:
        self.agent = agent or AgentSettings()
        if self.agent.view_pages:
            raise ConfigError("training offers retrieve and update_memory; set view_pages = false")
        self.benchmark = benchmark
        self.examples: Mapping[str, Example] = {e.question.id: e for e in examples}
        self._render = render or RenderSettings()
        self._retriever = retriever or BM25Retriever()
        self._shelf = DocumentShelf(benchmark)
        self._cache = RenderCache(None)
        self._guest: TrainingWorld | None = None

    def admit(self, guest: TrainingWorld) -> None:
        """Open also the questions of another world.

        TRL has one pool of environments, for training and for evaluation.

        Raises:
            ConfigError: a question of the same id is in both, or their judges differ.
        """
        same = self.examples.keys() & guest.examples.keys()
        if same:
            raise ConfigError(
                f"{len(same)} questions are in the training and in the evaluation data, for "
                f"example {min(same)!r}; keep them apart"
            )
        ours, theirs = self.benchmark.judge.name, guest.benchmark.judge.name
        if ours != theirs:
            raise ConfigError(
                f"the training data is judged by {ours} and the evaluation data by {theirs}; use "
                "one benchmark's rules for both"
            )
        self._guest = guest

    def example(self, question_id: str) -> Example:
        """Give the example of a question, also of an admitted world's."""
        if self._guest is not None and question_id in self._guest.examples:
            return self._guest.examples[question_id]
        return self.examples[question_id]

    def open_episode(self, question_id: str) -> DocumentEnvironment:
        """Make the environment of a question, as evaluation makes it."""
        if self._guest is not None and question_id in self._guest.examples:
            return self._guest.open_episode(question_id)
        example = self.examples[question_id]
        document = self._shelf.take(example)
        source = DrawnPages(document, self._render, self._cache)
        return DocumentEnvironment(example.question, source, self._retriever, self.agent)

    def new_environment(self) -> RolloutEnvironment:
        """Make a slot: the `environment_factory` of TRL."""
        return RolloutEnvironment(self)

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Give the schemas of the tools, as evaluation sends them."""
        return [retrieve_schema(self.agent.top_k), update_memory_schema()]

    def prompt_messages(self, question_id: str) -> tuple[Message, ...]:
        """Give the messages that open a question's episode."""
        return self.open_episode(question_id).initial_messages()

    def dataset_row(self, question_id: str) -> dict[str, Any]:
        """Give the row of TRL's dataset: the prompt, and what `reset` needs."""
        prompt = [{"role": m.role, "content": m.text} for m in self.prompt_messages(question_id)]
        return {"prompt": prompt, "question_id": question_id}

    def close(self) -> None:
        """Close the documents."""
        self._shelf.close()
        if self._guest is not None:
            self._guest.close()


class RolloutEnvironment:
    """One slot for rollouts. Its public methods are the tools; see the module."""

    def __init__(self, world: TrainingWorld) -> None:
        self._world = world
        self._question_id = ""
        self._episode: DocumentEnvironment | None = None
        self._is_over = False
        self._is_cut = False
        self._failure: Exception | None = None

    def reset(self, question_id: str, **row: Any) -> None:
        """Begin an episode for a dataset row."""
        self._question_id = question_id
        self._failure = None
        self._is_over = self._is_cut = False
        self._episode = self._world.open_episode(question_id)

    def retrieve(self, query: str) -> list[dict[str, Any]]:
        """Search the document. Shows the best pages that you have not seen yet, as images.

        Args:
            query: What to look for, in a few words.
        """
        return self._call("retrieve", query=query)

    def update_memory(self, page: int, finding: str) -> list[dict[str, Any]]:
        """Save one finding to the working memory: a specific fact that you read on a page.

        Args:
            page: The page it stands on, as labelled: 1 is first.
            finding: At most 40 words, with the names, numbers and units.
        """
        return self._call("update_memory", page=page, finding=finding)

    def _step(self, turn: Message) -> Step:
        """Take a whole turn, and keep whatever goes wrong in the environment."""
        if self._episode is None:
            raise AgentError("the environment was asked before its reset")
        try:
            step = self._episode.step(turn)
        except Exception as error:
            self._failure = error
            raise
        self._is_over = step.done
        return step

    def _cut(self) -> None:
        """End the rollout at a token limit: there is no answer, and the memory stands."""
        self._is_over = self._is_cut = True

    def _conclude(self, completion: Sequence[Mapping[str, Any]]) -> None:
        """Take the last turn of a rollout that a plain GRPOTrainer has ended."""
        last = completion[-1] if completion else {}
        if self._is_over or last.get("role") != "assistant" or last.get("tool_calls"):
            self._is_over = True
            return
        self._step(text_message("assistant", _text(last.get("content"))))
        self._is_over = True

    def _result(self) -> EnvironmentResult:
        """Say how the episode ended.

        Raises:
            AgentError: the environment failed; the cause is attached.
        """
        if self._failure is not None:
            raise AgentError(
                f"the environment failed on question {self._question_id!r}: "
                f"{type(self._failure).__name__}: {self._failure}; it is a fault of the data or of "
                "AWM, not of the policy, so training stops"
            ) from self._failure
        assert self._episode is not None
        return self._episode.result()

    def _call(self, name: str, **arguments: object) -> list[dict[str, Any]]:
        if self._is_over:
            return [{"type": "text", "text": "No turn is left."}]
        call = ToolCall(name, json.dumps(arguments))
        step = self._step(Message(role="assistant", tool_calls=(call,)))
        return [block for message in step.observations for block in content_blocks(message)]


def content_blocks(message: Message) -> list[dict[str, Any]]:
    """Write a message's content as TRL takes a tool's result.

    Anything but a list of blocks would become text, and its images would be lost.
    """
    return [
        {"type": "image", "image": open_image(block.image)}
        if isinstance(block, ImageBlock)
        else {"type": "text", "text": block.text}
        for block in message.content
    ]


def loggable(message: Message) -> dict[str, Any]:
    """Write a message for TRL's tables of completions, page images by their numbers."""
    lines = [
        block.text if isinstance(block, TextBlock) else f"[image of page {block.page_number}]"
        for block in message.content
    ]
    return {"role": message.role, "content": "\n".join(lines)}


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(block.get("text") or "" for block in content)
    return content if isinstance(content, str) else ""
