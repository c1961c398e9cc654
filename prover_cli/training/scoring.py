"""Logits at the positions that predict policy tokens, and nowhere else where that is possible."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from prover_cli.training.batch import MicroBatch


def policy_logits(model: Any, micro: MicroBatch, head_is_plain: bool) -> Tensor:
    """`logits_PV` of a micro-batch.

    Prompts are long and actions short, so the vocabulary-sized product is taken only where a policy
    token is predicted. `head_is_plain` says that the model's logits are exactly its output
    embedding applied to the last hidden state; otherwise the model computes all of them.
    """
    inputs = {
        "input_ids": micro.ids_BT,
        "attention_mask": micro.attention_BT,
        "position_ids": micro.positions_BT,
        "use_cache": False,
    }
    if head_is_plain:
        hidden_BTD: Tensor = model.base_model(**inputs).last_hidden_state
        logits_PV: Tensor = model.get_output_embeddings()(
            hidden_BTD.flatten(0, 1)[micro.predictor_P]
        )
        return logits_PV
    logits_BTV: Tensor = model(**inputs).logits
    return logits_BTV.flatten(0, 1)[micro.predictor_P]


@torch.no_grad()
def has_plain_head(model: Any, device: torch.device) -> bool:
    """Whether skipping the model's own head changes nothing, found out by trying.

    Some architectures scale or cap their logits after the output embedding.
    """
    if model.get_output_embeddings() is None or model.base_model is model:
        return False
    ids = torch.arange(min(8, model.config.get_text_config().vocab_size), device=device)[None]
    try:
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        direct = model.get_output_embeddings()(hidden)
    except (AttributeError, TypeError, RuntimeError):
        return False
    whole = model(input_ids=ids, use_cache=False).logits
    return direct.shape == whole.shape and torch.allclose(direct, whole, rtol=1e-4, atol=1e-5)
