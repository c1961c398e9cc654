"""VinePPO (arXiv 2410.01679): A[t] = r[t] + V(s[t+1]) - V(s[t]), the terminal value being 0.

Values are success rates of continuations from every turn (`prover verify --proposer all-turns`).
The differences telescope: over a trajectory they sum to its outcome minus V(s[0]).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from prover_cli.credit.base import CreditTables, Reason


@dataclass(frozen=True)
class VinePPO:
    """One advantage per turn from the values of its two ends; there is no trajectory-level part."""

    outcome: Literal["reward", "success"] = "success"
    """Paid at the last turn; `success` is the unit of the values."""
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "values"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        assert tables.values is not None
        value = pl.col("mean")
        rows = (
            tables.turns.select("traj_id", "turn", "group_id")
            .join(tables.trajectories.select("traj_id", "n_turns", self.outcome), on="traj_id")
            .join(
                tables.values.select("traj_id", "turn", "mean"), on=["traj_id", "turn"], how="left"
            )
            .sort("traj_id", "turn")
        )
        last = pl.col("turn") == pl.col("n_turns") - 1
        after = (
            pl.when(last)
            .then(pl.col(self.outcome).cast(pl.Float64))
            .otherwise(value.shift(-1).over("traj_id"))
        )
        void = pl.col(self.outcome).is_null()
        return rows.select(
            "traj_id",
            "turn",
            "group_id",
            pl.lit(None, pl.Float64).alias("base"),
            pl.when(void).then(None).otherwise(after - value).alias("local"),
            pl.when(void).then(None).otherwise(after - value).alias("advantage"),
            pl.lit(None, pl.List(pl.Float32)).alias("token_advantages"),
            pl.when(void)
            .then(pl.lit(str(Reason.VOID)))
            .when((after - value).is_null())
            .then(pl.lit("turn_without_value"))
            .otherwise(pl.lit("value_difference"))
            .alias("reason"),
        )
