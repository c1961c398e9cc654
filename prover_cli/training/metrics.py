"""What is reported about an optimizer step."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from prover_cli.training.batch import MicroBatch
from prover_cli.training.loss import Objective, is_clipped
from prover_cli.training.settings import TrainConfig


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One optimizer step; means are over its policy tokens."""

    epoch: int
    step: int
    """Steps of this update before it."""
    loss: float
    policy_loss: float
    kl: float
    """To the policy before the update."""
    ratio_mean: float
    ratio_max: float
    clip_fraction: float
    entropy: float
    grad_norm: float
    """Before clipping."""
    n_sequences: int
    n_policy_tokens: int
    n_tokens: int
    params_changed_fraction: float
    """Share of the master weights that are no longer what they were before the update."""
    tokens_per_second: float
    seconds: float
    lr: float
    logprob_gap: float
    """Mean absolute difference between the engine's log-probs and the trainer's at step 0."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Tally:
    """Sums over the micro-batches of a step; they stay on the device until they are read."""

    def __init__(self, device: torch.device) -> None:
        zero = torch.zeros((), dtype=torch.float64, device=device)
        self.loss = self.policy_loss = self.kl = zero
        self.ratio = self.ratio_max = self.clipped = self.entropy = self.gap = zero

    def add(
        self,
        micro: MicroBatch,
        part: Objective,
        logp_N: Tensor,
        entropy_N: Tensor,
        settings: TrainConfig,
    ) -> None:
        ratio_N = part.ratio_N.detach()
        clipped_N = is_clipped(ratio_N, micro.advantage_N, settings.clip_low, settings.clip_high)
        self.loss = self.loss + part.loss.detach()
        self.policy_loss = self.policy_loss + part.policy_loss.detach()
        self.kl = self.kl + part.kl.detach()
        self.ratio = self.ratio + ratio_N.double().sum()
        self.ratio_max = torch.maximum(self.ratio_max, ratio_N.double().max())
        self.clipped = self.clipped + clipped_N.sum()
        self.entropy = self.entropy + entropy_N.double().sum()
        self.gap = self.gap + (logp_N.detach() - micro.engine_N).abs().double().sum()


def changed_fraction(before: list[Tensor], now: list[Tensor]) -> float:
    """Share of the numbers in `now` that differ from `before`."""
    differing = sum(int((a != b).sum()) for a, b in zip(before, now, strict=True))
    return differing / sum(tensor.numel() for tensor in now)
