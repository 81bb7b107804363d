"""The recipes are valid settings, and differ in what must differ alone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from awm.cli.settings import build_settings, merge, read_config
from awm.cli.train import recipe_path
from awm.errors import ConfigError
from awm.runs import flatten_settings
from awm.train.config import OWN_TRL_OPTIONS, GRPOSettings, SFTSettings


def settings_of(name: str) -> GRPOSettings:
    return build_settings(GRPOSettings, merge(read_config(recipe_path(name)), {}, ()))


def test_the_two_rewards_differ_in_the_reward_and_the_folder_alone() -> None:
    awm, answer_only = (
        dict(flatten_settings(settings_of(name).model_dump(mode="json")))
        for name in ("grpo-awm", "grpo-answer-only")
    )

    assert {key for key in awm if awm[key] != answer_only[key]} == {"out", "reward.kind"}
    assert awm["reward.kind"] == "awm"
    assert answer_only["reward.kind"] == "answer_only"


def test_grpo_starts_from_what_sft_leaves() -> None:
    sft = build_settings(SFTSettings, merge(read_config(recipe_path("sft")), {}, ()))
    grpo = settings_of("grpo-awm")

    assert Path(grpo.policy.path) == sft.out / "final"
    assert sft.policy.freeze_vision == grpo.policy.freeze_vision is True
    assert sft.held_out == grpo.held_out
    assert {source.benchmark for source in grpo.held_out} == {"mmlongbench-doc", "longdocurl"}


@pytest.mark.parametrize("name", ["sft", "grpo-awm", "grpo-answer-only"])
def test_every_recipe_says_what_was_not_run(name: str) -> None:
    text = recipe_path(name).read_text(encoding="utf-8")

    assert "have not been run at this size" in text
    tomllib.loads(text)


def test_a_config_that_is_nowhere_names_the_recipes() -> None:
    with pytest.raises(ConfigError, match="the recipes are: grpo-answer-only, grpo-awm, sft"):
        recipe_path("grpo-awn")


@pytest.mark.parametrize("option", sorted(OWN_TRL_OPTIONS))
def test_an_option_that_awm_sets_is_refused_in_the_pass_through(option: str) -> None:
    values = merge(read_config(recipe_path("grpo-awm")), {f"trl.{option}": 1}, ())

    with pytest.raises(ConfigError, match=f"trl.{option} is set by AWM"):
        build_settings(GRPOSettings, values)
