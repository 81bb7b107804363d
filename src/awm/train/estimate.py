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
ADAM_STATES = 2
"""Numbers that AdamW keeps for each trained weight, in the weight's own type."""
MAX_LOST_SHARE = 0.5
"""With more of the weights standing still, training is not what it seems."""
LORA_BYTES = 4
"""Of a LoRA weight: PEFT keeps them in float32."""


def memory_floor_bytes(settings: TrainSettings, model: Any) -> int:
    """Count weights, gradients and optimizer states on one device."""
    n_all, _ = count_parameters(model)
    n_trained, size = _trained(settings, model)
    return n_all * _size(model) + n_trained * size * (1 + ADAM_STATES)


def checkpoint_bytes(settings: TrainSettings, model: Any) -> int:
    """Estimate one checkpoint: the weights that it keeps, and the optimizer states."""
    n_trained, size = _trained(settings, model)
    kept = 0 if settings.policy.lora else count_parameters(model)[0] * _size(model)
    return kept + n_trained * size * (ADAM_STATES + bool(settings.policy.lora))


def lost_update_share(model: Any, learning_rate: float) -> float:
    """Give the share of trained weights in which a step of AdamW is rounded away.

    A step moves a weight by about the learning rate; a change below half the distance to the next
    number of the weight's type leaves it as it is.
    """
    lost = n = 0
    for weight in model.parameters():
        if weight.requires_grad:
            # Half the distance to the next number is a quarter to a half of eps |w|.
            reach = weight.detach().abs() * torch.finfo(weight.dtype).eps / 4
            lost += int((reach > learning_rate).sum())
            n += weight.numel()
    return lost / n if n else 0.0


def check_precision(settings: TrainSettings, model: Any) -> Check:
    """Check that the weights' type can hold the updates."""
    from awm.train.preflight import Check

    name = "precision"
    if settings.policy.lora is not None:
        return Check(name, True, "LoRA weights are kept in float32")
    share = lost_update_share(model, settings.learning_rate)
    measured = (
        f"a step of {settings.learning_rate:g} is rounded away in {100 * share:.0f} % of the "
        f"trained weights ({settings.policy.dtype})"
    )
    if share > MAX_LOST_SHARE:
        return Check(
            name,
            False,
            measured,
            'keep the weights in float32 (policy.dtype = "float32", with bf16 = true in [trl] for '
            "fast arithmetic), or train with LoRA",
        )
    return Check(name, True, measured)


def _trained(settings: TrainSettings, model: Any) -> tuple[int, int]:
    """Give the number of trained weights and the bytes of one."""
    lora = settings.policy.lora
    if lora is not None:
        return _lora_parameters(model, lora.rank), LORA_BYTES
    return count_parameters(model)[1], _size(model)


def _size(model: Any) -> int:
    return int(next(model.parameters()).element_size())


def _lora_parameters(model: Any, rank: int) -> int:
    return sum(
        rank * (module.in_features + module.out_features)
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module.weight.requires_grad
    )


def check_resources(settings: TrainSettings, model: Any, n_checkpoints: int) -> list[Check]:
    """Compare the estimates with what the machine has, and the updates with the weights' type."""
    from awm.train.preflight import Check

    needed = memory_floor_bytes(settings, model)
    free = _free_memory()
    memory = f"at least {_gib(needed)} a device without activations; {_gib(free)} are free"
    disk_needed = n_checkpoints * checkpoint_bytes(settings, model)
    disk_free = shutil.disk_usage(_existing(settings.out)).free
    disk = f"{n_checkpoints} checkpoints take {_gib(disk_needed)}; {_gib(disk_free)} are free"
    return [
        check_precision(settings, model),
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
