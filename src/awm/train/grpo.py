"""GRPO from a checkpoint to an evaluated and exported policy: `awm train grpo`.

Start the same command again to resume: the newest checkpoint, the random states and the journals
go on where they were.

Imports torch and trl: import this module inside functions, after `awm._extras.require`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback

from awm.benchmarks import Benchmark, Example
from awm.errors import ConfigError
from awm.models.build import build_model
from awm.models.chat import ChatModel
from awm.scoring.extraction import ExtractionPrompt
from awm.train.config import DataSource, GRPOSettings, TrainSettings
from awm.train.export import write_policy
from awm.train.journals import TrainingJournals, newest_checkpoint
from awm.train.metrics import TrainingRecord
from awm.train.policy import forbidden_tokens, load_policy, lora_config
from awm.train.preflight import check_grpo, stop_on_failure
from awm.train.reward import MemoryReward, TrajectoryScorer
from awm.train.trainer import AwmGRPOTrainer
from awm.train.trl import TrainingWorld

_log = logging.getLogger(__name__)
Tell = Callable[[str], None]


def run_grpo(settings: GRPOSettings, tell: Tell = _log.info) -> Path:
    """Train, or go on with a training, and export the policy.

    Args:
        settings: what to train.
        tell: told what begins and what came out.

    Returns:
        The folder of the exported policy.

    Raises:
        PreflightError: a check failed; nothing was trained.
        RunMismatchError: the folder was made with other settings.
        EndpointError: the reader or the judge is down; the training can be resumed.
    """
    world, evaluation_world = make_worlds(settings)
    model, processor = load_policy(settings.policy)
    is_main = is_main_process()
    if is_main:
        asked = make_scorer(settings, world.benchmark)
        checks = check_grpo(settings, world, model, processor, asked, evaluation_world)
        stop_on_failure(checks, tell)
    scorer = make_scorer(settings, world.benchmark)
    # The other processes take the checkpoint that the main one takes, and write nothing.
    journals = TrainingJournals(settings.out, settings) if is_main else None
    resume = journals.checkpoint if journals else newest_checkpoint(settings.out)
    reward = MemoryReward(scorer, settings.max_unmeasured_share)

    def record(mode: str, line: TrainingRecord) -> None:
        assert journals is not None
        journals.append(mode, line)
        tell(describe(mode, line))

    trainer = make_trainer(
        settings,
        world,
        evaluation_world,
        model,
        processor,
        reward,
        record,
        is_resumed=resume is not None,
    )
    if resume is not None and is_main:
        tell(f"resumed from {resume}")
    try:
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    finally:
        if journals is not None:
            journals.close()
        _close_models(trainer, scorer)
        world.close()
    return export_trained(trainer, processor, settings)


def is_main_process() -> bool:
    """Tell whether this is the process that writes; accelerate numbers them in RANK."""
    return os.environ.get("RANK", "0") == "0"


def export_trained(trainer: Any, processor: Any, settings: TrainSettings) -> Path:
    """Export what a trainer has trained, from the main process.

    Raises:
        ConfigError: the weights are sharded over devices; the message says how to export them.
    """
    final = settings.out / "final"
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        raise ConfigError(
            "the training is done, and its weights are sharded over devices: export the last "
            f"checkpoint with `awm train export {settings.out}/checkpoint-N --out {final}`"
        )
    if is_main_process():
        model = trainer.accelerator.unwrap_model(trainer.model)
        write_policy(model, processor, settings.policy.path, final)
    return final


def describe(mode: str, line: TrainingRecord) -> str:
    """Say a record in a line."""
    groups = line.groups

    def percent(value: float | None) -> str:
        return "—" if value is None else f"{100 * value:.1f} %"

    return (
        f"{mode} step {line.step}: final {percent(line.final_accuracy)}, memory "
        f"{percent(line.memory_accuracy)}, P_mmc {percent(line.p_mmc)}, groups with signal "
        f"{groups.n_groups_with_signal} of {groups.n_groups}, unmeasured {groups.n_unmeasured}, "
        f"refused {line.refusals:.2f}, findings {line.findings:.2f}"
    )


def pick_examples(benchmark: Benchmark, source: DataSource) -> tuple[Example, ...]:
    """Give the questions of a source."""
    return benchmark.examples[: source.limit]


def make_worlds(settings: GRPOSettings) -> tuple[TrainingWorld, TrainingWorld | None]:
    """Load the questions to train on, and those to evaluate on."""

    def world(source: DataSource) -> TrainingWorld:
        benchmark = source.load()
        examples = pick_examples(benchmark, source)
        if not examples:
            raise ConfigError(f"no question of {benchmark.name} can run")
        return TrainingWorld(benchmark, examples, settings.agent, settings.render)

    return world(settings.train), world(settings.evaluation) if settings.evaluation else None


def make_scorer(settings: GRPOSettings, benchmark: Benchmark) -> TrajectoryScorer:
    """Make what measures rollouts."""
    extractor: ChatModel | None = None
    prompt: ExtractionPrompt | None = None
    if settings.extractor is not None:
        extractor = build_model(settings.extractor, role="--extractor")
        form = benchmark.extraction_form
        path = settings.extraction_prompt
        own = ExtractionPrompt.own(form)
        prompt = own if path is None else ExtractionPrompt.from_file(path, form)
    return TrajectoryScorer(
        benchmark,
        build_model(settings.reader, role="--reader"),
        settings.reward,
        extractor=extractor,
        prompt=prompt,
        timeout_s=settings.score_timeout_s,
    )


def make_trainer(
    settings: GRPOSettings,
    world: TrainingWorld,
    evaluation_world: TrainingWorld | None,
    model: Any,
    processor: Any,
    reward: MemoryReward,
    on_record: Callable[[str, TrainingRecord], None] | None = None,
    *,
    is_resumed: bool = False,
    trainer_class: type[AwmGRPOTrainer] = AwmGRPOTrainer,
) -> AwmGRPOTrainer:
    """Make the trainer; see `awm.train.trainer`."""
    train_rows = _rows(world, list(world.examples))
    held_out = None
    if evaluation_world is not None:
        held_out = _rows(evaluation_world, list(evaluation_world.examples))
        world.admit(evaluation_world)
    arguments = grpo_arguments(settings, forbidden_tokens(model, processor.tokenizer))
    arguments.update(_evaluation_arguments(settings, held_out is not None, is_resumed))
    trainer = trainer_class(
        world=world,
        reward=reward,
        on_record=on_record,
        model=model,
        args=_grpo_config(arguments),
        train_dataset=train_rows,
        eval_dataset=held_out,
        processing_class=processor,
        peft_config=lora_config(settings.policy),
    )
    trainer.remove_callback(PrinterCallback)  # it prints a hundred figures a step
    return trainer


def grpo_arguments(settings: GRPOSettings, forbidden: Sequence[int]) -> dict[str, Any]:
    """Give the options of TRL's GRPOConfig."""
    options = settings.trl
    n_devices = max(1, int(os.environ.get("WORLD_SIZE", "1")))
    per_round = settings.micro_batch * n_devices
    if settings.rollouts_per_step % per_round:
        raise ConfigError(
            f"{settings.rollouts_per_step} rollouts a step (questions_per_step x group_size) "
            f"cannot be dealt to {n_devices} devices in rows of {settings.micro_batch}; choose a "
            "micro_batch that divides them"
        )
    generation: dict[str, Any] = (
        {"max_tokens": settings.max_turn_tokens, "logit_bias": dict.fromkeys(forbidden, -100.0)}
        if options.get("use_vllm")
        else {"max_new_tokens": settings.max_turn_tokens, "suppress_tokens": list(forbidden)}
    )
    own = {
        "output_dir": str(settings.out),
        "max_steps": settings.steps,
        "learning_rate": settings.learning_rate,
        "seed": settings.seed,
        "per_device_train_batch_size": settings.micro_batch,
        "gradient_accumulation_steps": settings.rollouts_per_step // per_round,
        "num_generations": settings.group_size,
        "temperature": settings.temperature,
        "max_completion_length": settings.max_completion_tokens,
        "generation_kwargs": generation,
        "beta": settings.beta,
        "scale_rewards": "group",
        "save_strategy": "steps",
        "save_steps": settings.save_every,
        "save_total_limit": settings.keep_checkpoints,
        "report_to": list(settings.log_to) or "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "bf16": settings.policy.dtype == "bfloat16",
    }
    defaults = {
        "loss_type": "grpo",
        "logging_steps": 1,
        "lr_scheduler_type": "constant",
        "warmup_steps": 0,
        "top_k": 0,
        "top_p": 1.0,
    }
    return {**defaults, **own, **options}


