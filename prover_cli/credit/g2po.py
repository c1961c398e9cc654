"""G2PO (arXiv 2606.22995; Nala-YN/G2PO): turns that lead to states of higher value.

    V(s)   mean over the visits of s by the group of gamma^(T - t) R    (T turns, t 0-based)
    V'[t]  V of the state that the turn leads to; R after a success, 0 after a failure
    A[t] = A_E + w * (norm over equal states of (V'[t] - penalty * invalid[t])
                      + norm over the group's turns of (V'[t] - V(s[t])))

`norm` takes the mean off, and divides by the deviation (ddof 1) for `std`; a turn that is alone at
its state has no first part. The reference code pays 10 for a success and takes 0.1 off for an
invalid action; outcomes here are 1, so the penalty is 0.01. `g2po@code` has A_E over turns, as
the code. Groups of equal outcomes may have a step term. Needs: trajectories (success), turns
(observation_hash or state_key, action_valid).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import normalised, require, with_local
from prover_cli.credit.graph import SUCCESS, edges
from prover_cli.credit.group_relative import Outcome
from prover_cli.credit.steps import Episode, Key, StepNorm, compared


@dataclass(frozen=True)
class G2PO:
    """The episode's term plus one from the values of the group's states."""

    w: float = 1.0
    gamma: float = 0.95
    penalty: float = 0.01
    norm: StepNorm = "mean"
    key: Key = "observation_hash"
    across_steps: bool = False
    outcome: Outcome = "reward"
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = Episode(self.norm, self.outcome, self.across_steps).advantages(tables)
        merged = rows.join(self.step_terms(rows, tables), on=["traj_id", "turn"], how="left")
        return with_local(merged, pl.col("step") * self.w, Reason.LOCAL)

    def step_terms(self, rows: pl.DataFrame, tables: CreditTables) -> pl.DataFrame:
        """`traj_id`, `turn`, `step` of the turns with a base."""
        outcomes = require(tables.trajectories, "trajectories", "success").select(
            "traj_id", "success", pl.col(self.outcome).cast(pl.Float64).alias("outcome")
        )
        steps = compared(rows, tables.turns, self.key, "action_valid").join(
            outcomes, on="traj_id", maintain_order="left"
        )
        left = pl.len().over("traj_id") - pl.int_range(pl.len()).over("traj_id")
        worth = pl.lit(self.gamma).pow(left) * pl.col("outcome")
        steps = edges(steps, self.key).with_columns(worth.alias("worth"))
        value = pl.col("worth").mean().over("node")
        ended = pl.when(pl.col("next") == SUCCESS).then("outcome").otherwise(0.0)
        steps = steps.with_columns(value.alias("value")).with_columns(
            pl.col("value").shift(-1).over("traj_id").fill_null(ended).alias("after")
        )
        steps = steps.with_columns(
            (pl.col("after") - self.penalty * pl.col("action_valid").not_()).alias("reached"),
            (pl.col("after") - pl.col("value")).alias("gain"),
        )
        return steps.select(
            "traj_id",
            "turn",
            (
                normalised(pl.col("reached"), ["node"], self.norm, 1, self.eps)
                + normalised(pl.col("gain"), ["group_id"], self.norm, 1, self.eps)
            ).alias("step"),
        )
