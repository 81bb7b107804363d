"""What tests of several folders share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def shared_folder() -> Path:
    """Find the folder with recorded cases and public data, which is not part of the repository."""
    beside_repository = Path(__file__).parents[1].parent / "shared"
    folder = Path(os.environ.get("AWM_SHARED", beside_repository))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}; set AWM_SHARED to its folder")
    return folder
