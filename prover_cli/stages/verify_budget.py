"""Which groups a budget reaches: whole groups, in an order fixed before anything is sampled.

The order is drawn by seed and knows nothing of shards, judges or outcomes; groups are taken until
the next one would exceed the budget. Or it is that of expected information for each token, and
groups that do not fit are passed over: the recorded siblings say how sure the values are already.
That choice depends on recordings alone, so each estimate stays unbiased; but the verified groups
are then no sample of all. What is left out is recorded as such, and every group taken gets complete
pairs. A bound on continuations holds exactly. A bound on tokens is one on *expected* tokens: a
continuation from a turn is expected to cost what the group's trajectories that reached the turn
spent from there on.
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
    information: float = 0.0
    """Expected fall of the gain's variance, summed over the group's segments."""


def affordable(
    costs: Iterable[GroupCost],
    seed: int,
    most: int | None,
    most_tokens: float | None,
    by_information: bool = False,
) -> set[str]:
    """The groups within both bounds (None: no bound)."""
    ranked = sorted(costs, key=lambda c: derive_seed("verify-budget", seed, c.group_id))
    if by_information:
        ranked.sort(key=lambda c: -c.information / max(c.tokens, 1.0))
    chosen: set[str] = set()
    spent, tokens = 0, 0.0
    for cost in ranked:
        over = most is not None and spent + cost.continuations > most
        over |= most_tokens is not None and tokens + cost.tokens > most_tokens
        if over and not by_information:
            break
        if not over:
            spent, tokens = spent + cost.continuations, tokens + cost.tokens
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
    information = expected_information(wanted, trajectories, turns, rule)
    return [
        GroupCost(
            group_id,
            sum(of_group.values()),
            share * sum(n * expected[group_id, turn] for (_, turn), n in of_group.items()),
            information.get(group_id, 0.0),
        )
        for group_id, of_group in sorted(needed.items())
    ]


def expected_information(
    wanted: Wanted, trajectories: pl.DataFrame, turns: pl.DataFrame, rule: Rule
) -> dict[str, float]:
    """By group, how much the variance of its gains is expected to fall.

    A state's value has the prior Beta(1 + successes, 1 + failures) of the scored trajectories of
    the group that visit the state, the proposed one left out. Its variance is expected to fall by
    the share n / (n + 2 + visits) with n continuations. The end of an episode is known already.
    """
    outcomes = trajectories.select("traj_id", "success").drop_nulls()
    won: dict[str, bool] = dict(outcomes.iter_rows())
    keys: dict[Boundary, str] = {}
    visitors: dict[tuple[str, str], set[str]] = {}
    for traj_id, turn, group, key in turns.select(
        "traj_id", "turn", "group_id", "state_key"
    ).iter_rows():
        keys[traj_id, turn] = key
        if traj_id in won:
            visitors.setdefault((group, key), set()).add(traj_id)

    def fall(group: str, boundary: Boundary, n: int) -> float:
        if boundary not in keys:
            return 0.0
        seen = [won[t] for t in visitors.get((group, keys[boundary]), ()) if t != boundary[0]]
        a = 1.0 + sum(seen)
        b = 2.0 + len(seen) - a
        return a * b / ((a + b) ** 2 * (a + b + 1)) * n / (n + a + b)

    found: dict[str, float] = {}
    for row in wanted.segments:
        group = row["group_id"]
        gained = sum(fall(group, b, n) for b, n in zip(sides(row), rule.most, strict=True))
        found[group] = found.get(group, 0.0) + gained
    return found


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
