"""Every fault that cost somebody a training stops it before it starts, with what to do."""

from __future__ import annotations

import socket
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `local` is not installed")
pytest.importorskip("trl", reason="the extra `train` is not installed")

from training_world import call, grpo_settings, make_world, play, scripted_reader  # noqa: E402

from awm.benchmarks.contamination import benchmark_items  # noqa: E402
from awm.models.build import build_model  # noqa: E402
from awm.models.chat import Message, ModelSettings, text_message  # noqa: E402
from awm.rl.reward import RewardSettings  # noqa: E402
from awm.train.config import DataSource, PolicySettings  # noqa: E402
from awm.train.estimate import check_precision, lost_update_share  # noqa: E402
from awm.train.grpo import make_scorer  # noqa: E402
from awm.train.policy import load_policy  # noqa: E402
from awm.train.preflight import (  # noqa: E402
    Check,
    PreflightError,
    check_grpo,
    check_images,
    check_judge,
    check_overlap,
    check_reader,
    check_reward_order,
    check_sight,
    check_template,
    check_trained_tokens,
    stop_on_failure,
)
from awm.train.rendering import ChatRenderer  # noqa: E402
from awm.train.reward import TrajectoryScorer  # noqa: E402
from awm.train.sight import page_block  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

WORLD = make_world(4)
EXAMPLE = next(iter(WORLD.examples.values()))


def stopped_by(check: Check) -> str:
    """Give the message with which a check stops a training."""
    with pytest.raises(PreflightError) as stopped:
        stop_on_failure([check], lambda _: None)
    return str(stopped.value)


def conversation(*turns: str) -> list[Message]:
    return play(WORLD, EXAMPLE.question.id, turns or (call("retrieve", query="cost"),))


class BlindProcessor:
    """A processor that drops the images, as a wrongly loaded one does."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def __call__(self, **inputs: Any) -> Any:
        written = self._processor(**inputs)
        return {"input_ids": written["input_ids"]}


class BlindModel(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A model that the images do not reach."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, **_: Any) -> Any:
        seen = input_ids.clone()
        seen[seen == self.model.config.image_token_id] = 0
        return self.model(input_ids=seen, attention_mask=attention_mask)


def test_a_sound_training_passes_every_check(policy_folder: Any, policy: Any) -> None:
    settings = grpo_settings(
        policy_folder,
        policy_folder.parent / "out",
        held_out=(DataSource(benchmark="pocket", seed=1, limit=40),),
    )
    checks = check_grpo(
        settings, WORLD, policy[0], policy[1], make_scorer(settings, WORLD.benchmark)
    )

    assert [check.name for check in checks if not check.is_passed] == []
    assert len(checks) == 11
    assert all(check.measured for check in checks)


def test_a_dropped_image_stops_training(renderer: ChatRenderer) -> None:
    blind = ChatRenderer(BlindProcessor(renderer.processor), renderer.tools)

    message = stopped_by(check_images(blind, [conversation()]))

    assert "3 images were given to the processor and 0 came back" in message
    assert "check the processor" in message


def test_a_sightless_model_stops_training(renderer: ChatRenderer, policy: Any) -> None:
    message = stopped_by(check_sight(BlindModel(policy[0]), renderer))

    assert "0.00e+00 nats apart" in message
    assert "the images do not reach the model" in message
    assert check_sight(policy[0], renderer).is_passed


TEXT_ONLY = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% for c in m.content %}{% if c.type == 'text' %}{{ c.text }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_template_that_ignores_calls_and_images_stops_training(renderer: ChatRenderer) -> None:
    broken = ChatRenderer(renderer.processor, renderer.tools, TEXT_ONLY)

    message = stopped_by(check_template(broken))

    assert "the tools' names in the prompt, a structured call, the image of a tool" in message
    assert "use the tokenizer's own template" in message


def test_a_template_that_cannot_be_rendered_stops_training(renderer: ChatRenderer) -> None:
    broken = ChatRenderer(renderer.processor, renderer.tools, "{{ messages[0].nothing.at_all }}")

    assert "it cannot write a tool conversation" in stopped_by(check_template(broken))


def test_a_row_without_a_trained_token_stops_training(renderer: ChatRenderer) -> None:
    masked = [text_message("user", "?"), text_message("assistant", "")]

    message = stopped_by(check_trained_tokens(renderer, [masked], floor=8))

    assert "1 to 1 a row in 1 rows (floor 8)" in message
    assert "the template drops the assistant's calls" in message


def test_a_conversation_without_a_turn_stops_training(renderer: ChatRenderer) -> None:
    check = check_trained_tokens(renderer, [[text_message("user", "?")]], floor=1)

    assert "without an assistant turn has nothing to learn from" in stopped_by(check)


def test_a_reader_that_is_down_stops_training() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spec = f"openai:reader@http://127.0.0.1:{port}/v1"
    reader = build_model(ModelSettings(spec=spec, max_retries=0, timeout_s=5))
    scorer = TrajectoryScorer(WORLD.benchmark, reader, RewardSettings())

    message = stopped_by(check_reader(scorer, EXAMPLE))

    assert spec in message
    assert "start the server of reader.spec" in message


def test_an_extractor_that_times_out_stops_training() -> None:
    from awm.scoring.extraction import ExtractionPrompt

    scorer = TrajectoryScorer(
        WORLD.benchmark,
        scripted_reader(),
        RewardSettings(),
        extractor=scripted_reader("", **{"": "timeout"}),
        prompt=ExtractionPrompt.own("labelled"),
    )

    assert "start the server of extractor.spec" in stopped_by(check_judge(scorer, EXAMPLE))


def test_training_on_the_benchmark_stops_training() -> None:
    items = benchmark_items(WORLD.benchmark)

    (check,) = check_overlap(items, [("the test set", items[1:3])], ())

    message = stopped_by(check)
    assert "2 documents and 2 questions in both" in message
    assert "take these documents and questions out" in message


def test_the_same_words_about_other_documents_are_no_leak() -> None:
    (check,) = check_overlap(
        benchmark_items(WORLD.benchmark), [], (DataSource(benchmark="pocket", seed=3),)
    )

    assert check.is_passed
    assert "0 documents and 0 questions in both" in check.measured


def test_without_a_benchmark_nothing_is_compared_and_it_is_said() -> None:
    (check,) = check_overlap(benchmark_items(WORLD.benchmark), [], ())

    assert check.is_passed is None
    assert check.describe().startswith("skip  overlap: 4 training questions, not compared")


@pytest.mark.parametrize("kind", ["awm", "answer_only", "graded"])
def test_the_rewards_that_settings_allow_are_in_order(kind: Any) -> None:
    assert check_reward_order(RewardSettings(kind=kind)).is_passed


def test_the_page_of_the_sight_test_shows_its_number() -> None:
    _, first = page_block("page 1 of 9:", "4172")
    _, second = page_block("page 1 of 9:", "9385")

    assert first.image.digest != second.image.digest  # type: ignore[union-attr]
    assert (first.image.width, first.image.height) == (80, 96)  # type: ignore[union-attr]


def test_steps_that_bfloat16_rounds_away_stop_training(policy_folder: Any) -> None:
    settings = grpo_settings(
        policy_folder,
        policy_folder.parent / "out",
        learning_rate=1e-6,
        policy=PolicySettings(path=str(policy_folder), dtype="bfloat16"),
    )
    model, _ = load_policy(settings.policy)

    message = stopped_by(check_precision(settings, model))

    assert "a step of 1e-06 is rounded away in" in message
    assert 'policy.dtype = "float32"' in message
    assert lost_update_share(model.float(), 1e-6) == 0.0
