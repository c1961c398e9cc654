"""REINFORCE++ (arXiv 2501.03262, as verl): outcomes whitened over the whole batch.

    reinforce++             x = R
    reinforce++-baseline    x = R - mean of the group
    A = (x - mean(x)) / sqrt(var(x) + 1e-8)      mean and unbiased variance over all policy tokens

The discount is 1 and the KL penalty is the loss's, so all tokens of a trajectory share its number,
and a long trajectory weighs more in mean and variance (`weight=trajectory` counts each once).
Needs: trajectories (with n_action_tokens), turns, of the whole run. A group of equal outcomes has
no special place here: it is compared with the others. `reinforce++` needs no siblings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from prover_cli.credit.base import CreditTables, Reason, broadcast
from prover_cli.credit.frames import require, text
from prover_cli.credit.group_relative import GroupRelative, Outcome
from prover_cli.credit.moments import Moments, merged, of_groups


@dataclass(frozen=True)
class ReinforcePlusPlus:
    """Run-scoped: statistics over every policy token of the run."""

    baseline: bool = False
    outcome: Outcome = "reward"
    weight: Literal["token", "trajectory"] = "token"
    eps: float = 1e-8
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def statistics(self, tables: CreditTables) -> pl.DataFrame:
        frame = require(tables.trajectories, "trajectories", "traj_id", "group_id")
        if self.weight == "token":
            require(frame, "trajectories", "n_action_tokens")
        weight = pl.col("n_action_tokens") if self.weight == "token" else pl.lit(1.0)
        joined = frame.with_columns(weight.alias("_weight")).join(
            self.centred(frame), on="traj_id", how="left"
        )
        return of_groups(joined, "x", "_weight")

    def fitted(self, statistics: pl.DataFrame) -> Whitened:
        return Whitened(self, merged(statistics))

    def centred(self, trajectories: pl.DataFrame) -> pl.DataFrame:
        """`traj_id`, `x` (null where there is none) and `reason`."""
        if self.baseline:
            rows = GroupRelative("mean", self.outcome).per_trajectory(trajectories)
            return rows.rename({"base": "x"})
        outcome = pl.col(self.outcome).cast(pl.Float64)
        return trajectories.select(
            "traj_id",
            outcome.alias("x"),
            pl.when(outcome.is_null())
            .then(text(Reason.VOID))
            .otherwise(text(Reason.BASE))
            .alias("reason"),
        )


@dataclass(frozen=True)
class Whitened:
    """REINFORCE++ with the moments of a run."""

    method: ReinforcePlusPlus
    moments: Moments
    needs: ClassVar[frozenset[str]] = ReinforcePlusPlus.needs

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        x = self.moments.whitened(pl.col("x"), self.method.eps)
        known = pl.col("x").is_not_null()
        reason = text(Reason.ZERO_VARIANCE if self.moments.equal else Reason.BASE)
        rows = self.method.centred(tables.trajectories).with_columns(
            x.alias("base"), pl.when(known).then(reason).otherwise("reason").alias("reason")
        )
        return broadcast(rows, tables.turns)
