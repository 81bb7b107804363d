"""What a training will take: memory and disk, estimated before it starts.

The memory figure counts weights, gradients and AdamW's states, which are known, and not activations
and the key-value cache, which depend on lengths; it is a floor. docs/train.md has the estimates per
GPU.

Imports torch: import this module inside functions, after `awm._extras.require`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from awm.train.config import TrainSettings
from awm.train.policy import count_parameters

if TYPE_CHECKING:
    from awm.train.preflight import Check

GIB = 2**30
ADAM_BYTES = 8
"""Of AdamW's two states, in float32, for each trained weight."""


def memory_floor_bytes(settings: TrainSettings, model: Any) -> int:
    """Count weights, gradients and optimizer states on one device."""
    n_all, n_trained = count_parameters(model)
    lora = settings.policy.lora
    if lora is not None:
        n_trained = _lora_parameters(model, lora.rank)
    size = next(model.parameters()).element_size()
    return n_all * size + n_trained * (size + ADAM_BYTES)


def checkpoint_bytes(settings: TrainSettings, model: Any) -> int:
    """Estimate one checkpoint: the trained weights with their optimizer states."""
    n_all, n_trained = count_parameters(model)
    size = next(model.parameters()).element_size()
    lora = settings.policy.lora
    if lora is not None:
        return _lora_parameters(model, lora.rank) * (size + ADAM_BYTES)
    return n_all * size + n_trained * ADAM_BYTES


def _lora_parameters(model: Any, rank: int) -> int:
    return sum(
        rank * (module.in_features + module.out_features)
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module.weight.requires_grad
    )


def check_resources(settings: TrainSettings, model: Any, n_checkpoints: int) -> list[Check]:
    """Compare the estimates with what the machine has."""
    from awm.train.preflight import Check

    needed = memory_floor_bytes(settings, model)
    free = _free_memory()
    memory = f"at least {_gib(needed)} a device without activations; {_gib(free)} are free"
    disk_needed = n_checkpoints * checkpoint_bytes(settings, model)
    disk_free = shutil.disk_usage(_existing(settings.out)).free
    disk = f"{n_checkpoints} checkpoints take {_gib(disk_needed)}; {_gib(disk_free)} are free"
    return [
        Check(
            "memory",
            needed < free,
            memory,
            "train with LoRA ([policy.lora]), in bfloat16, or shard over devices with "
            "accelerate (FSDP)",
        ),
        Check(
            "disk",
            disk_needed < disk_free,
            disk,
            "lower keep_checkpoints, or choose an `out` on a larger disk",
        ),
    ]


def _free_memory() -> int:
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / GIB:.2f} GiB"
