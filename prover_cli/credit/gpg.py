"""GPG (as verl): the group-relative outcome, scaled by how rare signal is in the batch.

    A = alpha * (R - mean(R)) / f_norm      alpha = trajectories / trajectories with R != 0

Needs: trajectories, turns, of the whole run. With `alpha` given, the run does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, broadcast
from prover_cli.credit.group_relative import GroupRelative, Outcome


@dataclass(frozen=True)
class GPG:
    """Run-scoped: counts of trajectories with an outcome, and with one that is not 0."""

    alpha: float | None = None
    """None takes it from the run."""
    f_norm: float = 1.0
    outcome: Outcome = "reward"
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def statistics(self, tables: CreditTables) -> pl.DataFrame:
        outcome = pl.col(self.outcome).cast(pl.Float64)
        return tables.trajectories.group_by("group_id").agg(
            outcome.count().alias("n"), (outcome != 0).sum().alias("n_signal")
        )

    def fitted(self, statistics: pl.DataFrame) -> Scaled:
        n, n_signal = (int(statistics[name].sum()) for name in ("n", "n_signal"))
        alpha = n / max(1, n_signal) if self.alpha is None else self.alpha
        return Scaled(self.outcome, alpha / self.f_norm)


@dataclass(frozen=True)
class Scaled:
    """Mean-centred outcomes times a constant."""

    outcome: Outcome
    factor: float
    needs: ClassVar[frozenset[str]] = GPG.needs

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative("mean", self.outcome).per_trajectory(tables.trajectories)
        return broadcast(rows.with_columns(pl.col("base") * self.factor), tables.turns)
