"""A tiny base checkpoint and adapters of it."""

from __future__ import annotations

from pathlib import Path

import torch

from prover_cli.policies.adapters import new_adapter
from prover_cli.training.checkpoint import load_model, save_as_adapter

RANK = 4


def adapter_of(base: Path, out: Path, seed: int = 0) -> Path:
    """An adapter with random weights, so that it changes what its base says."""
    model = new_adapter(load_model(base, torch.device("cpu")), RANK)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) / 4)
    save_as_adapter(model, out, base)
    return out
