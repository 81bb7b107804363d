"""Fixtures of the training tests: a tiny policy with random weights, and its renderer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def policy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a Qwen3-VL of one layer with random weights and the pocket tokenizer."""
    torch = pytest.importorskip("torch", reason="the extra `local` is not installed")
    pytest.importorskip("transformers", reason="the extra `local` is not installed")
    from awm.pocket.model import build_policy
    from awm.pocket.tokenizer import build_processor

    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("policy")
    processor = build_processor()
    build_policy(processor.tokenizer, layers=1, vision_layers=1).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def policy(policy_folder: Path) -> tuple[Any, Any]:
    """Load the tiny policy as a training does."""
    from awm.train.config import PolicySettings
    from awm.train.policy import load_policy

    return load_policy(PolicySettings(path=str(policy_folder), dtype="float32"))


@pytest.fixture(scope="session")
def renderer(policy: tuple[Any, Any]) -> Any:
    """Give the tiny policy's renderer with the agent's tools."""
    from awm.agent.tools import retrieve_schema, update_memory_schema
    from awm.train.rendering import ChatRenderer

    return ChatRenderer(policy[1], [retrieve_schema(3), update_memory_schema()])
