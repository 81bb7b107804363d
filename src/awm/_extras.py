"""Import of optional libraries, in one place, so that a missing one names the extra to install."""

from __future__ import annotations

import importlib
from types import ModuleType

from awm.errors import MissingExtraError


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, which the extra `extra` brings.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and not (module + ".").startswith(error.name + "."):
            raise
        raise MissingExtraError(
            f"{module!r} is not installed; it comes with the extra {extra!r}: "
            f"pip install -e '.[{extra}]' in the clone of AWM"
        ) from error
