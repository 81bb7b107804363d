"""From a spec to a model: what is refused, and what is proposed instead."""

from __future__ import annotations

import pytest

from awm.errors import ConfigError
from awm.models.build import build_model
from awm.models.chat import ModelSettings


@pytest.mark.parametrize(
    ("spec", "start"),
    [
        ("gpt-4o", "unknown model 'gpt-4o'; did you mean openai:gpt-4o? "),
        ("Qwen/Q@http://h:1/v1", "unknown model 'Qwen/Q'; did you mean openai:Qwen/Q@…? "),
        ("lexcal", "unknown model 'lexcal'; did you mean 'lexical'? "),
        ("opnai:gpt-4o", "unknown model 'opnai'; did you mean 'openai'? "),
        ("./policy", "unknown model './policy'; did you mean transformers:./policy? "),
        ("x:y", "unknown model 'x'. "),
        ("", "unknown model ''. "),
    ],
)
def test_an_unknown_spec_is_refused_with_a_proposal_and_every_form(spec: str, start: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build_model(ModelSettings(spec=spec))

    assert str(refused.value).startswith(start + "A model is given as one of:\n")
    for form in ("lexical", "pocket", "openai:MODEL", "transformers:", "scripted:FILE"):
        assert f"\n  {form}" in str(refused.value)


@pytest.mark.parametrize("spec", ["lexcal", "scripted:nowhere.jsonl", "transformers:"])
def test_a_refusal_begins_with_the_role_that_is_named(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"^--reader: "):
        build_model(ModelSettings(spec=spec), role="--reader")


@pytest.mark.parametrize("spec", ["x:secret", "m@user:secret@h", "m@secret", "htp://u:secret@h"])
def test_what_may_hold_a_password_is_not_shown(spec: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build_model(ModelSettings(spec=spec))

    assert "secret" not in str(refused.value)
