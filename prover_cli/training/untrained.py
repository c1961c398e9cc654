"""Weights of a checkpoint that its language model has no place for, such as a vision part.

The trainer loads the language model alone. A policy keeps the architecture that its `config.json`
names, so whoever loads it by that name needs the other weights too: they are copied unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

_WHOLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_TRAINED, _UNTRAINED = "model-trained.safetensors", "model-untrained.safetensors"


def carry_over(model: Any, source: Path, folder: Path) -> None:
    """Add to the saved `model` in `folder` what else the checkpoint `source` holds.

    Nothing is added where `source` is a checkpoint of the model's own class.
    """
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    if type(model).__name__ in (config.get("architectures") or [type(model).__name__]):
        return
    saved = {file: _names(file) for file in sorted(folder.glob("*.safetensors"))}
    known = {*model.state_dict(), *(name for names in saved.values() for name in names)}
    left = {name: tensor for name, tensor in _tensors(source) if name not in known}
    if not left:
        return
    save_file(left, folder / _UNTRAINED, {"format": "pt"})
    if (folder / _WHOLE).exists():
        (folder / _WHOLE).rename(folder / _TRAINED)
    _write_index(folder)


def _names(file: Path) -> list[str]:
    with safe_open(file, "pt") as tensors:
        return list(tensors.keys())


def _tensors(source: Path) -> Iterator[tuple[str, Tensor]]:
    """All weights of a checkpoint, one at a time where its format allows."""
    for file in sorted(source.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (it is no mapping)
                yield name, tensors.get_tensor(name)
    for file in sorted(source.glob("pytorch_model*.bin")):
        state: Mapping[str, Tensor] = torch.load(
            file, map_location="cpu", mmap=True, weights_only=True
        )
        yield from ((name, tensor.clone()) for name, tensor in state.items())


def _write_index(folder: Path) -> None:
    """Which file has which weight, as Transformers and vLLM read it."""
    places: dict[str, str] = {}
    n_bytes = 0
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            places |= dict.fromkeys(tensors.keys(), file.name)
        n_bytes += file.stat().st_size
    index = {"metadata": {"total_size": n_bytes}, "weight_map": places}
    (folder / _INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")
