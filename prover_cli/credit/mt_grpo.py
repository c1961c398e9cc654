"""MT-GRPO (arXiv 2505.11821; SiliangZeng/Multi-Turn-RL-Agent): rewards for turns, given by a rule.

    A[t] = A_O + lambda * A_T    before the last turn: up to the tool's result
    A[t] = A_O                   at the last turn
    A_O    the outcome, A_T the trajectory's turn rewards, each (x - mean) / (std + 1e-4)

The turn rewards of a trajectory are the step rewards of its turns before the last, summed. The
paper has two turns, a tool call and an answer; summing over more is ours. A group of equal outcomes
still has A_T. Needs: trajectories (n_turns), turns (reward).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import normalised, with_local
from prover_cli.credit.group_relative import GroupRelative, Outcome
from prover_cli.credit.steps import compared


@dataclass(frozen=True)
class MTGRPO:
    """A group-relative outcome, and group-relative turn rewards for all turns but the last."""

    lambda_: float = 1.0
    outcome: Outcome = "success"
    """`reward` is the sum of all step rewards, so turn rewards would count twice."""
    ddof: int = 1
    eps: float = 1e-4
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative("std", self.outcome, self.ddof, self.eps).advantages(tables)
        steps = compared(rows, tables.turns, "reward")
        early = pl.col("turn") < pl.col("turn").max().over("traj_id")
        per_trajectory = (
            steps.with_columns(pl.when(early).then("reward").otherwise(0.0).alias("paid"))
            .group_by("traj_id", "group_id")
            .agg(pl.col("paid").sum(), pl.col("turn").max().alias("last"))
            .select(
                "traj_id",
                "last",
                normalised(pl.col("paid"), ["group_id"], "std", self.ddof, self.eps).alias("own"),
            )
        )
        merged = rows.join(per_trajectory, on="traj_id", how="left")
        local = pl.when(pl.col("turn") < pl.col("last")).then(pl.col("own") * self.lambda_)
        return with_local(merged, local, Reason.LOCAL)
