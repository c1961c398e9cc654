"""VinePPO (arXiv 2410.01679): A[t] = r[t] + V(s[t+1]) - V(s[t]), the terminal value being 0.

Values are success rates of continuations from every turn (`prover verify --proposer all-turns`).
The differences telescope: over a trajectory they sum to its outcome minus V(s[0]). Needs:
trajectories (n_turns), turns, values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import purely_local, require, text
from prover_cli.credit.group_relative import Outcome
from prover_cli.order import in_order


@dataclass(frozen=True)
class VinePPO:
    """One advantage per turn from the values of its two ends; there is no trajectory-level part."""

    outcome: Outcome = "success"
    """Paid at the last turn; `success` is the unit of the values."""
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "values"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = valued(tables, self.outcome)
        last = pl.col("turn") == pl.col("n_turns") - 1
        after = pl.when(last).then("outcome").otherwise(pl.col("mean").shift(-1).over("traj_id"))
        return differences(rows.with_columns((after - pl.col("mean")).alias("difference")))


def valued(tables: CreditTables, outcome: Outcome) -> pl.DataFrame:
    """Every turn with `n_turns`, its trajectory's `outcome` and the `mean` value of the state
    before it (null where there is none), by traj_id and turn."""
    values = require(tables.values, "values", "traj_id", "turn", "mean")
    trajectories = require(tables.trajectories, "trajectories", "n_turns", outcome)
    return in_order(
        tables.turns.select("traj_id", "turn", "group_id")
        .join(
            trajectories.select(
                "traj_id", "n_turns", pl.col(outcome).cast(pl.Float64).alias("outcome")
            ),
            on="traj_id",
            maintain_order="left",
        )
        .join(values.select("traj_id", "turn", "mean"), on=["traj_id", "turn"], how="left")
    )


def differences(rows: pl.DataFrame, *, dropped: pl.Expr | None = None) -> pl.DataFrame:
    """Rows whose advantage is `difference`; `dropped` turns are those the method leaves out."""
    void = pl.col("outcome").is_null()
    skipped = pl.lit(False) if dropped is None else dropped
    return purely_local(
        rows,
        pl.when(~void & ~skipped).then("difference"),
        pl.when(void)
        .then(text(Reason.VOID))
        .when(skipped)
        .then(text(Reason.NOT_CRITICAL))
        .when(pl.col("difference").is_null())
        .then(text(Reason.NO_VALUE))
        .otherwise(text(Reason.VALUE_DIFFERENCE)),
    )
