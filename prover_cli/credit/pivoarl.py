"""PivoARL (arXiv 2607.03702), approximate: a failure is as good as a retry up to its pivotal error.

    A[t] = A + V(s[p]) - R     before the pivotal turn p of a failure: R is replaced by the success
                               rate of retries from the state before p
    A[t] = A                   from p on, and in successes

A is the mean-centred outcome. The pivotal turn is the label `first_error`. The paper rewards the
prefix and isolates the bad suffix by retries during training; that the retries' rate takes the
place of the outcome is our reading. A failure without labels has no advantage; one without an error
keeps A; one whose state has no value has no advantage before p. Needs: trajectories (success),
turns, proposals (labels `first_error`), values at the states before pivotal turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import left_out, require, with_local
from prover_cli.credit.group_relative import GroupRelative
from prover_cli.credit.labels import first_errors


@dataclass(frozen=True)
class PivoARL:
    """Prefixes of failures are credited with what they still allowed."""

    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "proposals", "values"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative("mean", "success").advantages(tables)
        values = require(tables.values, "values", "traj_id", "turn", "mean")
        pivots = first_errors(tables.proposals).join(
            values.select("traj_id", pl.col("turn").cast(pl.Int64).alias("label"), "mean"),
            on=["traj_id", "label"],
            how="left",
        )
        joined = (
            rows.join(tables.trajectories.select("traj_id", "success"), on="traj_id", how="left")
            .join(pivots.with_columns(pl.lit(True).alias("labelled")), on="traj_id", how="left")
            .with_columns((pl.col("success").not_()).alias("failed"))
        )
        signal = pl.col("reason") == str(Reason.BASE)
        prefix = signal & pl.col("failed") & (pl.col("turn") < pl.col("label"))
        unlabelled = signal & pl.col("failed") & pl.col("labelled").is_null()
        joined = joined.with_columns(
            unlabelled.fill_null(False).alias("unlabelled"),
            (prefix & pl.col("mean").is_null()).fill_null(False).alias("unvalued"),
        )
        local = pl.when(prefix).then(pl.col("mean"))
        marks = joined.select("traj_id", "turn", "unlabelled", "unvalued")
        done = with_local(joined, local, Reason.LOCAL)
        for column, reason in (("unlabelled", Reason.UNLABELLED), ("unvalued", Reason.NO_VALUE)):
            marked = done.join(marks, on=["traj_id", "turn"], how="left")
            done = left_out(marked, pl.col(column), reason)
        return done
