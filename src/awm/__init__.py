"""Answerable working memory: evaluate the memory of long-document question answering agents.

The public names load on first use, so that `import awm` stays light.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "BM25Retriever": "awm.retrieval",
    "AgentSettings": "awm.agent.environment",
    "Document": "awm.documents",
    "DocumentEnvironment": "awm.agent.environment",
    "Episode": "awm.agent.episode",
    "EvalSettings": "awm.evaluate",
    "Finding": "awm.memory",
    "ModelSettings": "awm.models.chat",
    "Outcome": "awm.scoring.outcome",
    "Question": "awm.question",
    "WorkingMemory": "awm.memory",
    "build_model": "awm.models.build",
    "evaluate": "awm.evaluate",
    "load_benchmark": "awm.benchmarks",
    "open_document": "awm.documents",
    "open_run": "awm.runs",
    "outcome": "awm.scoring.outcome",
    "read_memory": "awm.agent.reader",
    "run_episode": "awm.agent.episode",
    "summarize": "awm.analysis.summary",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'awm' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
