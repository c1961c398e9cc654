"""Group-relative advantages of some of the groups; the others are left out of the update.

    dapo     dynamic sampling (arXiv 2503.14476): groups whose outcomes are all equal are left out
    ragen    StarPO-S (arXiv 2504.20073): only the `keep` share of the groups whose outcomes
             deviate most (standard deviation, ddof 1) is kept; ties go to the smaller group_id

A group that is left out has null advantages with the reason `filtered`: null turns are masked out
of the update and its denominator, while turns of 0 would count in it. DAPO samples other groups in
their place, which is the rollout's business; its clipping and token mean are the loss's. StarPO-S
keeps floor(keep * groups with at least two outcomes), here at least one. Needs: trajectories,
turns; `ragen` of the whole run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import left_out
from prover_cli.credit.group_relative import GroupRelative, Norm, Outcome
from prover_cli.errors import UsageError


@dataclass(frozen=True)
class DynamicSampling:
    """Groups with different outcomes only."""

    norm: Norm = "std"
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative(self.norm, self.outcome, self.ddof, self.eps).advantages(tables)
        return left_out(rows, pl.col("reason") == str(Reason.ZERO_VARIANCE), Reason.FILTERED)


@dataclass(frozen=True)
class StarPOS:
    """Run-scoped: the deviation of every group's outcomes."""

    keep: float = 0.25
    norm: Norm = "std"
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise UsageError(f"keep={self.keep} is not a share of the groups", hint="0 < keep <= 1")

    def statistics(self, tables: CreditTables) -> pl.DataFrame:
        outcome = pl.col(self.outcome).cast(pl.Float64)
        return (
            tables.trajectories.group_by("group_id")
            .agg(outcome.count().alias("n"), outcome.std(ddof=1).alias("deviation"))
            .filter(pl.col("n") > 1)
        )

    def fitted(self, statistics: pl.DataFrame) -> Kept:
        # Rounded, so that a group's rows in another order do not break a tie.
        ranked = statistics.with_columns(pl.col("deviation").round(12)).sort(
            "deviation", "group_id", descending=[True, False]
        )
        n = max(1, floor(self.keep * ranked.height))
        return Kept(
            GroupRelative(self.norm, self.outcome, self.ddof, self.eps),
            frozenset(ranked["group_id"].head(n)),
        )


@dataclass(frozen=True)
class Kept:
    """Group-relative advantages of the groups that were kept."""

    base: GroupRelative
    groups: frozenset[str]
    needs: ClassVar[frozenset[str]] = StarPOS.needs

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        kept = pl.Series(sorted(self.groups), dtype=pl.String).implode()
        out = pl.col("group_id").is_in(kept).not_()
        return left_out(self.base.advantages(tables), out, Reason.FILTERED)
