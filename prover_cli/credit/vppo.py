"""VPPO (arXiv 2601.18984, "Save the Good Prefix"), approximate: a failure's turns before its error.

    credit[t] = 1       in a success
    credit[t] = alpha   in a failure, for t < floor(keep * first wrong turn)
    credit[t] = 0       in the rest of a failure
    A[t] = credit[t] - mean over the group's trajectories of their mean credit

The mean credit of a trajectory is taken over its turns, while the paper averages over tokens. The
paper shortens the good prefix by an amount that we do not have: `keep` is 1 unless you set it.
`relu` lifts negative advantages of the good prefix to 0. A failure without a wrong turn is good
throughout; one that was not labelled has no advantage and is in no mean. A group of failures may
have advantages. Needs: trajectories (success), turns, proposals (labels `first_error`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import purely_local, require, text
from prover_cli.credit.group_relative import GroupRelative
from prover_cli.credit.labels import first_errors
from prover_cli.errors import UsageError


@dataclass(frozen=True)
class VPPO:
    """A reward per turn, less the group's mean reward; there is no trajectory-level part."""

    alpha: float = 0.5
    keep: float = 1.0
    relu: bool = False
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "proposals"})

    def __post_init__(self) -> None:
        if not 0 <= self.keep <= 1:
            raise UsageError(
                f"keep={self.keep} is not a share of the prefix", hint="0 <= keep <= 1"
            )

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        success = require(tables.trajectories, "trajectories", "success").select(
            "traj_id", "success"
        )
        labels = first_errors(tables.proposals).with_columns(pl.lit(True).alias("labelled"))
        rows = GroupRelative("mean", "success").advantages(tables)
        merged = rows.join(success, on="traj_id", how="left").join(labels, on="traj_id", how="left")
        # Rounded first: 0.7 * 10 is a little less than 7.
        prefix = (pl.col("label") * self.keep).round(9).floor()
        good = pl.col("label").is_null() | (pl.col("turn") < prefix)
        unlabelled = pl.col("success").not_() & pl.col("labelled").is_null()
        credit = pl.when("success").then(1.0).when(good).then(self.alpha).otherwise(0.0)
        counted = pl.col("base").is_not_null() & unlabelled.not_()
        merged = merged.with_columns(
            pl.when(counted).then(credit).alias("credit"),
            good.alias("good"),
            unlabelled.alias("un"),
        )
        amount = pl.col("credit") - self._baseline()
        if self.relu:
            cut = pl.col("success").not_() & pl.col("good") & (amount < 0)
            amount = pl.when(cut).then(0.0).otherwise(amount)
        known = pl.col("credit").is_not_null()
        reason = (
            pl.when(known)
            .then(text(Reason.LOCAL))
            .when("un")
            .then(text(Reason.UNLABELLED))
            .otherwise("reason")
        )
        return purely_local(merged, amount, reason)

    @staticmethod
    def _baseline() -> pl.Expr:
        """The mean of the trajectories' means: each counts once, however long it is."""
        first = pl.col("turn") == pl.col("turn").min().over("traj_id")
        own = pl.when(first).then(pl.col("credit").mean().over("traj_id"))
        return own.mean().over("group_id")
