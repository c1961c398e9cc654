"""The settings of an update, as the trainer needs them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from prover_cli.errors import UsageError


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """What decides an update besides the policy and the batch.

    `temperature` is the one the batch was sampled at: the distribution that is trained is the one
    that acted, not the raw softmax. `max_grad_norm` 0 leaves gradients as they are.
    """

    lr: float = 1e-6
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    clip_low: float = 0.2
    clip_high: float = 0.2
    kl_coef: float = 0.0
    epochs: int = 1
    minibatches: int = 1
    tokens_per_microbatch: int = 8192
    temperature: float = 1.0
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("epochs", "minibatches", "tokens_per_microbatch"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("lr", "weight_decay", "max_grad_norm", "clip_low", "clip_high", "kl_coef"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if not 0.0 < self.temperature < float("inf"):
            raise UsageError(f"temperature is {self.temperature}; training needs one above 0")

    @property
    def n_steps(self) -> int:
        """Optimizer steps of one update."""
        return self.epochs * self.minibatches


def resolve_device(name: str) -> torch.device:
    """The device that `name` means; "auto" is the GPU where there is one."""
    cuda = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if cuda else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"{name!r} is not a device", hint="use --device auto or cpu") from error
    if device.type == "cuda" and not cuda:
        raise UsageError(f"device {name!r} was asked for but torch finds no GPU here")
    return device
