"""TRL's GRPOTrainer with the episodes of evaluation.

Three things are ours, all small:

- the turns between two generations: TRL's own loop parses calls itself and ends an episode at the
  first turn without one. Ours hands the sampled text to the environment, so episodes are those of
  evaluation, token by token;
- the advantage: (r - mean) / (std + 1e-6) with the population standard deviation over the measured
  members of a group (arXiv 2608.25618); TRL has 1e-4 and the sample standard deviation;
- the checks: images are counted at every hand-over, and where TRL would drop all images of a batch
  without a word, training stops.

Imports torch and trl: import this module inside functions, after `awm._extras.require`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from awm.errors import ConfigError, MissingImageError
from awm.models.chat import text_message
from awm.rl.advantage import batched_group_advantages
from awm.rl.tokens import TokenTrajectory, check_image_places
from awm.train.metrics import StepRecorder, TrainingRecord, loggable_metrics
from awm.train.rendering import ChatRenderer, Piece
from awm.train.reward import MemoryReward
from awm.train.trl import RolloutEnvironment, TrainingWorld, loggable

OnRecord = Callable[[str, TrainingRecord], None]


class AwmGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """See the module.

    Args:
        world: where episodes come from.
        reward: what they are worth.
        on_record: told "train" or "eval" and the figures, at every log line.
        trl: the arguments of `GRPOTrainer`.
    """

    def __init__(
        self,
        *,
        world: TrainingWorld,
        reward: MemoryReward,
        on_record: OnRecord | None = None,
        **trl: Any,
    ) -> None:
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
        super().__init__(reward_funcs=[reward], environment_factory=world.new_environment, **trl)
        if self.scale_rewards != "group":
            raise ConfigError("AWM computes group advantages; leave scale_rewards at 'group'")
        schemas = world.tool_schemas()
        # The very schemas of evaluation, in place of those that TRL reads off the methods.
        self._env_tools = {None: schemas}
        # Turns are read by the parser of evaluation, so TRL's own is switched off.
        self._tokenizer.response_template = None
        self._renderer = ChatRenderer(self.processing_class, schemas, self.chat_template)
        self.world = world
        self._awm_reward = reward
        self._recorder = StepRecorder()
        self._on_record = on_record
        self._gathered_rewards: Any = None
        self._images_shown = 0

    def _tool_call_loop(
        self,
        prompts: Any,
        prompt_ids: list[list[int]],
        completion_ids: list[list[int]],
        completions: Any,
        logprobs: list[list[float]] | None,
        images: Any,
        multimodal_fields: Any,
    ) -> tuple[Any, ...]:
        """Play all episodes to their end; replaces TRL's loop and gives what it gives."""
        limit = self.max_completion_length
        rollouts = [
            Rollout(environment, ids, self._renderer, limit, self._max_positions())
            for environment, ids in zip(self.environments, prompt_ids, strict=True)
        ]
        active, turns, turn_logprobs = rollouts, completion_ids, logprobs
        while active:
            for i, rollout in enumerate(active):
                rollout.take_turn(turns[i], turn_logprobs[i] if turn_logprobs else None)
            active = [rollout for rollout in active if not rollout.is_over]
            if active:
                turns, turn_logprobs = self._next_turns(active)
        self._images_shown = sum(rollout.tokens.n_images for rollout in rollouts)
        return (
            [rollout.tokens.completion_mask for rollout in rollouts],
            [rollout.messages for rollout in rollouts],
            [rollout.tokens.completion_ids for rollout in rollouts],
            [r.tokens.sampled_logprobs for r in rollouts] if logprobs is not None else None,
            sum(rollout.n_calls for rollout in rollouts),
            sum(len(rollout.environment._result().refusals) for rollout in rollouts),
            [rollout.images for rollout in rollouts],
        )

    def _next_turns(self, active: Sequence[Rollout]) -> tuple[Any, Any]:
        fields: dict[str, list[Any]] = {}
        for rollout in active:
            rollout.check()
            for piece in rollout.pieces:
                for name, value in piece.fields.items():
                    fields.setdefault(name, []).append(value)
        shown = [rollout.images for rollout in active]
        has_images = any(shown)
        turns, logprobs = self._generate_single_turn(
            [rollout.tokens.ids for rollout in active],
            [images or None for images in shown] if has_images else None,
            {name: torch.cat(values) for name, values in fields.items()},
            num_generations=1,
            has_tool_images=has_images,
        )
        return turns, logprobs

    def _max_positions(self) -> int:
        if self.use_vllm and self.vllm_mode == "colocate":
            engine = self.vllm_generation.llm.llm_engine
            return int(engine.model_config.max_model_len)
        return int(self.model.config.get_text_config().max_position_embeddings)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        self._gathered_rewards = super()._calculate_rewards(*args, **kwargs)
        return self._gathered_rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        self._check_images(output, self._images_shown, "from the rollouts to the loss")
        training = self.model.training
        group_size = self.num_generations if training else self.num_generations_eval
        self._set_advantages(output, len(inputs), group_size)
        scored = [
            replace(one, is_cut=environment._is_cut)
            for one, environment in zip(self._awm_reward.last, self.environments, strict=True)
        ]
        self._recorder.add("train" if training else "eval", gather_object(scored), group_size)
        return output

    def _set_advantages(self, output: dict[str, Any], n_local: int, group_size: int) -> None:
        rewards_BG = self._gathered_rewards[:, 0].double().cpu().numpy().reshape(-1, group_size)
        advantages_N = batched_group_advantages(rewards_BG).ravel().astype(np.float32)
        begin = self.accelerator.process_index * n_local
        local = torch.from_numpy(advantages_N[begin : begin + n_local])
        output["advantages"] = local.to(output["advantages"].device)
        logged = self._logs["advantages"]
        for _ in range(min(len(logged), len(advantages_N))):
            logged.pop()
        logged.extend(advantages_N.tolist())

    def _check_images(self, batch: dict[str, Any], n_images: int | None, where: str) -> None:
        grid = batch.get("image_grid_thw")
        n_arrived = 0 if grid is None or "pixel_values" not in batch else len(grid)
        if n_images is not None and n_arrived != n_images:
            raise MissingImageError(
                f"{where}: {n_images} page images were shown and {n_arrived} arrived; nothing is "
                "trained on such a batch. Raise max_completion_tokens, or check the processor "
                "(awm train preflight)"
            )
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1).flatten().tolist()
        features = self._renderer.n_features({"image_grid_thw": grid} if n_arrived else {})
        check_image_places(ids, self._renderer.image_token_id, features, n_arrived, where)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        self._check_images(inputs, None, "in the loss")
        return super()._compute_loss(model, inputs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add AWM's figures to TRL's."""
        mode = "train" if self.model.training else "eval"
        record = self._recorder.take(mode, self.state.global_step)
        if record is not None:
            for name, value in loggable_metrics(record).items():
                self._metrics[mode][name] = [value]
            if self._on_record is not None and self.accelerator.is_main_process:
                self._on_record(mode, record)
        super().log(logs, start_time)


class Rollout:
    """One episode while it is played.

    Args:
        environment: its slot.
        prompt_ids: the ids of its prompt.
        renderer: writes observations.
        max_completion: most tokens behind the prompt.
        max_positions: most tokens that the model can read.
    """

    def __init__(
        self,
        environment: RolloutEnvironment,
        prompt_ids: list[int],
        renderer: ChatRenderer,
        max_completion: int,
        max_positions: int,
    ) -> None:
        self.environment = environment
        self.tokens = TokenTrajectory(prompt_ids)
        self.messages: list[dict[str, Any]] = []
        """What was said, for logs."""
        self.images: list[Any] = []
        self.pieces: list[Piece] = []
        """Observations with images."""
        self.n_calls = 0
        self.is_over = False
        self._renderer = renderer
        self._room = min(max_completion, max_positions - len(prompt_ids) - 1)

    def take_turn(self, ids: list[int], logprobs: Sequence[float] | None) -> None:
        """Take a sampled turn: hand it to the environment, and append what answers it.

        An observation that does not fit is left out whole, and the episode ends there.
        """
        left = self._room - len(self.tokens.completion_ids)
        ids = ids[:left]
        self.tokens.add_sampled(ids, logprobs[:left] if logprobs is not None else None)
        turn = text_message("assistant", self._renderer.decode(ids))
        self.messages.append(loggable(turn))
        step = self.environment._step(turn)
        if step.done:
            self.is_over = True
            return
        self.n_calls += len(step.observations)
        ended = bool(ids) and ids[-1] == self._renderer.eos_id
        piece = self._renderer.observation(step.observations, turn_ended=ended)
        if len(self.tokens.completion_ids) + len(piece.ids) >= self._room:
            self.environment._cut()
            self.is_over = True
            return
        self.tokens.add_observation(piece.ids, len(piece.images))
        self.messages += map(loggable, step.observations)
        self.images += piece.images
        if piece.images:
            self.pieces.append(piece)

    def check(self) -> None:
        """Compare image places and features before the next generation."""
        features = sum(self._renderer.n_features(piece.fields) for piece in self.pieces)
        check_image_places(
            self.tokens.ids,
            self._renderer.image_token_id,
            features,
            len(self.images),
            "from the environment to the model",
        )
