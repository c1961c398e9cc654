"""The objective, as pure functions of log-probs.

Suffixes: P and N count policy tokens (see `batch`), V vocabulary entries. Everything is computed in
float32, whatever the model computes in: a bfloat16 softmax is off by more than small steps move it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from prover_cli.training.settings import TrainConfig


def token_logprobs(logits_PV: Tensor, target_P: Tensor, temperature: float) -> Tensor:
    """Log-probability of each target under the softmax at `temperature`."""
    scaled_PV = logits_PV.float() / temperature
    chosen_P = scaled_PV.gather(1, target_P.unsqueeze(1)).squeeze(1)
    logp_P: Tensor = chosen_P - scaled_PV.logsumexp(dim=1)
    return logp_P


@torch.no_grad()
def entropy(logits_PV: Tensor, temperature: float) -> Tensor:
    """Entropy in nats of each position's distribution; a measurement, so without gradient."""
    logp_PV = (logits_PV.float() / temperature).log_softmax(dim=1)
    entropy_P: Tensor = torch.special.entr(logp_PV.exp()).sum(dim=1)
    return entropy_P


def clipped_surrogate(ratio_N: Tensor, advantage_N: Tensor, low: float, high: float) -> Tensor:
    """What is maximised: the ratio earns nothing beyond `1 + high`, or below `1 - low`."""
    clipped_N = ratio_N.clamp(1.0 - low, 1.0 + high)
    return torch.minimum(ratio_N * advantage_N, clipped_N * advantage_N)


def is_clipped(ratio_N: Tensor, advantage_N: Tensor, low: float, high: float) -> Tensor:
    """True where the clip took the gradient away."""
    above = (advantage_N > 0) & (ratio_N > 1.0 + high)
    below = (advantage_N < 0) & (ratio_N < 1.0 - low)
    return above | below


def kl_k3(logp_N: Tensor, reference_N: Tensor) -> Tensor:
    """Estimate per token of KL(policy || reference) from tokens of the policy; never negative."""
    gap_N = reference_N - logp_N
    return gap_N.expm1() - gap_N


@dataclass(frozen=True, slots=True)
class Objective:
    """A micro-batch's part of an optimizer step; parts add up to the step."""

    loss: Tensor
    policy_loss: Tensor
    kl: Tensor
    ratio_N: Tensor


def objective(
    logp_N: Tensor, old_N: Tensor, advantage_N: Tensor, denominator: int, settings: TrainConfig
) -> Objective:
    """The loss of some policy tokens of an optimizer step that has `denominator` of them in all.

    `old_N` is the policy before the update, for the ratio and for the KL term. Dividing by the
    step's count, not the micro-batch's, makes every token weigh the same however they are cut up.
    """
    ratio_N = (logp_N - old_N).exp()
    gain_N = clipped_surrogate(ratio_N, advantage_N, settings.clip_low, settings.clip_high)
    policy_loss = -gain_N.sum() / denominator
    kl = kl_k3(logp_N, old_N).sum() / denominator
    loss = policy_loss + settings.kl_coef * kl if settings.kl_coef else policy_loss
    return Objective(loss, policy_loss, kl, ratio_N)
