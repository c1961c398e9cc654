"""One training sequence with everything that any form says of it.

A sequence is a run of turns up to the next reset of the context, as in `prover update`. Its prompt
is what stood before the first action; its completion is all that follows, actions and what the
environment said between them. Ids are those that were sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.tokens.mask import TurnTokens, sequences


@dataclass(frozen=True)
class Sample:
    """All lists have one entry per id of prompt and completion."""

    traj_id: str
    group_id: str
    task_id: str
    reward: float | None
    first_turn: int
    end_turn: int
    """One past its last turn."""
    n_prompt: int
    ids: list[int]
    mask: list[bool]
    """True for ids that are trained: sampled by the policy, in turns that have an advantage."""
    logprobs: list[float]
    """The engine's, 0 where the mask is False."""
    advantages: list[float]
    """0 where the mask is False."""

    @property
    def n_completion(self) -> int:
        return len(self.ids) - self.n_prompt


@dataclass(frozen=True)
class Facts:
    """What is the same in all sequences of an export."""

    estimator: str
    policy_id: str
    env: str
    temperature: float
    n_shards: int
    prompt_width: int
    """Ids of the longest prompt."""
    completion_width: int
    """Ids of the longest completion."""
    pad_id: int = 0


@dataclass(frozen=True)
class Form:
    """How sequences are written: `write(path, samples, facts)` adds those of one shard."""

    name: str
    write: Callable[[Path, Sequence[Sample], Facts], None]
    file: str | None
    """Name of a shard's file, with `{index}` and `{n}`; None where one file holds all."""


def samples_of(turns: pl.DataFrame, trajectories: pl.DataFrame) -> list[Sample]:
    """The sequences of a shard, by traj_id and turn, those without a trained id included.

    `turns` has the token columns and those of the advantages, sorted; `trajectories` has traj_id,
    task_id and reward.
    """
    facts = {row["traj_id"]: row for row in trajectories.iter_rows(named=True)}
    found: list[Sample] = []
    for part in turns.partition_by("traj_id", maintain_order=True):
        rows = part.to_dicts()
        starts = [i for i, row in enumerate(rows) if i == 0 or row["context_reset"]]
        made = sequences(_tokens(row) for row in rows)
        for start, end, sequence in zip(starts, [*starts[1:], len(rows)], made, strict=True):
            trajectory = facts[rows[start]["traj_id"]]
            found.append(
                Sample(
                    trajectory["traj_id"],
                    rows[start]["group_id"],
                    trajectory["task_id"],
                    trajectory["reward"],
                    rows[start]["turn"],
                    rows[end - 1]["turn"] + 1,
                    len(rows[start]["prompt_ids"]),
                    sequence.ids,
                    sequence.mask,
                    sequence.logprobs,
                    sequence.advantages,
                )
            )
    return found


def _tokens(row: Mapping[str, Any]) -> TurnTokens:
    n, per_token = len(row["action_ids"]), row["token_advantages"]
    return TurnTokens(
        context_reset=row["context_reset"],
        prompt_ids=row["prompt_ids"],
        action_ids=row["action_ids"],
        logprobs=row["logprobs"],
        advantages=None
        if row["advantage"] is None
        else [row["advantage"]] * n
        if per_token is None
        else per_token,
    )
