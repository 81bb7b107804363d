"""The tokenizer, and rows of ids: what is trained is what the processor makes of an episode."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `local` (torch, transformers) is not installed")
pytest.importorskip("transformers", reason="the extra `local` is not installed")

import torch
from PIL import Image

from awm.agent import prompt
from awm.agent.reader import reader_messages
from awm.benchmarks.pocket_world import COLUMNS, ROWS, draw_page, make_case, training_cases
from awm.models.chat import Message, text_message
from awm.models.template import template_message
from awm.pocket.encoding import Encoder
from awm.pocket.model import N_VISUAL, page_pixels, patches
from awm.pocket.teacher import call_text, open_episode, play
from awm.pocket.tokenizer import (
    END_OF_TURN,
    build_processor,
    chat_template,
    never_sampled,
    tool_schemas,
)

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def processor() -> Any:
    return build_processor()


@pytest.fixture(scope="module")
def encoder(processor: Any) -> Encoder:
    return Encoder(processor.tokenizer, N_VISUAL)


def _episodes(n: int) -> list[tuple[Message, ...]]:
    cases = itertools.islice(training_cases(8), n)
    return [play(case, generic=i % 2 == 0).messages for i, case in enumerate(cases)]


def test_text_survives_the_way_through_ids(processor: Any) -> None:
    tokenizer = processor.tokenizer
    for messages in _episodes(20):
        text = tokenizer.apply_chat_template(
            [template_message(message) for message in messages],
            tools=tool_schemas(),
            tokenize=False,
        )
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("text", ['{"a": "\\u00e9", "b": [1, 02]}', "Zürich 4172 日本", "\x00\n\t"])
def test_any_text_survives(processor: Any, text: str) -> None:
    ids = processor.tokenizer(text, add_special_tokens=False)["input_ids"]

    assert processor.tokenizer.decode(ids) == text


def test_an_episode_has_few_tokens(encoder: Encoder) -> None:
    for messages in _episodes(20):
        row = encoder.conversation(messages)
        assert len(row.ids) < 240
        assert row.ids.count(encoder.image) == 3 * N_VISUAL


def test_other_limits_of_turns_and_pages_cost_only_their_digits(encoder: Encoder) -> None:
    def length(max_turns: int) -> int:
        system = text_message("system", prompt.agent_system(max_turns))
        return len(encoder.conversation([system, text_message("user", "?")]).ids)

    assert length(12) == length(20)
    assert length(8) <= length(12)


def test_rows_are_the_processors_own_ids_and_pixels(processor: Any, encoder: Encoder) -> None:
    messages = _episodes(1)[0]
    images = [
        Image.open(io.BytesIO(block.image.data)).convert("RGB")
        for message in messages
        for block in message.images
    ]
    text = processor.apply_chat_template(
        [template_message(message) for message in messages], tools=tool_schemas(), tokenize=False
    )
    made = processor(text=[text], images=[images], return_tensors="pt")
    fast = np.concatenate([patches(image) for image in images])

    assert made["input_ids"][0].tolist() == encoder.conversation(messages).ids
    assert made["image_grid_thw"].tolist() == [[1, ROWS, COLUMNS]] * 3
    assert torch.allclose(made["pixel_values"].float(), torch.from_numpy(fast), atol=1e-5)


def test_training_pages_go_through_the_encoder_of_evaluation() -> None:
    case = make_case("train", 1, 0)
    environment = open_episode(case)
    step = environment.step(text_message("assistant", call_text("retrieve", query=case.key)))
    block = step.observations[0].images[0]
    shown = Image.open(io.BytesIO(block.image.data)).convert("RGB")
    page = case.pages[block.page_number - 1]

    assert np.array_equal(np.asarray(page_pixels(page)), np.asarray(shown))
    assert not np.array_equal(np.asarray(draw_page(page)), np.asarray(shown))  # JPEG


def test_blank_paper_is_zero() -> None:
    assert not patches(page_pixels(None)).any()


def test_only_the_assistants_tokens_and_their_ends_are_turns(encoder: Encoder) -> None:
    messages = _episodes(1)[0]
    row = encoder.conversation(messages)
    tokenizer = encoder.tokenizer
    turns = [m.text for m in messages if m.role == "assistant"]

    for turn, text in enumerate(turns):
        ids = [i for i, t in zip(row.ids, row.turn_of, strict=True) if t == turn]
        assert tokenizer.decode(ids) == text + END_OF_TURN
    assert max(row.turn_of) == len(turns) - 1


def test_a_reading_has_no_tools_and_one_turn(encoder: Encoder) -> None:
    opening = reader_messages("What is the cost of Acme?", "[p. 3] The cost of Acme is 4172.")
    row = encoder.conversation([*opening, text_message("assistant", "4172")], tools=False)

    assert set(row.turn_of) == {-1, 0}
    assert len(row.ids) < 50


def test_a_policy_can_end_its_turn_and_cannot_write_ours(processor: Any) -> None:
    tokenizer = processor.tokenizer
    forbidden = {tokenizer.decode([token]) for token in never_sampled(tokenizer)}

    assert END_OF_TURN not in forbidden
    assert {"<|image_pad|>", "<|video_pad|>", "<|im_start|>", "assistant\n"} <= forbidden
    assert prompt.FINDING_FIRST in forbidden
    assert not {"<tool_call>", "Acme", "41", " is ", "."} & forbidden


def test_the_chat_template_is_the_one_that_trl_knows() -> None:
    trl = pytest.importorskip("trl", reason="the extra `train` is not installed")
    folder = __import__("pathlib").Path(trl.__file__).parent / "chat_templates"

    assert chat_template() == (folder / "qwen3_vl.jinja").read_text()
