"""HGPO (arXiv 2602.22817; verl-agent recipe/hgpo): turns compared at several depths of history.

    a[t,k]   the return G[t] normalised over the group's turns whose last k observations agree with
             those of t, k = 1 .. history + 1 (deviation with ddof 0; `norm=mean`: without it)
    A[t]     sum over k of w[k] a[t,k],  w[k] = (k + 1)^alpha / (sum of those used + eps)

Depths that a turn does not reach, sets of one turn and values of exactly 0 are not used. There is
no episode term; `base_group` adds GiGPO's (over turns, as the code) as depth 0. Returns are
discounted as in GiGPO, so groups of equal outcomes may have advantages. Needs: trajectories, turns
(reward, observation_hash or state_key; action_valid with `base_group`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import normalised, purely_local, text
from prover_cli.credit.group_relative import GroupRelative, Outcome
from prover_cli.credit.steps import Episode, Key, StepNorm, compared, returns
from prover_cli.errors import UsageError


@dataclass(frozen=True)
class HGPO:
    """One number per turn from nested sets of turns with a common history."""

    history: int = 2
    """Observations before the present one that are looked at (2 or 4)."""
    alpha: float = 1.0
    gamma: float = 0.95
    norm: StepNorm = "std"
    key: Key = "observation_hash"
    base_group: bool = False
    outcome: Outcome = "reward"
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def __post_init__(self) -> None:
        if self.history < 0:
            raise UsageError(f"history={self.history} is negative")

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative("mean", self.outcome).advantages(tables)
        steps = compared(rows, tables.turns, "reward", self.key)
        steps = steps.with_columns(returns(steps, self.gamma).alias("total"))
        depths = self._depths(steps)
        if self.base_group:
            base = Episode(self.norm, self.outcome, True).advantages(tables)
            steps = steps.join(base.select("traj_id", "turn", "base"), on=["traj_id", "turn"])
            steps = steps.with_columns(pl.col("base").alias("_a0"))
            depths.insert(0, 0)
        steps = self._compare(steps)
        merged = rows.join(
            steps.select("traj_id", "turn", self._weighted(depths).alias("amount")),
            on=["traj_id", "turn"],
            how="left",
        )
        known = pl.col("amount").is_not_null()
        reason = pl.when(known).then(text(Reason.LOCAL)).otherwise("reason")
        return purely_local(merged, pl.col("amount"), reason)

    def _depths(self, steps: pl.DataFrame) -> list[int]:
        longest = 0 if steps.is_empty() else int(steps.group_by("traj_id").len()["len"].max())  # type: ignore[arg-type]
        return list(range(1, min(self.history + 1, longest) + 1))

    def _compare(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Add `_a1`, `_a2`, ...: the return against the turns that share k observations."""
        steps = steps.with_columns(pl.lit("").alias("_key"))
        for k in self._depths(steps):
            earlier = pl.col(self.key).shift(k - 1).over("traj_id")
            # A null key (the trajectory is too short for k) makes a null value below.
            steps = steps.with_columns(
                pl.concat_str("_key", earlier, separator="\n", ignore_nulls=False).alias("_key")
            )
            total = pl.when(pl.col("_key").is_not_null()).then("total")
            value = normalised(total, ["group_id", "_key"], self.norm, 0, self.eps)
            steps = steps.with_columns(value.alias(f"_a{k}"))
        return steps

    def _weighted(self, depths: list[int]) -> pl.Expr:
        weighted, weights = [pl.lit(0.0)], [pl.lit(0.0)]
        for k in depths:
            value, weight = pl.col(f"_a{k}"), float((k + 1) ** self.alpha)
            used = value.is_not_null() & (value != 0)
            weighted.append(pl.when(used).then(value * weight).otherwise(0.0))
            weights.append(pl.when(used).then(weight).otherwise(0.0))
        return reduce(add, weighted) / (reduce(add, weights) + self.eps)
