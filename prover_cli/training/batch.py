"""From training sequences to padded micro-batches.

Shape suffixes: B rows of a micro-batch, T columns, P policy tokens of its rows, N policy tokens of
the sequences behind them (N >= P: sequences with the same ids and mask share one row), V vocabulary
entries.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

import torch
from torch import Tensor

from prover_cli.errors import UsageError
from prover_cli.tokens.mask import TrainingSequence


@dataclass(frozen=True, slots=True)
class Row:
    """Ids that need one forward pass, and the numbers of the sequences that share them."""

    ids: tuple[int, ...]
    mask: tuple[bool, ...]
    members: list[int]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One forward pass; padding stands to the right and is masked from attention."""

    ids_BT: Tensor
    attention_BT: Tensor
    positions_BT: Tensor
    predictor_P: Tensor
    """Flat index into B*T of the position just before each policy token: its logits predict it."""
    target_P: Tensor
    source_N: Tensor
    """For every policy token of every member, its index in P."""
    advantage_N: Tensor
    engine_N: Tensor
    """Log-probs that the engine reported."""
    members: tuple[int, ...]
    """Sequence numbers in the order of N."""
    n_policy: tuple[int, ...]
    """Policy tokens of each member: the lengths of its stretches of N."""


def check_batch(
    batch: Sequence[TrainingSequence], n_minibatches: int, vocabulary: int, longest: int | None
) -> None:
    """Raise `UsageError` for a batch that cannot be trained on as it is."""
    if len(batch) < n_minibatches:
        raise UsageError(
            f"{len(batch)} training sequences cannot fill {n_minibatches} mini-batches",
            hint="lower --minibatches or sample more tasks",
        )
    for number, sequence in enumerate(batch):
        n = len(sequence.ids)
        where = f"training sequence {number}"
        if {len(sequence.mask), len(sequence.logprobs), len(sequence.advantages)} != {n}:
            raise UsageError(f"{where} has lists of different lengths")
        if sequence.n_policy == 0 or sequence.mask[0]:
            raise UsageError(f"{where} has no policy token after a prompt")
        if not 0 <= min(sequence.ids) <= max(sequence.ids) < vocabulary:
            raise UsageError(f"{where} has ids outside the policy's vocabulary of {vocabulary}")
        if longest is not None and n > longest:
            raise UsageError(f"{where} has {n} tokens; the policy takes at most {longest}")
        for values in (sequence.advantages, sequence.logprobs):
            if not all(map(math.isfinite, compress(values, sequence.mask))):
                raise UsageError(f"{where} has an advantage or log-prob that is not finite")


def canonical_order(batch: Sequence[TrainingSequence]) -> list[TrainingSequence]:
    """The same sequences, ordered by content: what is computed cannot depend on how they came."""
    return sorted(batch, key=lambda s: (len(s.ids), s.ids, s.mask, s.advantages, s.logprobs))


def split(n_sequences: int, n_parts: int, seed: int) -> list[list[int]]:
    """A seeded partition of sequence numbers into mini-batches whose sizes differ by at most 1."""
    numbers = list(range(n_sequences))
    random.Random(seed).shuffle(numbers)
    return [sorted(numbers[part::n_parts]) for part in range(n_parts)]


def unique_rows(batch: Sequence[TrainingSequence], numbers: Sequence[int]) -> list[Row]:
    """Merge sequences with equal ids and mask; shortest rows first."""
    rows: dict[tuple[tuple[int, ...], tuple[bool, ...]], Row] = {}
    for number in numbers:
        key = tuple(batch[number].ids), tuple(batch[number].mask)
        rows.setdefault(key, Row(*key, [])).members.append(number)
    return sorted(rows.values(), key=lambda row: (len(row.ids), row.ids, row.mask))


def micro_batches(
    batch: Sequence[TrainingSequence], numbers: Sequence[int], budget: int, device: torch.device
) -> Iterator[MicroBatch]:
    """Micro-batches of at most `budget` ids, padding included; a longer row stands alone."""
    waiting: list[Row] = []
    for row in unique_rows(batch, numbers):
        if waiting and (len(waiting) + 1) * len(row.ids) > budget:
            yield _collate(batch, waiting, device)
            waiting = []
        waiting.append(row)
    if waiting:
        yield _collate(batch, waiting, device)


def _collate(
    batch: Sequence[TrainingSequence], rows: Sequence[Row], device: torch.device
) -> MicroBatch:
    width = max(len(row.ids) for row in rows)
    ids_BT = torch.zeros(len(rows), width, dtype=torch.long)
    attention_BT = torch.zeros_like(ids_BT)
    predictor: list[int] = []
    target: list[int] = []
    source: list[int] = []
    advantage: list[float] = []
    engine: list[float] = []
    for b, row in enumerate(rows):
        ids_BT[b, : len(row.ids)] = torch.tensor(row.ids)
        attention_BT[b, : len(row.ids)] = 1
        own = range(len(target), len(target) + sum(row.mask))
        predictor += [b * width + t - 1 for t, policy in enumerate(row.mask) if policy]
        target += compress(row.ids, row.mask)
        for member in row.members:
            source += own
            advantage += compress(batch[member].advantages, row.mask)
            engine += compress(batch[member].logprobs, row.mask)
    return MicroBatch(
        ids_BT=ids_BT.to(device),
        attention_BT=attention_BT.to(device),
        positions_BT=(torch.arange(width).expand_as(ids_BT) * attention_BT).to(device),
        predictor_P=torch.tensor(predictor, device=device),
        target_P=torch.tensor(target, device=device),
        source_N=torch.tensor(source, device=device),
        advantage_N=torch.tensor(advantage, dtype=torch.float32, device=device),
        engine_N=torch.tensor(engine, dtype=torch.float32, device=device),
        members=tuple(member for row in rows for member in row.members),
        n_policy=tuple(sum(row.mask) for row in rows for _ in row.members),
    )
