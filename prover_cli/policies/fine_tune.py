"""Fine-tuning of a pretrained checkpoint on an expert's demonstrations.

A step draws rows of the kinds of decisions in the recipe's proportions, however many rows it has.
Only reply tokens are learned. AdamW with a short rise and a linear fall of the learning rate;
weights that are trained are float32, and products are bfloat16 on a GPU.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from prover_cli.errors import UsageError
from prover_cli.policies.demos import Demo
from prover_cli.tokens.mask import TrainingSequence
from prover_cli.tokens.render import ChatRenderer
from prover_cli.training.batch import MicroBatch, micro_batches
from prover_cli.training.loss import token_logprobs
from prover_cli.training.scoring import has_plain_head, policy_logits

WARM_UP = 0.1
"""Share of the steps in which the learning rate rises."""
MAX_GRAD_NORM = 1.0
TOKENS_PER_PASS = {"cpu": 1024, "cuda": 8192}
"""Padded tokens in one forward pass. Wide passes suit a GPU; on a CPU padding costs more."""
TRIAL_PASSES = 3

T = TypeVar("T")
Rows = Mapping[str, Sequence[TrainingSequence]]
"""Rows by the kind of decision."""


@dataclass(frozen=True)
class FineTune:
    """How to train. `shares` says in which proportions kinds of rows are drawn."""

    shares: Mapping[str, int]
    rows_per_step: int
    steps: int
    lr: float
    seed: int = 0


def rows_of(
    demos: Iterable[Demo], renderer: ChatRenderer, longest: int | None
) -> tuple[dict[str, list[TrainingSequence]], int]:
    """Prompts and replies as ids, and how many were left out because they exceed `longest`."""
    rows: dict[str, list[TrainingSequence]] = defaultdict(list)
    left_out = 0
    for demo in demos:
        prompt = renderer.prompt(demo.messages)
        reply = [*renderer.encode(demo.reply), renderer.stop_ids[0]]
        n, n_reply = len(prompt) + len(reply), len(reply)
        if longest is not None and n > longest:
            left_out += 1
            continue
        mask = [False] * len(prompt) + [True] * n_reply
        rows[demo.kind].append(TrainingSequence([*prompt, *reply], mask, [0.0] * n, [0.0] * n))
    if not rows:
        raise UsageError("no demonstration fits into the context of the base checkpoint")
    return rows, left_out


def train(
    model: Any, rows: Rows, settings: FineTune, on_step: Callable[[int, float], None]
) -> None:
    """Train the weights of `model` that take gradients, in place.

    `on_step(step, loss)` is called after each step with the mean loss of a reply token, in nats.
    Raises `UsageError` when a loss is not finite.
    """
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, settings.lr, weight_decay=0.0)
    draws = _draw(rows, settings)
    gradient = _Gradient(model)
    for step in range(settings.steps):
        optimizer.param_groups[0]["lr"] = settings.lr * _rate(step, settings.steps)
        loss = gradient.of(next(draws))
        if not loss < float("inf"):
            raise UsageError(
                f"the loss of step {step} is {loss}: no policy was written", hint="lower --lr"
            )
        torch.nn.utils.clip_grad_norm_(trained, MAX_GRAD_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        on_step(step, loss)


def seconds_per_step(model: Any, rows: Rows, settings: FineTune) -> float:
    """How long a step takes, from a few whose gradients are thrown away."""
    draws = _draw(rows, settings)
    gradient = _Gradient(model)
    gradient.of(next(draws))
    began = time.perf_counter()
    for _ in range(TRIAL_PASSES):
        gradient.of(next(draws))
    model.zero_grad(set_to_none=True)
    return (time.perf_counter() - began) / TRIAL_PASSES


class _Gradient:
    """Adds the gradient of the mean loss over reply tokens to the weights of a model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._device: torch.device = next(model.parameters()).device
        self._head_is_plain = has_plain_head(model, self._device)

    def of(self, batch: Sequence[TrainingSequence]) -> float:
        """The loss of the batch; its gradient is accumulated."""
        n_replies = sum(row.n_policy for row in batch)
        total = 0.0
        budget = TOKENS_PER_PASS[self._device.type]
        for micro in micro_batches(batch, range(len(batch)), budget, self._device):
            loss = self._loss(micro) / n_replies
            torch.autograd.backward(loss)
            total += loss.item()
        return total

    def _loss(self, micro: MicroBatch) -> torch.Tensor:
        on_gpu = self._device.type == "cuda"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=on_gpu):
            logits_PV = policy_logits(self._model, micro, self._head_is_plain)
        logp_P = token_logprobs(logits_PV, micro.target_P, 1.0)
        return -logp_P[micro.source_N].sum()


def _draw(rows: Rows, settings: FineTune) -> Iterator[list[TrainingSequence]]:
    """The rows of every step: kinds from a shuffled deck, rows of a kind in a fresh order."""
    kinds = [kind for kind, n in settings.shares.items() if kind in rows for _ in range(n)]
    deck = _forever(kinds, random.Random(f"{settings.seed}/kinds"))
    feeds = {
        kind: _forever(rows[kind], random.Random(f"{settings.seed}/{kind}")) for kind in set(kinds)
    }
    while True:
        yield [next(feeds[next(deck)]) for _ in range(settings.rows_per_step)]


def _forever(items: Sequence[T], generator: random.Random) -> Iterator[T]:
    """The items again and again, in another order each time through."""
    while True:
        yield from generator.sample(items, len(items))


def _rate(step: int, steps: int) -> float:
    """The learning rate of a step, as a share of its peak."""
    rising = max(1, round(WARM_UP * steps))
    return min((step + 1) / rising, (steps - step) / max(1, steps - rising), 1.0)
