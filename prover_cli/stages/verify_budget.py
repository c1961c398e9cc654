"""Which groups a budget reaches: whole groups, in an order drawn before anything is sampled.

The order is seeded and knows nothing of shards, judges or outcomes. Groups are taken until the
next one would exceed the budget; it and all after it are left out and recorded as such. Every group
taken gets complete pairs. A bound on continuations holds exactly. A bound on tokens is one on
*expected* tokens: a continuation from a turn is expected to cost what the group's trajectories that
reached the turn spent from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from prover_cli.ids import derive_seed
from prover_cli.stages.states import Boundary
from prover_cli.stages.verify_proposers import Wanted, sides
from prover_cli.stages.verify_rule import Rule, expected_share


@dataclass(frozen=True)
class GroupCost:
    """Most continuations of a group, and the tokens expected for them."""

    group_id: str
    continuations: int
    tokens: float


def affordable(
    costs: Iterable[GroupCost], seed: int, most: int | None, most_tokens: float | None
) -> set[str]:
    """The groups within both bounds (None: no bound)."""
    chosen: set[str] = set()
    spent, tokens = 0, 0.0
    for cost in sorted(costs, key=lambda c: derive_seed("verify-budget", seed, c.group_id)):
        spent, tokens = spent + cost.continuations, tokens + cost.tokens
        if most is not None and spent > most:
            break
        if most_tokens is not None and tokens > most_tokens:
            break
        chosen.add(cost.group_id)
    return chosen


def group_costs(
    wanted: Wanted, trajectories: pl.DataFrame, turns: pl.DataFrame, rule: Rule, k: int
) -> list[GroupCost]:
    """The cost of each group of one shard for which anything is wanted."""
    lengths = dict(trajectories.select("traj_id", "n_turns").iter_rows())
    group = dict(trajectories.select("traj_id", "group_id").iter_rows())
    needed: dict[str, dict[Boundary, int]] = {}

    def need(boundary: Boundary, n: int) -> None:
        if boundary[1] < lengths[boundary[0]]:
            of_group = needed.setdefault(group[boundary[0]], {})
            of_group[boundary] = max(n, of_group.get(boundary, 0))

    for boundary in wanted.singles:
        need(boundary, k)
    for row in wanted.segments:
        for boundary, n in zip(sides(row), rule.most, strict=True):
            need(boundary, n)
    expected, share = _expected_tokens(turns), expected_share(rule)
    return [
        GroupCost(
            group_id,
            sum(of_group.values()),
            share * sum(n * expected[group_id, turn] for (_, turn), n in of_group.items()),
        )
        for group_id, of_group in sorted(needed.items())
    ]


def _expected_tokens(turns: pl.DataFrame) -> Mapping[tuple[str, int], float]:
    """Tokens sampled from a turn on, by group and turn: the mean of those that reached it."""
    spent = (
        turns.sort("traj_id", "turn")
        .with_columns(pl.col("action_ids").list.len().cast(pl.Int64).alias("tokens"))
        .with_columns(
            pl.col("tokens").cum_sum(reverse=True).over("traj_id", order_by="turn").alias("rest")
        )
        .group_by("group_id", "turn")
        .agg(pl.col("rest").mean())
    )
    return {(group, turn): rest for group, turn, rest in spent.iter_rows()}
