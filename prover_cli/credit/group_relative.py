"""Trajectory-level advantages from the outcomes of a group.

With R the outcomes of the group's valid trajectories:

    mean     R - mean(R)                        Dr. GRPO (2503.20783); the base of ProVer
    std      (R - mean(R)) / (std(R) + eps)     GRPO (2402.03300); std with `ddof`, as verl
    rloo     R - mean of the others             RLOO (2402.14740)
    maxrl    (R - mean(R)) / mean(R)            MaxRL (prime-rl); 0 when the mean is not positive

Needs: trajectories, turns. `grpo` and `dr-grpo` are the same advantage; what else Dr. GRPO changes
is the loss, which is divided by a constant length. `search-r1` (2503.09516) is `std` with the
retrieved text out of the loss, which observations always are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from prover_cli.credit.base import CreditTables, Reason, broadcast
from prover_cli.credit.frames import EQUAL, text

Norm = Literal["mean", "std", "rloo", "maxrl"]
Outcome = Literal["reward", "success"]


@dataclass(frozen=True)
class GroupRelative:
    """One number per trajectory, given to all of its turns."""

    norm: Norm = "mean"
    outcome: Outcome = "reward"
    """Which column is the outcome R."""
    ddof: int = 1
    """Degrees of freedom taken off in `std` (1 as verl, 0 for the population)."""
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        return broadcast(self.per_trajectory(tables.trajectories), tables.turns)

    def per_trajectory(self, trajectories: pl.DataFrame) -> pl.DataFrame:
        """`traj_id`, `base` (null when void or singleton) and `reason`."""
        outcome = pl.col(self.outcome).cast(pl.Float64)
        n = outcome.count().over("group_id")
        spread = outcome.max().over("group_id") - outcome.min().over("group_id")
        return trajectories.select(
            "traj_id",
            pl.when(outcome.is_null() | (n < 2))
            .then(None)
            .when(spread < EQUAL)
            .then(0.0)
            .otherwise(self._formula(outcome, n))
            .alias("base"),
            pl.when(outcome.is_null())
            .then(text(Reason.VOID))
            .when(n < 2)
            .then(text(Reason.SINGLETON))
            .when(spread < EQUAL)
            .then(text(Reason.ZERO_VARIANCE))
            .otherwise(text(Reason.BASE))
            .alias("reason"),
        )

    def _formula(self, outcome: pl.Expr, n: pl.Expr) -> pl.Expr:
        mean = outcome.mean().over("group_id")
        centred = outcome - mean
        match self.norm:
            case "mean":
                return centred
            case "std":
                return centred / (outcome.std(ddof=self.ddof).over("group_id") + self.eps)
            case "rloo":
                return centred * n / (n - 1)
            case "maxrl":
                return pl.when(mean > 0).then(centred / mean).otherwise(0.0)
