"""Checks before training: each says what it measured, and how to mend a failure.

Every one of them stands for a fault that cost somebody a training: images that did not travel,
rows without a trainable token, a template that ignored structured calls, a reader that was down and
counted as reward 0, a benchmark in the training data.

Imports torch and transformers: import this module inside functions, after
`awm._extras.require`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from awm.agent.reader import read_memory
from awm.benchmarks import Example
from awm.benchmarks.contamination import OverlapItem, OverlapReport, benchmark_items, find_overlap
from awm.errors import AwmError, ConfigError, EndpointError, UserError
from awm.evaluate import score_answer
from awm.memory import Finding
from awm.models.chat import ChatModel, Message, ToolCall, count_images, text_message
from awm.rl.reward import RewardSettings, TrajectoryMeasures, compute_reward
from awm.scoring.outcome import Outcome
from awm.train.config import DataSource, GRPOSettings, SFTSettings, TrainSettings
from awm.train.dataset import TrajectorySet, first_of_each_document
from awm.train.estimate import check_resources
from awm.train.policy import load_policy
from awm.train.probe import play_by_rote
from awm.train.rendering import ChatRenderer, check_rendering
from awm.train.reward import TrajectoryScorer
from awm.train.rows import make_row
from awm.train.sight import page_block, sight_gap
from awm.train.trl import TrainingWorld

SAMPLE = 4
"""Conversations that the checks of rows and images look at."""
MIN_SIGHT_GAP = 1e-4
"""Nats. A model that does not get the image gives exactly the same likelihood twice."""


class PreflightError(UserError):
    """A check before training failed; the message says which, and how to mend it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check's outcome."""

    name: str
    is_passed: bool | None
    """None: there was nothing to measure."""
    measured: str
    mend: str = ""
    """What to do where it failed."""

    def describe(self) -> str:
        """Say it in a line or two."""
        if self.is_passed is None:
            return f"skip  {self.name}: {self.measured}"
        if self.is_passed:
            return f"ok    {self.name}: {self.measured}"
        return f"FAIL  {self.name}: {self.measured}\n      {self.mend}"


def stop_on_failure(checks: Sequence[Check], tell: Callable[[str], None]) -> None:
    """Tell every check, and stop where one failed.

    Raises:
        PreflightError: with every failure and how to mend it.
    """
    for check in checks:
        tell(check.describe())
    failed = [check for check in checks if check.is_passed is False]
    if failed:
        lines = "\n".join(check.describe() for check in failed)
        raise PreflightError(f"{len(failed)} of {len(checks)} checks failed:\n{lines}")


def check_grpo(
    settings: GRPOSettings,
    world: TrainingWorld,
    model: Any,
    processor: Any,
    scorer: TrajectoryScorer,
    evaluation: TrainingWorld | None = None,
) -> list[Check]:
    """Run every check of a GRPO training; closes the models of `scorer`."""
    renderer = ChatRenderer(processor, world.tool_schemas())
    conversations = play_by_rote(world, SAMPLE)
    train = _of_examples(benchmark_items(world.benchmark), world.examples)
    sources: list[tuple[str, list[OverlapItem]]] = []
    if evaluation is not None:
        items = benchmark_items(evaluation.benchmark)
        sources.append(("evaluation", _of_examples(items, evaluation.examples)))
    return [
        check_template(renderer),
        check_images(renderer, conversations),
        check_trained_tokens(renderer, conversations, settings.min_trained_tokens),
        check_sight(model, renderer),
        check_reader(scorer, next(iter(world.examples.values()))),
        check_judge(scorer, next(iter(world.examples.values()))),
        check_reward_order(settings.reward),
        *check_overlap(train, sources, settings.held_out),
        *check_resources(settings, model, n_checkpoints=settings.keep_checkpoints + 1),
    ]


def check_sft(
    settings: SFTSettings, trajectories: TrajectorySet, model: Any, renderer: ChatRenderer
) -> list[Check]:
    """Run every check of a supervised training."""
    sample = first_of_each_document(trajectories.selection.trajectories)[:SAMPLE]
    conversations = [trajectories.messages(trajectory) for trajectory in sample]
    return [
        check_template(renderer),
        check_images(renderer, conversations),
        check_trained_tokens(renderer, conversations, settings.min_trained_tokens),
        check_sight(model, renderer),
        *check_overlap(trajectories.overlap_items(), [], settings.held_out),
        *check_resources(settings, model, n_checkpoints=settings.keep_checkpoints + 1),
    ]