def _evaluation_arguments(
    settings: GRPOSettings, evaluates: bool, is_resumed: bool
) -> dict[str, Any]:
    if not evaluates:
        return {"eval_strategy": "no"}
    return {
        "eval_strategy": "steps",
        "eval_steps": settings.evaluate_every,
        "eval_on_start": not is_resumed,
        "num_generations_eval": 1,
        "per_device_eval_batch_size": settings.trl.get(
            "per_device_eval_batch_size", settings.micro_batch
        ),
    }


def _grpo_config(arguments: dict[str, Any]) -> Any:
    import torch
    from trl import GRPOConfig

    if not torch.cuda.is_available():
        arguments = {"use_cpu": True, "gradient_checkpointing": False, **arguments}
    try:
        return GRPOConfig(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"TRL refuses an option ({error}); see the table trl") from error


def _rows(world: TrainingWorld, question_ids: Sequence[str]) -> Dataset:
    return Dataset.from_list([world.dataset_row(id_) for id_ in question_ids])


def _close_models(trainer: Any, scorer: TrajectoryScorer) -> None:
    async def close() -> None:
        await scorer.reader.aclose()
        if scorer.extractor is not None:
            await scorer.extractor.aclose()

    asyncio.run_coroutine_threadsafe(close(), trainer.async_loop).result(timeout=30)
