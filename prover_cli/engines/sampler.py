"""Drawing tokens: temperature, nucleus and top-k, with draws that depend on the request alone.

The uniform number behind the n-th token of a request is a function of the request's seed and n, so
what else is in the batch, and in which order, never changes a draw.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prover_cli.engines.base import Sampling

_MASK = (1 << 64) - 1


def uniforms(seeds: Sequence[int], positions: Sequence[int]) -> NDArray[np.float64]:
    """One number in [0, 1) per pair of seed and position (SplitMix64, top 53 bits)."""
    mixed = [
        _mix((seed * 0xD1342543DE82EF95 + (n + 1) * 0x9E3779B97F4A7C15) & _MASK)
        for seed, n in zip(seeds, positions, strict=True)
    ]
    return np.array([value >> 11 for value in mixed], dtype=np.float64) * 2.0**-53


def _mix(state: int) -> int:
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
    return state ^ (state >> 31)


def sample(
    logits_BV: Tensor,
    sampling: Sequence[Sampling],
    seeds: Sequence[int],
    positions: Sequence[int],
) -> tuple[list[int], list[float]]:
    """One token per row and its log-prob under the distribution it was drawn from.

    At temperature 0 the most likely token is taken and its log-prob is that of temperature 1.
    """
    temperatures = torch.tensor([s.temperature or 1.0 for s in sampling], device=logits_BV.device)
    logp_BV = torch.log_softmax(logits_BV.float() / temperatures[:, None], dim=-1)
    restricted = [row for row, s in enumerate(sampling) if not s.neutral]
    if restricted:
        rows = torch.tensor(restricted, device=logits_BV.device)
        logp_BV[rows] = _restrict(logp_BV[rows], [sampling[row] for row in restricted])
    # 64-bit sums: with 32 bits the tail of a large vocabulary would never be drawn.
    cumulative_BV = logp_BV.double().exp().cumsum(dim=-1)
    draws = torch.from_numpy(uniforms(seeds, positions)).to(logits_BV.device)
    targets = draws[:, None] * cumulative_BV[:, -1:]
    drawn = torch.searchsorted(cumulative_BV, targets, right=True)[:, 0]
    greedy = torch.tensor([s.temperature == 0.0 for s in sampling], device=logits_BV.device)
    ids = torch.where(greedy, logp_BV.argmax(dim=-1), drawn.clamp(max=logp_BV.shape[1] - 1))
    return ids.tolist(), logp_BV.gather(1, ids[:, None])[:, 0].tolist()


def _restrict(logp_BV: Tensor, sampling: Sequence[Sampling]) -> Tensor:
    """Keep the `top_k` most likely tokens, then the smallest set that reaches `top_p`."""
    sorted_BV, order = logp_BV.sort(dim=-1, descending=True)
    ranks = torch.arange(logp_BV.shape[1], device=logp_BV.device)[None]
    k_B1 = torch.tensor([[s.top_k or logp_BV.shape[1]] for s in sampling], device=logp_BV.device)
    sorted_BV = sorted_BV.masked_fill(ranks >= k_B1, float("-inf")).log_softmax(dim=-1)
    p_B1 = torch.tensor([[s.top_p] for s in sampling], device=logp_BV.device)
    before_BV = sorted_BV.exp().cumsum(dim=-1) - sorted_BV.exp()
    outside = (before_BV >= p_B1) & (ranks > 0)
    sorted_BV = sorted_BV.masked_fill(outside, float("-inf")).log_softmax(dim=-1)
    return torch.empty_like(logp_BV).scatter_(1, order, sorted_BV)
