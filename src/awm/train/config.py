"""What a training can be told, by a TOML recipe or by `--set`; written beside its results.

Everything that decides numbers is here or in the models that it names. Options of TRL that AWM has
no opinion on pass through `trl`; those that AWM sets itself are refused there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from awm.agent.environment import AgentSettings
from awm.benchmarks import Benchmark, load_benchmark
from awm.documents import RenderSettings
from awm.models.chat import ModelSettings
from awm.rl.reward import RewardSettings
from awm.scoring.outcome import Outcome

_FROZEN = ConfigDict(frozen=True, extra="forbid")

OWN_TRL_OPTIONS = frozenset(
    {
        "output_dir",
        "num_generations",
        "num_generations_eval",
        "scale_rewards",
        "max_completion_length",
        "remove_unused_columns",
        "generation_kwargs",
        "max_tool_calling_iterations",
        "reward_weights",
        "dataset_kwargs",
        "resume_from_checkpoint",
        "chat_template_path",
        "seed",
        "max_steps",
        "learning_rate",
        "save_steps",
        "save_strategy",
    }
)
"""Options of TRL that AWM sets from its own settings."""


class DataSource(BaseModel):
    """A benchmark, or a part of it, to train on or to measure with."""

    model_config = _FROZEN

    benchmark: str
    """As in `awm eval --benchmark`; `pocket-train` gives the pocket world's training split."""
    data: Path | None = None
    overlay: Path | None = None
    seed: int | None = None
    """Of a generated benchmark."""
    limit: int | None = Field(default=None, ge=1)
    """Only the first so many questions that can run."""

    def load(self) -> Benchmark:
        """Load it; `limit` is not applied.

        Raises:
            ConfigError: there is no such benchmark.
            BenchmarkError: its files cannot be used.
        """
        if self.benchmark == "pocket-train":
            from awm.pocket.grpo import training_benchmark

            return training_benchmark(self.seed or 0, self.limit or 1024)
        return load_benchmark(self.benchmark, self.data, self.overlay, self.seed)


class LoraSettings(BaseModel):
    """Train a low-rank addition to the language model instead of its weights."""

    model_config = _FROZEN

    rank: int = Field(default=64, ge=1)
    alpha: int = Field(default=128, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)


class PolicySettings(BaseModel):
    """The model that is trained, and which part of it."""

    model_config = _FROZEN

    path: str
    """A folder, or a name on the Hugging Face hub."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights; `trl.bf16 = true` makes the arithmetic bfloat16 in either. bfloat16 weights
    suit LoRA, whose own weights are float32: small steps are rounded away in them."""
    freeze_vision: bool = True
    """Keep the vision tower and its merger as they are. TRL 1.16 resets only the prefix cache of
    vLLM after a weight sync (trl#7198), so a trained tower would be asked with stale image
    features; and the reading of pages comes from pre-training, which thousands of rollouts with
    one scalar reward can only spoil."""
    lora: LoraSettings | None = None
    """None: all weights that are not frozen."""


class TrainSettings(BaseModel):
    """What SFT and GRPO share."""

    model_config = _FROZEN

    policy: PolicySettings
    out: Path
    """Folder of checkpoints, journals and the final model; an interrupted training goes on in
    it."""
    held_out: tuple[DataSource, ...] = ()
    """Benchmarks that the training data must not overlap, beside the evaluation's own."""
    learning_rate: float = Field(default=1e-6, gt=0)
    seed: int = 0
    save_every: int = Field(default=20, ge=1)
    """Steps between checkpoints."""
    keep_checkpoints: int = Field(default=2, ge=1)
    micro_batch: int = Field(default=1, ge=1)
    """Rows of one forward pass on one device."""
    log_to: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = ()
    """Loggers of TRL; the journals are written in any case."""
    min_trained_tokens: int = Field(default=8, ge=1)
    """Floor of trainable tokens of a row, checked before training."""
    trl: dict[str, Any] = Field(default_factory=dict)
    """Further options of GRPOConfig or SFTConfig, as TRL names them: use_vllm, vllm_mode,
    gradient_checkpointing, bf16, …"""

    @model_validator(mode="after")
    def _leaves_own_options_alone(self) -> Self:
        own = sorted(OWN_TRL_OPTIONS & set(self.trl))
        if own:
            raise ValueError(f"trl.{own[0]} is set by AWM from its own settings; leave it out")
        return self


class GRPOSettings(TrainSettings):
    """All that `awm train grpo` can be told."""

    train: DataSource
    evaluation: DataSource | None = None
    """Held-out questions that are asked every `evaluate_every` steps; None: never."""
    evaluate_every: int = Field(default=20, ge=1)
    reader: ModelSettings
    """The frozen reader."""
    extractor: ModelSettings | None = None
    """Shortens answers before the judge; None: they are judged as they are."""
    extraction_prompt: Path | None = None
    reward: RewardSettings = RewardSettings()
    score_timeout_s: float = Field(default=600.0, gt=0)
    """Limit of scoring one trajectory, with all retries; beyond it the trajectory is unmeasured."""
    max_unmeasured_share: float = Field(default=0.5, ge=0, le=1)
    """Training stops where a larger share of a step is unmeasured: a reader is down."""
    agent: AgentSettings = AgentSettings()
    render: RenderSettings = RenderSettings()
    steps: int = Field(ge=1)
    questions_per_step: int = Field(default=16, ge=1)
    group_size: int = Field(default=8, ge=2)
    """Rollouts of a question: G."""
    temperature: float = Field(default=1.0, gt=0)
    """Of rollouts, also in the evaluations inside training."""
    max_completion_tokens: int = Field(default=16384, ge=1)
    """Of all turns, observations and image places of a rollout together."""
    max_turn_tokens: int = Field(default=1024, ge=1)
    """Of one turn of the policy."""
    beta: float = Field(default=0.0, ge=0)
    """Weight of the KL term; 0 keeps no reference model."""

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts between two updates."""
        return self.questions_per_step * self.group_size


class SFTSettings(TrainSettings):
    """All that `awm train sft` can be told."""

    learning_rate: float = Field(default=1e-5, gt=0)
    runs: tuple[Path, ...] = Field(min_length=1)
    """Run folders whose trajectories are imitated."""
    data: Path | None = None
    """Where the runs' benchmark lies now; None: where the run read it."""
    keep: tuple[Outcome, ...] = (Outcome.MEMORY_SUPPORTED_CORRECT,)
    min_score: float = Field(default=0.5, ge=0, le=1)
    """Least score of the final answer."""
    max_refusals: int = Field(default=0, ge=0)
    """A trajectory with more refused calls is left out: imitation would learn the mistakes."""
    epochs: float = Field(default=2.0, gt=0)
    rows_per_step: int = Field(default=32, ge=1)
    max_tokens: int = Field(default=32768, ge=1)
    """A longer trajectory is left out whole, never cut."""
    steps: int | None = Field(default=None, ge=1)
    """Stop after so many updates; None: after the epochs."""
