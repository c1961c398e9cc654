"""Reading and writing policies.

A policy folder is a Hugging Face checkpoint in the precision of the checkpoint it came from; the
trainer computes in float32 and rounds only what it writes. Or it is a LoRA adapter of such a
checkpoint: then only the adapter is trained, and written again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging as transformers_logging

from prover_cli.errors import StorageError, UsageError
from prover_cli.ids import policy_id
from prover_cli.policies.adapters import (
    attach,
    base_of,
    is_adapter,
    save_adapter,
    save_new_adapter,
)
from prover_cli.temporary import beside
from prover_cli.training.untrained import carry_over

_TEXT_AND_IMAGES = (
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
)


def load_model(source: Path, device: torch.device) -> Any:
    """The causal language model of `source` in float32, without dropout.

    Only weights to train take gradients: those of the adapter where `source` is one, else all.
    Dropout would make the same weights give two different log-probs: the ratio would not be 1.
    """
    if is_adapter(source):
        base = _load_checkpoint(base_of(source)).to(device)
        return attach(base, source, trainable=True).eval()
    return _load_checkpoint(source).to(device).eval()


def _load_checkpoint(source: Path) -> Any:
    if not (source / "config.json").is_file():
        raise UsageError(f"{source} is not a policy: it has no config.json")
    loader: Any = AutoModelForCausalLM
    try:
        with _no_progress_bar():
            model, info = loader.from_pretrained(
                source, dtype=torch.float32, local_files_only=True, output_loading_info=True
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"{source} cannot be loaded as a causal LM: {error}") from error
    if info["missing_keys"]:
        raise UsageError(f"{source} lacks weights: {', '.join(sorted(info['missing_keys'])[:5])}")
    return model


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Loading and saving prints nothing: what a command shows on the terminal is its own matter."""
    bars: Any = transformers_logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def stored_dtype(source: Path) -> torch.dtype:
    """The precision that a checkpoint's config names; float32 where it names none."""
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    name = str(config.get("dtype") or config.get("torch_dtype") or "float32")
    dtype = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise UsageError(f"{source / 'config.json'} names the unknown dtype {name!r}")
    return dtype


def save_policy(model: Any, out: Path, source: Path) -> str:
    """Write the model as a policy like `source`, replacing `out`; returns its policy id.

    Only weights of the language model change in training, so all else is that of `source`.
    """
    with replacing(out) as folder:
        if is_adapter(source):
            save_adapter(model, folder, out, source)
            _copy(_TEXT_AND_IMAGES, source, folder)
        else:
            _save_checkpoint(model, folder, source)
    return policy_id(out)


def save_as_adapter(model: Any, out: Path, base: Path) -> str:
    """Write the new adapter in `model` as a policy on `base`, replacing `out`; returns its id."""
    with replacing(out) as folder:
        save_new_adapter(model, folder, base)
        _copy(_TEXT_AND_IMAGES, base, folder)
    return policy_id(out)


def _save_checkpoint(model: Any, folder: Path, source: Path) -> None:
    dtype = stored_dtype(source)
    defaults: Any = GenerationConfig  # so that an inconsistent one cannot refuse to be saved
    with _no_progress_bar():
        model.generation_config = defaults()
        model.save_pretrained(folder, state_dict=_cast(model.state_dict(), dtype))
    carry_over(model, source, folder)
    _copy(("config.json", *_TEXT_AND_IMAGES), source, folder)


def _copy(names: Iterable[str], source: Path, folder: Path) -> None:
    """Copy the files that `source` has; the others are removed."""
    for name in names:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
        else:
            (folder / name).unlink(missing_ok=True)


def _cast(state: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Weights in `dtype` on the CPU; tied weights stay one tensor, so that they are saved once."""
    done: dict[int, Tensor] = {}
    cast: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if tensor.data_ptr() not in done or done[tensor.data_ptr()].shape != tensor.shape:
            target = dtype if tensor.is_floating_point() else tensor.dtype
            done[tensor.data_ptr()] = tensor.detach().to("cpu", target).contiguous()
        cast[name] = done[tensor.data_ptr()]
    return cast


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out` that takes its place only once it is whole and on disk."""
    temporary, old = beside(out), beside(out)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for file in sorted(temporary.rglob("*")):
            if file.is_file():
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
        if out.exists():
            os.replace(out, old)
        os.replace(temporary, out)
        shutil.rmtree(old, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"{out} cannot be written: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
