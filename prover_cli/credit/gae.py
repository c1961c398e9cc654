"""Advantages from a value column: generalised advantage estimation over turns (arXiv 1506.02438).

    delta[t] = r[t] + gamma V(s[t+1]) - V(s[t])      V after the last turn is 0
    A[t] = delta[t] + gamma * lambda * A[t+1]

    gae            lambda 0.95
    actor-critic   lambda 0: one step
    steppo         StepPO (arXiv 2604.18401), the same recursion: a turn is a step, its value the
                   critic's at the last token before the action. Its step ratio is the loss's.

One step of the recursion is one turn, so what the environment said is no step of it. r is the
turn's step reward; with `pay=reward` or `pay=success` it is 0 until the outcome at the last turn. A
trajectory cut short is treated as ended. Advantages are not whitened. A turn whose value is missing
has no advantage, nor has any before it that needs it. Needs: trajectories, turns (reward), scores
(value).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import purely_local, require, text
from prover_cli.credit.recurrence import recur
from prover_cli.order import in_order


@dataclass(frozen=True)
class GAE:
    """One advantage per turn from rewards and a critic; siblings are not needed."""

    gamma: float = 1.0
    lambda_: float = 0.95
    pay: Literal["step", "reward", "success"] = "step"
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "scores"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = self._paid(tables)
        after = pl.col("value").shift(-1).over("traj_id")
        last = pl.int_range(pl.len()).over("traj_id") == pl.len().over("traj_id") - 1
        ahead = pl.when(last).then(0.0).otherwise(after)
        delta = pl.col("paid") + self.gamma * ahead - pl.col("value")
        rows = rows.with_columns(delta.alias("delta"))
        rows = rows.with_columns(self._summed(rows).alias("amount"))
        known = pl.col("outcome").is_not_null()
        return purely_local(
            rows,
            pl.when(known).then("amount"),
            pl.when(~known)
            .then(text(Reason.VOID))
            .when(pl.col("amount").is_null())
            .then(text(Reason.NO_VALUE))
            .otherwise(text(Reason.VALUE_DIFFERENCE)),
        )

    def _summed(self, rows: pl.DataFrame) -> pl.Series:
        factor = self.gamma * self.lambda_
        # With a factor of 0 a missing value further on must not matter.
        return recur(rows, "delta", factor, "backward") if factor else rows["delta"]

    def _paid(self, tables: CreditTables) -> pl.DataFrame:
        """Turns with `value`, `paid` (r) and `outcome`, by traj_id and turn."""
        scores = require(tables.scores, "scores", "traj_id", "turn", "value")
        column = "reward" if self.pay == "step" else self.pay
        outcome = require(tables.trajectories, "trajectories", column).select(
            "traj_id", pl.col(column).cast(pl.Float64).alias("outcome")
        )
        last = pl.col("turn") == pl.col("turn").max().over("traj_id")
        columns = ["traj_id", "turn", "group_id"]
        if self.pay == "step":
            paid, columns = pl.col("reward").cast(pl.Float64), [*columns, "reward"]
        else:
            paid = pl.when(last).then("outcome").otherwise(0.0)
        return in_order(
            require(tables.turns, "turns", *columns)
            .select(columns)
            .join(outcome, on="traj_id", maintain_order="left")
            .with_columns(paid.alias("paid"))
            .select("traj_id", "turn", "group_id", "paid", "outcome")
            .join(
                scores.select("traj_id", "turn", pl.col("value").cast(pl.Float64)),
                on=["traj_id", "turn"],
                how="left",
            )
        )
