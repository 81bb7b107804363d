"""`transformers:PATH` and `pocket:FOLDER` through the chat protocol, on untrained tiny models."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `local` (torch, transformers) is not installed")
pytest.importorskip("transformers", reason="the extra `local` is not installed")

import torch

from awm.agent.reader import reader_messages
from awm.benchmarks.pocket_world import make_case
from awm.errors import ConfigError, EndpointReplyError, MissingImageError
from awm.models.build import build_model
from awm.models.chat import ChatModel, Message, ModelSettings, ToolCall, text_message
from awm.models.local_processor import load_qwen3_vl_processor
from awm.models.transformers import TransformersModel
from awm.pocket.model import build_policy, build_reader
from awm.pocket.teacher import call_text, open_episode
from awm.pocket.tokenizer import build_tokenizer
from awm.pocket.train import refresh_tokenizers, save_policy, save_reader

pytestmark = pytest.mark.filterwarnings("default")

READING = reader_messages("What is the cost of Acme?", "[p. 3] The cost of Acme is 4172.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    out = tmp_path_factory.mktemp("pocket")
    tokenizer = build_tokenizer()
    save_policy(build_policy(tokenizer, layers=1, vision_layers=1), out / "policy")
    save_reader(build_reader(tokenizer, layers=1), out / "reader")
    return out


def _policy(folder: Path, **settings: Any) -> ChatModel:
    return build_model(ModelSettings(spec=f"transformers:{folder / 'policy'}", **settings))


def _conversation(number: int = 0) -> tuple[tuple[Message, ...], list[dict[str, Any]]]:
    """Give an episode in which three pages have been shown."""
    case = make_case("test", 4, number)
    environment = open_episode(case)
    turn = text_message("assistant", call_text("retrieve", query=case.key))
    step = environment.step(turn)
    messages = (*environment.initial_messages(), turn, *step.observations)
    return messages, environment.tool_schemas()


async def test_every_image_is_sent_and_counted(folder: Path) -> None:
    model = _policy(folder, max_tokens=4, seed=0)
    messages, tools = _conversation()

    completion = await model.complete(messages, tools=tools)

    assert completion.images_sent == 3
    assert completion.usage.completion_tokens == 4
    assert completion.finish_reason == "length"
    assert completion.usage.prompt_tokens is not None
    assert completion.usage.prompt_tokens > 3 * 30
    await model.aclose()


async def test_pages_change_what_the_model_says(folder: Path) -> None:
    model = _policy(folder, max_tokens=12, temperature=1.0)
    messages, tools = _conversation()
    case = make_case("test", 4, 0)
    blank = open_episode(case, blank=True)
    unseen = (*messages[:-1], *blank.step(messages[-2]).observations)

    real = await model.complete(messages, tools=tools, seed=1)
    white = await model.complete(unseen, tools=tools, seed=1)

    assert real.usage.prompt_tokens == white.usage.prompt_tokens
    assert real.message.text != white.message.text
    await model.aclose()


async def test_a_seed_gives_the_same_sample_alone_and_in_a_batch(folder: Path) -> None:
    model = _policy(folder, max_tokens=12)
    conversations = [_conversation(4 * number) for number in range(5)]

    async def ask(number: int) -> str:
        messages, tools = conversations[number]
        return (await model.complete(messages, tools=tools, seed=7)).message.text

    alone = [await ask(number) for number in range(5)]
    together = await asyncio.gather(*(ask(number) for number in range(5)))

    assert list(together) == alone
    assert len(set(alone)) == 5
    await model.aclose()


async def test_samples_without_a_seed_differ(folder: Path) -> None:
    model = _policy(folder, max_tokens=12)
    messages, tools = _conversation()

    said = {(await model.complete(messages, tools=tools)).message.text for _ in range(4)}

    assert len(said) == 4
    await model.aclose()


async def test_temperature_0_is_greedy(folder: Path) -> None:
    model = _policy(folder, max_tokens=6, temperature=0.0)
    messages, tools = _conversation()

    said = {(await model.complete(messages, tools=tools)).message.text for _ in range(3)}

    assert len(said) == 1
    await model.aclose()


async def test_samples_follow_the_softmax(folder: Path) -> None:
    """400 samples of one token against the model's own probabilities."""
    local = TransformersModel(
        ModelSettings(spec=f"transformers:{folder / 'reader'}", max_tokens=1, temperature=1.5)
    )
    text, _ = local._local.render(READING, (), local.settings)
    ids = local._local.tokenizer(text, return_tensors="pt", add_special_tokens=False)
    with torch.no_grad():
        logits = local._local.model(**ids).logits[0, -1] / 1.5
    logits[local._local.forbidden] = float("-inf")
    wanted = logits.softmax(-1)
    top = wanted.argmax().item()

    drawn = await asyncio.gather(*(local.complete(READING, seed=seed) for seed in range(400)))

    counts = Counter(completion.message.text for completion in drawn)
    share = counts[local._local.tokenizer.decode([top])] / 400
    p = wanted[top].item()
    assert abs(share - p) < 4 * (p * (1 - p) / 400) ** 0.5
    await local.aclose()