def check_template(renderer: ChatRenderer) -> Check:
    """Check that the template writes tools, structured calls and images of tools."""
    name = "chat template"
    call = ToolCall("update_memory", '{"page": 7, "finding": "azure lamps"}')
    opening = text_message("user", "?")
    mend = (
        "use the tokenizer's own template of a model trained for tool calls (Qwen3-VL-Instruct), "
        "unchanged; an edited or foreign template drops what it does not know"
    )
    try:
        prompt = renderer.text([opening], for_turn=True)
        turn = renderer.turn_text(Message(role="assistant", tool_calls=(call,)))
        reply = Message(role="tool", name="retrieve", content=page_block("page 1 of 9:", "4172"))
        shown = renderer.observation_text([reply])
        told = renderer.observation_text([text_message("user", "refused")])
    except Exception as error:  # noqa: BLE001  jinja templates raise what they like
        return Check(name, False, f"it cannot write a tool conversation ({error})", mend)
    place = renderer.processor.image_token
    faults = [
        what
        for what, is_missing in (
            ("the tools' names in the prompt", "update_memory" not in prompt),
            ("a structured call", "update_memory" not in turn or "azure lamps" not in turn),
            ("the image of a tool message", shown.count(place) != 1),
            ("the text of a tool message", "page 1" not in shown),
            ("a user message after a turn", "refused" not in told),
        )
        if is_missing
    ]
    if faults:
        return Check(name, False, f"it leaves out {', '.join(faults)}", mend)
    return Check(name, True, "writes tools, structured calls, and images of tool messages")


def check_images(renderer: ChatRenderer, conversations: Sequence[Sequence[Message]]) -> Check:
    """Check that every image of a conversation has its places and its features."""
    name = "images"
    mend = (
        "no training on rows without their images: check the processor (Qwen3-VL's, loaded "
        "through its class) and that nothing cuts tokens"
    )
    n_images = n_places = 0
    try:
        for messages in conversations:
            row = make_row(renderer, messages)
            check_rendering(renderer, messages)
            shown = count_images(messages)
            if row.n_images != shown:
                measured = f"{shown} images were shown and {row.n_images} are in the row"
                return Check(name, False, measured, mend)
            n_images += shown
            n_places += renderer.n_features(row.fields)
    except AwmError as error:
        return Check(name, False, str(error), mend)
    if not n_images:
        return Check(name, False, f"no image in {len(conversations)} conversations", mend)
    return Check(
        name,
        True,
        f"{n_images} images in {len(conversations)} conversations: {n_places} places, as many "
        "features",
    )


def check_trained_tokens(
    renderer: ChatRenderer, conversations: Sequence[Sequence[Message]], floor: int
) -> Check:
    """Check that every row has tokens to learn from."""
    name = "trained tokens"
    try:
        counts = [make_row(renderer, messages).n_trained for messages in conversations]
    except AwmError as error:
        return Check(name, False, str(error), "mend the conversation that the message names")
    measured = f"{min(counts)} to {max(counts)} a row in {len(counts)} rows (floor {floor})"
    if min(counts) < floor:
        return Check(
            name,
            False,
            measured,
            "a row that teaches nothing makes a policy fall silent within steps: the template "
            "drops the assistant's calls, or the trajectories are empty; mend it, or lower "
            "min_trained_tokens if turns are really that short",
        )
    return Check(name, True, measured)


def check_sight(model: Any, renderer: ChatRenderer) -> Check:
    """Check that the likelihood of an answer depends on what the page shows."""
    name = "sight"
    try:
        gap = sight_gap(model, renderer)
    except (AwmError, RuntimeError, ValueError, IndexError, TypeError) as error:
        return Check(
            name,
            False,
            f"the model cannot be asked about a page ({error})",
            "load the policy with its own processor, as in `--model transformers:PATH`",
        )
    measured = (
        f"log-likelihoods of an answer on two pages that differ only in it are {gap:.2e} nats apart"
    )
    if gap < MIN_SIGHT_GAP:
        return Check(
            name,
            False,
            measured,
            "the images do not reach the model, and training would go on looking healthy: check "
            "that pixel_values arrive, and that the processor belongs to the model",
        )
    return Check(name, True, measured)


def check_reader(scorer: TrajectoryScorer, example: Example) -> Check:
    """Check that the reader answers, and close it."""
    finding = Finding(text="Nothing was found.", page=1, turn=0)
    question = example.question

    async def read() -> str:
        reading = await read_memory(question.id, question.text, [finding], scorer.reader)
        if reading.error is not None:
            raise EndpointError(f"{reading.error.type}: {reading.error.message}")
        return f"answered {(reading.answer or '')[:40]!r}"

    return _ask("reader", scorer.reader.settings.spec, read, "reader", scorer.reader)


