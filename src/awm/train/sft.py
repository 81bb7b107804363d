"""Supervised fine-tuning on the trajectories of runs: `awm train sft`.

Imports torch and trl: import this module inside functions, after `awm._extras.require`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback

from awm.agent.tools import retrieve_schema, update_memory_schema, view_pages_schema
from awm.errors import ConfigError
from awm.train.config import SFTSettings
from awm.train.dataset import TrajectorySet
from awm.train.grpo import export_trained, is_main_process
from awm.train.journals import newest_checkpoint, settle_settings
from awm.train.policy import load_policy, lora_config
from awm.train.preflight import check_sft, stop_on_failure
from awm.train.rendering import ChatRenderer
from awm.train.rows import Collator, Row, make_row

_log = logging.getLogger(__name__)
Tell = Callable[[str], None]


def run_sft(settings: SFTSettings, tell: Tell = _log.info) -> Path:
    """Imitate trajectories, or go on with a training, and export the policy.

    Returns:
        The folder of the exported policy.

    Raises:
        PreflightError: a check failed; nothing was trained.
        RunMismatchError: the folder was made with other settings.
        DataError: a page no longer gives the image that a run recorded.
    """
    trajectories = TrajectorySet(settings)
    if is_main_process():
        tell(trajectories.selection.describe())
    model, processor = load_policy(settings.policy)
    processor.tokenizer.padding_side = "right"
    renderer = ChatRenderer(processor, tool_schemas(trajectories))
    if is_main_process():
        stop_on_failure(check_sft(settings, trajectories, model, renderer), tell)
    rows = RowSource(trajectories, renderer, settings)
    if rows.n_too_long:
        tell(f"{rows.n_too_long} trajectories are longer than {settings.max_tokens} tokens")
    if is_main_process():
        settings.out.mkdir(parents=True, exist_ok=True)
        settle_settings(settings.out / "settings.json", settings)
    trainer = _make_trainer(settings, model, processor, renderer, rows, tell)
    resume = newest_checkpoint(settings.out)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    processor.tokenizer.padding_side = "left"
    return export_trained(trainer, processor, settings)


def tool_schemas(trajectories: TrajectorySet) -> list[dict[str, Any]]:
    """Give the schemas that the runs' agents had."""
    top_k, view_pages = trajectories.tools
    schemas = [retrieve_schema(top_k), update_memory_schema()]
    return [*schemas, view_pages_schema(top_k)] if view_pages else schemas


class RowSource:
    """The rows of a training set, made when they are asked for.

    Every row is made once at the start, to leave out those that are too long and to find those
    that teach nothing; what is kept then is its number, not its pixels.

    Raises:
        ConfigError: a row has fewer trained tokens than the floor, or none is left.
    """

    def __init__(
        self, trajectories: TrajectorySet, renderer: ChatRenderer, settings: SFTSettings
    ) -> None:
        self._trajectories = trajectories
        self._renderer = renderer
        self.indices: list[int] = []
        self.n_too_long = 0
        for index, trajectory in enumerate(trajectories.selection.trajectories):
            row = self(index)
            if row.n_trained < settings.min_trained_tokens:
                raise ConfigError(
                    f"the trajectory of question {trajectory.question_id!r} has {row.n_trained} "
                    f"trained tokens, fewer than min_trained_tokens = "
                    f"{settings.min_trained_tokens}; leave it out or lower the floor"
                )
            if len(row.ids) > settings.max_tokens:
                self.n_too_long += 1
            else:
                self.indices.append(index)
        if not self.indices:
            raise ConfigError(
                f"all {self.n_too_long} trajectories are longer than max_tokens = "
                f"{settings.max_tokens}; raise it"
            )

    def __call__(self, index: int) -> Row:
        """Make the row of a trajectory."""
        trajectory = self._trajectories.selection.trajectories[index]
        return make_row(self._renderer, self._trajectories.messages(trajectory))


def _make_trainer(
    settings: SFTSettings,
    model: Any,
    processor: Any,
    renderer: ChatRenderer,
    rows: RowSource,
    tell: Tell,
) -> Any:
    import torch
    from trl import SFTConfig, SFTTrainer

    n_devices = max(1, int(os.environ.get("WORLD_SIZE", "1")))
    per_round = settings.micro_batch * n_devices
    if settings.rows_per_step % per_round:
        raise ConfigError(
            f"{settings.rows_per_step} rows a step cannot be dealt to {n_devices} devices in rows "
            f"of {settings.micro_batch}; choose a micro_batch that divides them"
        )
    defaults: dict[str, Any] = {
        "logging_steps": 1,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 0,
    }
    if not torch.cuda.is_available():
        defaults |= {"use_cpu": True, "gradient_checkpointing": False}
    own = {
        "output_dir": str(settings.out),
        "num_train_epochs": settings.epochs,
        "max_steps": settings.steps or -1,
        "learning_rate": settings.learning_rate,
        "seed": settings.seed,
        "per_device_train_batch_size": settings.micro_batch,
        "gradient_accumulation_steps": settings.rows_per_step // per_round,
        "save_strategy": "steps",
        "save_steps": settings.save_every,
        "save_total_limit": settings.keep_checkpoints,
        "report_to": list(settings.log_to) or "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "dataset_kwargs": {"skip_prepare_dataset": True},
        "max_length": None,
        "bf16": settings.policy.dtype == "bfloat16",
    }
    try:
        args = SFTConfig(**{**defaults, **own, **settings.trl})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"TRL refuses an option ({error}); see the table trl") from error
    # TRL looks at a column `messages` to tell a conversation; the rows come from the collator.
    messages = [{"role": "user", "content": "?"}]
    dataset = Dataset.from_list([{"row": i, "messages": messages} for i in rows.indices])
    trainer = SFTTrainer(
        model=model,
        args=args,
        train_dataset=dataset,
        processing_class=processor,
        data_collator=Collator(renderer, rows),
        peft_config=lora_config(settings.policy),
        callbacks=[_Teller(tell)],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


class _Teller(TrainerCallback):  # type: ignore[misc]
    """Tells the loss of every log line."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        if logs and "loss" in logs:
            accuracy = logs.get("mean_token_accuracy")
            right = "" if accuracy is None else f", tokens right {100 * accuracy:.1f} %"
            self._tell(f"step {state.global_step}: loss {logs['loss']:.4f}{right}")