async def test_a_text_model_refuses_images(folder: Path) -> None:
    model = build_model(ModelSettings(spec=f"transformers:{folder / 'reader'}"))
    messages, tools = _conversation()

    with pytest.raises(MissingImageError, match="is a text model, and the conversation holds 3"):
        await model.complete(messages, tools=tools)
    await model.aclose()


async def test_images_that_a_processor_drops_are_noticed(folder: Path) -> None:
    model = TransformersModel(ModelSettings(spec=f"transformers:{folder / 'policy'}"))
    whole = model._local.processor

    class Dropping:
        image_processor = whole.image_processor

        def __call__(self, images: Any, **inputs: Any) -> Any:
            return whole(images=[images[0][:2]], **inputs)

    model._local = dataclasses.replace(model._local, processor=Dropping())
    messages, tools = _conversation()

    with pytest.raises((MissingImageError, EndpointReplyError)):
        await model.complete(messages, tools=tools)
    await model.aclose()


async def test_structured_calls_of_another_model_are_rendered(folder: Path) -> None:
    model = TransformersModel(ModelSettings(spec=f"transformers:{folder / 'policy'}"))
    call = Message("assistant", tool_calls=(ToolCall("retrieve", '{"query": "cost"}', "c0"),))
    broken = Message("assistant", tool_calls=(ToolCall("retrieve", "{oops", "c1"),))

    text, _ = model._local.render([call, broken], (), model.settings)

    assert call_text("retrieve", query="cost") in text
    assert '"malformed_arguments": "{oops"' in text
    await model.aclose()


async def test_pocket_gives_tools_to_the_policy_and_readings_to_the_reader(folder: Path) -> None:
    model = build_model(ModelSettings(spec=f"pocket:{folder}", max_tokens=4))
    messages, tools = _conversation()

    acted = await model.complete(messages, tools=tools, seed=1)
    read = {(await model.complete(READING)).message.text for _ in range(3)}

    assert acted.images_sent == 3
    assert len(read) == 1  # the frozen reader is greedy
    await model.aclose()


def test_a_saved_policy_loads_through_the_stock_classes(folder: Path) -> None:
    from transformers import Qwen3VLForConditionalGeneration

    model = Qwen3VLForConditionalGeneration.from_pretrained(folder / "policy")
    processor = load_qwen3_vl_processor(folder / "policy")

    assert model.config.get_text_config().vocab_size == len(processor.tokenizer)
    assert processor.image_processor.patch_size == 16


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="awm pocket train --out FOLDER"):
        build_model(ModelSettings(spec=f"pocket:{tmp_path}"))
    with pytest.raises(ConfigError, match="no usable model"):
        build_model(ModelSettings(spec=f"transformers:{tmp_path}"))
    with pytest.raises(ConfigError, match=r"'\./nowhere': the folder does not exist; train it"):
        build_model(ModelSettings(spec="transformers:./nowhere"))
    with pytest.raises(ConfigError, match="transformers:PATH"):
        build_model(ModelSettings(spec="transformers:"))


def test_weights_that_are_damaged_are_named(folder: Path, tmp_path: Path) -> None:
    torn = shutil.copytree(folder / "policy", tmp_path / "policy")
    weights = torn / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])

    with pytest.raises(ConfigError, match=r"policy' cannot be loaded \("):
        build_model(ModelSettings(spec=f"transformers:{torn}"))


def test_an_unknown_extra_field_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="'min_p'"):
        _policy(folder, extra_body={"min_p": 0.1})


def test_tokenizers_are_written_anew_and_keep_their_size(folder: Path) -> None:
    before = (folder / "policy" / "tokenizer.json").read_bytes()

    assert refresh_tokenizers(folder) == [folder / "policy", folder / "reader"]
    assert (folder / "policy" / "tokenizer.json").read_bytes() == before
