"""Batches and small shorthands for the training tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prover_cli.tokens.mask import TrainingSequence, TurnTokens, sequences
from prover_cli.training import StepMetrics, TrainConfig, Trainer

VOCABULARY = 64


def settings(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"lr": 1e-3, "max_grad_norm": 0.0, "device": "cpu"} | changes)


def sequence(seed: int, n_turns: int = 2, weight: float | None = None) -> TrainingSequence:
    """A trajectory of turns: prompts of 3 to 9 ids, actions of 1 to 3, one weight per turn."""
    draw = random.Random(seed)
    turns = []
    for turn in range(n_turns):
        n_action = draw.randint(1, 3)
        value = draw.uniform(-2.0, 2.0) if weight is None else weight
        turns.append(
            TurnTokens(
                context_reset=turn == 0,
                prompt_ids=[draw.randrange(VOCABULARY) for _ in range(draw.randint(3, 9))],
                action_ids=[draw.randrange(VOCABULARY) for _ in range(n_action)],
                logprobs=[draw.uniform(-4.0, -0.1) for _ in range(n_action)],
                advantages=[value] * n_action,
            )
        )
    return next(sequences(turns))


def batch(n: int = 6) -> list[TrainingSequence]:
    """Sequences of mixed lengths; the last one repeats the ids of the first with other weights."""
    mixed = [sequence(seed, n_turns=1 + seed % 3) for seed in range(n - 1)]
    twin = sequence(0, n_turns=1)
    twin.advantages = [
        -0.7 * a if m else 0.0 for a, m in zip(twin.advantages, twin.mask, strict=True)
    ]
    return [*mixed, twin]


def update(trainer: Trainer, data: Sequence[TrainingSequence]) -> list[StepMetrics]:
    return trainer.update(data, lambda _: None)


def weights(trainer: Trainer) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in trainer.master.values()]).clone()


def gradient(trainer: Trainer) -> Tensor:
    """The gradient that the last step used; settings without a norm limit leave it as it was."""
    return torch.cat([tensor.grad.flatten() for tensor in trainer.master.values()]).clone()


def trained(policy: Path, data: Sequence[TrainingSequence], **changes: Any) -> Trainer:
    trainer = Trainer.load(policy, None, settings(**changes))
    update(trainer, data)
    return trainer