def check_judge(scorer: TrajectoryScorer, example: Example) -> Check:
    """Check that the judge gives the gold answer a point.

    Where there is an extractor, the answer goes through it, and it is closed.
    """
    gold = str(example.gold.answer)

    async def judge() -> str:
        scored = await score_answer(
            example,
            gold,
            scorer.benchmark.judge,
            scorer.extractor,
            scorer.prompt,
            scorer.benchmark.read_prediction,
        )
        if scored.error is not None:
            raise EndpointError(f"{scored.error.type}: {scored.error.message}")
        if not scored.score:
            raise ConfigError(f"the gold answer {gold!r} is judged {scored.score}")
        return f"{scorer.benchmark.judge.name} gives the gold answer {scored.score}"

    spec = scorer.extractor.settings.spec if scorer.extractor else scorer.benchmark.judge.name
    return _ask("judge", spec, judge, "extractor", scorer.extractor)


def _ask(
    name: str,
    spec: str,
    work: Callable[[], Awaitable[str]],
    setting: str,
    model: ChatModel | None,
) -> Check:
    async def ask_and_close() -> str:
        try:
            return await work()
        finally:
            if model is not None:
                await model.aclose()

    try:
        return Check(name, True, f"{spec} {asyncio.run(ask_and_close())}")
    except (EndpointError, ConfigError) as error:
        return Check(
            name,
            False,
            f"{spec} gives nothing usable: {error}",
            f"start the server of {setting}.spec and see that `curl BASE_URL/models` lists the "
            "model; without it every trajectory would be unmeasured",
        )


def check_reward_order(settings: RewardSettings) -> Check:
    """Check that better cells are never worth less, with every term at its worst."""
    name = "reward order"
    values: dict[Outcome, float] = {}
    for cell, (final, memory) in zip(
        Outcome, ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)), strict=True
    ):
        measures = TrajectoryMeasures(
            final, memory, grounded_share=0.0, self_consistency=0.5, memory_words=0
        )
        reward = compute_reward(measures, settings)
        assert reward is not None
        values[cell] = reward.total
    measured = ", ".join(f"{cell} {value:g}" for cell, value in values.items())
    ordered = list(values.values())
    if ordered != sorted(ordered, reverse=True) or ordered[0] <= ordered[-1]:
        return Check(name, False, measured, "give r11 > r10 > r01 > r00")
    return Check(name, True, f"{settings.kind}: {measured}")


def check_overlap(
    train: Sequence[OverlapItem],
    loaded: Sequence[tuple[str, Sequence[OverlapItem]]],
    held_out: Sequence[DataSource],
) -> list[Check]:
    """Compare the training questions with everything that will measure them."""
    sides = list(loaded)
    for source in held_out:
        benchmark = source.load()
        kept = {example.question.id for example in benchmark.examples[: source.limit]}
        items = [item for item in benchmark_items(benchmark) if item.id in kept]
        sides.append((benchmark.name, items))
    if not sides:
        measured = (
            f"{len(train)} training questions, not compared with any benchmark; name those that "
            "the policy will be measured on under held_out"
        )
        return [Check("overlap", None, measured)]
    return [_overlap(name, find_overlap(train, items)) for name, items in sides]


def _overlap(name: str, report: OverlapReport) -> Check:
    documents = len(report.shared_documents or ()) + len(report.same_names)
    pairs = (*report.same_questions, *report.near_questions)
    # The same words over two documents are a template ("How many figures are there?"), not a leak.
    leaks = [pair for pair in pairs if pair.same_document is not False]
    measured = (
        f"{report.n_train} training questions against {report.n_benchmark} of {name}: {documents} "
        f"documents and {len(leaks)} questions in both, {len(pairs) - len(leaks)} alike about "
        "other documents"
    )
    if documents or leaks:
        return Check(
            "overlap",
            False,
            measured,
            "take these documents and questions out of the training data: what is measured would "
            "have been learned by heart",
        )
    return Check("overlap", True, measured)


def _of_examples(items: Sequence[OverlapItem], examples: Any) -> list[OverlapItem]:
    return [item for item in items if item.id in examples]


def preflight(settings: TrainSettings) -> list[Check]:
    """Load what a training would load, and run its checks."""
    from awm.train.grpo import make_scorer, make_worlds
    from awm.train.sft import tool_schemas

    model, processor = load_policy(settings.policy)
    if isinstance(settings, SFTSettings):
        trajectories = TrajectorySet(settings)
        renderer = ChatRenderer(processor, tool_schemas(trajectories))
        return check_sft(settings, trajectories, model, renderer)
    assert isinstance(settings, GRPOSettings)
    world, evaluation = make_worlds(settings)
    scorer = make_scorer(settings, world.benchmark)
    return check_grpo(settings, world, model, processor, scorer, evaluation)
