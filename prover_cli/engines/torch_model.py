"""A transformers causal language model behind the engine: loading and one batched call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prover_cli.engines.kv_cache import KVShape, SlotTable
from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.policies.adapters import base_of, is_adapter, merge

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_ATTENTION = "prover_grouped"


def _grouped_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention that shares key-value heads in place; the library's own copies them first."""
    output = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=True
    )
    return output.transpose(1, 2).contiguous(), None


@dataclass(frozen=True)
class Model:
    """A loaded checkpoint."""

    policy_id: str
    max_model_len: int
    kv_shape: KVShape
    body: Any
    """The decoder: ids to hidden states."""
    head: torch.nn.Module
    """Hidden states to logits."""

    @torch.inference_mode()
    def forward(
        self,
        table: SlotTable,
        rows: slice,
        new_ids: Sequence[Sequence[int]],
        starts: Sequence[int],
    ) -> Tensor:
        """Logits (rows, vocabulary, float32) after the last new id of every row.

        `new_ids[i]` follows the `starts[i]` tokens that row i already holds. Rows are padded on
        the right; what padding writes lies beyond a row's length and is overwritten later.
        """
        device = self.kv_shape.device
        width = max(len(ids) for ids in new_ids)
        padded = [[*ids, *[0] * (width - len(ids))] for ids in new_ids]
        ids_BQ = torch.tensor(padded, device=device)
        positions_BQ = torch.tensor(starts, device=device)[:, None] + torch.arange(
            width, device=device
        )
        used = max(start + width for start in starts)
        table.reserve(rows.stop, used)
        table.aim(rows, positions_BQ, used)
        visible = torch.arange(used, device=device)[None, None] <= positions_BQ[:, :, None]
        hidden_BQD = self.body(
            input_ids=ids_BQ,
            attention_mask=visible[:, None],
            position_ids=positions_BQ.clamp(max=self.max_model_len - 1),
            past_key_values=table,
            use_cache=True,
        ).last_hidden_state
        last = torch.tensor([len(ids) - 1 for ids in new_ids], device=device)
        hidden_BD = hidden_BQD[torch.arange(len(new_ids), device=device), last]
        logits: Tensor = self.head(hidden_BD).float()
        return logits


def load_model(path: Path, device: str, dtype: str) -> Model:
    """Load a policy for generation; an adapter is merged into its base.

    Raises `UsageError` for a folder that is not a checkpoint, an unknown device or dtype, or an
    architecture with other than full attention.
    """
    from transformers import AttentionInterface, AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    AttentionInterface.register(_ATTENTION, _grouped_attention)
    identity = policy_id(path)
    place = choose_device(device)
    kind = _dtype(dtype, place)
    checkpoint = base_of(path) if is_adapter(path) else path
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            checkpoint, dtype=kind, local_files_only=True, attn_implementation=_ATTENTION
        )
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{path} cannot be loaded as a causal language model: {error}") from error
    config = model.config.get_text_config()
    _check_architecture(config, path)
    model = model.to(place)
    model = (merge(model, path) if is_adapter(path) else model).eval()
    heads = config.num_attention_heads
    shape = KVShape(
        layers=config.num_hidden_layers,
        heads=getattr(config, "num_key_value_heads", None) or heads,
        head_size=getattr(config, "head_dim", None) or config.hidden_size // heads,
        dtype=kind,
        device=place,
    )
    return Model(
        identity,
        config.max_position_embeddings,
        shape,
        model.get_decoder(),
        model.get_output_embeddings(),
    )


def choose_device(name: str) -> torch.device:
    """`auto` is CUDA where there is a GPU, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"there is no device {name!r}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device here", hint="use --device cpu")
    return device


def _dtype(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on a GPU and float32 on the CPU."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if name not in _DTYPES:
        raise UsageError(f"--dtype is auto, {', '.join(_DTYPES)}, not {name!r}")
    return _DTYPES[name]


def _check_architecture(config: Any, path: Path) -> None:
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if kinds or getattr(config, "sliding_window", None):
        found = ", ".join(sorted(kinds)) or "sliding_attention"
        raise UsageError(
            f"{path} uses {found}; the torch engine has full attention only",
            hint="name a policy with full attention only",
        )
