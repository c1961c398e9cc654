"""Supervised warm start of a small model on demonstrations.

Every step mixes kinds of decisions in fixed numbers, so that a rare and hard one (which product)
gets its share of the gradient. Matrices are trained with Muon, everything else with AdamW; the
learning rates fall linearly to zero over the second half.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from prover_cli.policies.muon import Muon

IGNORED = -100
"""Label of ids that are not trained."""


@dataclass(frozen=True)
class Row:
    """A prompt and the reply to learn, as ids."""

    prompt_ids: Sequence[int]
    reply_ids: Sequence[int]


@dataclass(frozen=True)
class WarmStart:
    """How to train. `rows_per_step` says how many rows of each kind make up a step."""

    rows_per_step: Mapping[str, int]
    steps: int
    muon_lr: float = 0.02
    adamw_lr: float = 3e-3
    seed: int = 0


def train(
    model: Any,
    rows: Mapping[str, Sequence[Row]],
    settings: WarmStart,
    on_step: Callable[[int, float], None],
) -> None:
    """Train `model` in place; `on_step(step, loss)` is called after each step."""
    muon, adamw = _optimizers(model, settings)
    feeds = {
        kind: _feed(rows[kind], n, random.Random(f"{settings.seed}/{kind}"))
        for kind, n in settings.rows_per_step.items()
    }
    model.train()
    for step in range(settings.steps):
        total = 0.0
        batches = [next(feed) for feed in feeds.values()]
        n_replies = sum(len(row.reply_ids) for batch in batches for row in batch)
        # One pass per kind: prompts of one kind have similar lengths, so little is padded.
        for batch in batches:
            loss = _loss(model, batch) / n_replies
            torch.autograd.backward(loss)
            total += loss.item()
        decay = min(1.0, 2 * (1 - step / settings.steps))
        muon.lr = settings.muon_lr * decay
        adamw.param_groups[0]["lr"] = settings.adamw_lr * decay
        muon.step()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        on_step(step, total)
    model.eval()


def _feed(rows: Sequence[Row], n: int, generator: random.Random) -> Iterator[list[Row]]:
    """Batches of `n` rows (of all, where there are fewer) in a fresh order each time through."""
    n = min(n, len(rows))
    while True:
        order = generator.sample(range(len(rows)), len(rows))
        for start in range(0, len(order) - n + 1, n):
            yield [rows[i] for i in order[start : start + n]]


def _loss(model: Any, batch: Sequence[Row]) -> Tensor:
    """Summed cross-entropy of the reply ids."""
    width = max(len(row.prompt_ids) + len(row.reply_ids) for row in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    labels = torch.full_like(ids, IGNORED)
    for i, row in enumerate(batch):
        n_prompt, n = len(row.prompt_ids), len(row.prompt_ids) + len(row.reply_ids)
        ids[i, :n] = torch.tensor([*row.prompt_ids, *row.reply_ids])
        labels[i, n_prompt:n] = ids[i, n_prompt:n]
    # Right padding under a causal mask changes nothing before it, so no attention mask is needed.
    hidden = model.get_decoder()(input_ids=ids).last_hidden_state[:, :-1]
    wanted = labels[:, 1:]
    trained = wanted != IGNORED
    logits = model.get_output_embeddings()(hidden[trained])
    return torch.nn.functional.cross_entropy(logits, wanted[trained], reduction="sum")


def _optimizers(model: Any, settings: WarmStart) -> tuple[Muon, torch.optim.AdamW]:
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
    chosen = {id(p) for p in matrices}
    others = [p for _, p in named if id(p) not in chosen]
    adamw = torch.optim.AdamW(others, settings.adamw_lr, betas=(0.9, 0.95), weight_decay=0.0)
    return Muon(matrices, settings.muon_lr), adamw
