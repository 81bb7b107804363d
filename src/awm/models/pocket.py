"""The pocket models that ship with AWM, as a chat model: `pocket`, or `pocket:FOLDER`.

One spec serves both roles. A request with tools or page images goes to the policy, which samples
at temperature 1 by default; a request with neither is a reading of the memory and goes to the
frozen reader, which is greedy. A folder of `awm pocket train` holds `policy` and `reader`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from awm.errors import ConfigError
from awm.models.chat import Completion, Message, ModelSettings, count_images
from awm.models.transformers import TransformersModel


def pocket_weights() -> Path:
    """Give the folder of the weights that ship with AWM."""
    return Path(str(resources.files("awm.pocket"))) / "weights"


class PocketModel:
    """See the module.

    Raises:
        ConfigError: the folder does not hold the two models.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        named = settings.spec.partition(":")[2]
        self._folder = Path(named) if named else pocket_weights()
        missing = [
            role
            for role in ("policy", "reader")
            if not (self._folder / role / "config.json").is_file()
        ]
        if missing:
            raise ConfigError(
                f"{str(self._folder)!r} has no folder {missing[0]!r} with a model; make both with "
                "awm pocket train --out FOLDER"
            )
        self._models: dict[str, TransformersModel] = {}

    @property
    def settings(self) -> ModelSettings:
        """The settings it was made from."""
        return self._settings

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        seed: int | None = None,
    ) -> Completion:
        """Continue the conversation by one assistant turn; see `ChatModel.complete`."""
        role = "policy" if tools or count_images(messages) else "reader"
        if role not in self._models:
            spec = f"transformers:{self._folder / role}"
            self._models[role] = TransformersModel(self._settings.model_copy(update={"spec": spec}))
        return await self._models[role].complete(messages, tools=tools, seed=seed)

    async def aclose(self) -> None:
        """Stop the workers."""
        for model in self._models.values():
            await model.aclose()
