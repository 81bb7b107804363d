"""`awm train`: what a user is told before anything is trained."""

from __future__ import annotations

from typer.testing import CliRunner

from awm.cli.main import app


def test_a_missing_policy_names_the_flag_and_the_recipes() -> None:
    result = CliRunner().invoke(app, ["train", "preflight"])

    assert result.exit_code == 2
    assert "policy: missing (give --model or policy.path = … in the TOML file)" in result.stderr
    assert "--config, too: a TOML file, or a recipe (grpo-answer-only, grpo-awm, sft)" in (
        result.stderr
    )
