"""Which weights move, what must not be sampled, and an export that loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `local` is not installed")
pytest.importorskip("transformers", reason="the extra `local` is not installed")

from awm.errors import ConfigError, DataError  # noqa: E402
from awm.pocket.model import build_reader  # noqa: E402
from awm.pocket.tokenizer import build_tokenizer  # noqa: E402
from awm.train.config import LoraSettings, PolicySettings  # noqa: E402
from awm.train.export import smoke_test, write_policy  # noqa: E402
from awm.train.policy import forbidden_tokens, load_policy, lora_config, vision_part  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def test_lora_touches_the_language_model_alone(policy_folder: Path) -> None:
    peft = pytest.importorskip("peft", reason="the extra `train` is not installed")
    settings = PolicySettings(path=str(policy_folder), lora=LoraSettings(rank=2, alpha=4))
    model = peft.get_peft_model(load_policy(settings)[0], lora_config(settings))

    trained = [name for name, p in model.named_parameters() if p.requires_grad]

    assert trained
    assert all("lora_" in name for name in trained)
    assert not any("visual" in name for name in trained)


def test_a_vision_tower_can_be_trained_on_request(policy_folder: Path) -> None:
    model, _ = load_policy(PolicySettings(path=str(policy_folder), freeze_vision=False))

    assert all(p.requires_grad for p in vision_part(model).parameters())


def test_a_model_without_eyes_is_no_policy(tmp_path: Path) -> None:
    tokenizer = build_tokenizer()
    build_reader(tokenizer, layers=1).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    with pytest.raises(ConfigError, match="the policy must see page images"):
        load_policy(PolicySettings(path=str(tmp_path)))


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no usable model at"):
        load_policy(PolicySettings(path=str(tmp_path)))


@pytest.mark.parametrize("path", ["runs/nowhere", "./nowhere", "/nowhere", "~/nowhere", "a/b/c"])
def test_a_folder_that_does_not_exist_is_said_not_to(path: str) -> None:
    with pytest.raises(ConfigError, match=r"the folder does not exist; train it first .*--model"):
        load_policy(PolicySettings(path=path))


def test_the_models_own_forbidden_tokens_are_kept(policy: tuple[Any, Any]) -> None:
    model, processor = policy
    own = set(model.generation_config.suppress_tokens)

    forbidden = forbidden_tokens(model, processor.tokenizer)

    assert own <= set(forbidden)
    assert processor.tokenizer.eos_token_id not in forbidden
    assert processor.tokenizer.convert_tokens_to_ids("<|video_pad|>") in forbidden


def test_an_export_names_the_stock_processor_and_answers(
    policy: tuple[Any, Any], tmp_path: Path
) -> None:
    model, processor = policy

    out = write_policy(model, processor, None, tmp_path / "final")

    named = json.loads((out / "processor_config.json").read_text(encoding="utf-8"))
    assert named["processor_class"] == "Qwen3VLProcessor"
    assert isinstance(smoke_test(out), str)
    model.float()


def test_an_export_that_cannot_be_loaded_is_found(policy: tuple[Any, Any], tmp_path: Path) -> None:
    model, processor = policy
    out = write_policy(model, processor, None, tmp_path / "final")
    model.float()
    (out / "model.safetensors").write_bytes(b"torn")

    with pytest.raises(DataError, match=r"the exported model in .* cannot be loaded"):
        smoke_test(out)
