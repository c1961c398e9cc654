"""CARL (arXiv 2512.04949), adapted: value differences at critical turns, and nothing elsewhere.

    A[t] = V(s[t+1]) - V(s[t])     at critical turns; after the last turn V is the outcome
    null                           at the others, which the update leaves out

Critical are the `n` turns of a trajectory with the highest entropy, by the column `entropy` of
scores (the earlier of equal ones). Without scores they are the turns that `prover verify --proposer
entropy:N` chose and valued, which the estimates hold. How many turns the paper keeps we do not
have. Needs: trajectories (n_turns), turns, values; scores or estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables
from prover_cli.credit.frames import require
from prover_cli.credit.group_relative import Outcome
from prover_cli.credit.prover import segments
from prover_cli.credit.vineppo import differences, valued
from prover_cli.errors import UsageError


@dataclass(frozen=True)
class CARL:
    """VinePPO at the turns where the choice is most open."""

    n: int = 1
    outcome: Outcome = "success"
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "values"})

    def __post_init__(self) -> None:
        if self.n < 1:
            raise UsageError(f"n={self.n} is not a number of turns")

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        last = pl.col("turn") == pl.col("n_turns") - 1
        after = pl.when(last).then("outcome").otherwise(pl.col("mean").shift(-1).over("traj_id"))
        rows = (
            valued(tables, self.outcome)
            .with_columns((after - pl.col("mean")).alias("difference"))
            .join(self._critical(tables), on=["traj_id", "turn"], how="left")
        )
        return differences(rows, dropped=pl.col("critical").is_null())

    def _critical(self, tables: CreditTables) -> pl.DataFrame:
        """`traj_id`, `turn` of critical turns, with `critical` true."""
        if tables.scores is not None:
            scores = require(tables.scores, "scores", "traj_id", "turn", "entropy")
            chosen = (
                scores.filter(pl.col("entropy").is_not_null())
                .sort("entropy", "turn", descending=[True, False])
                .group_by("traj_id", maintain_order=True)
                .head(self.n)
            )
        elif tables.estimates is not None:
            single = pl.col("end_turn") == pl.col("start_turn") + 1
            chosen = (
                segments(tables.estimates, "estimates")
                .filter(single)
                .select("traj_id", pl.col("start_turn").alias("turn"))
                .unique()
            )
        else:
            raise UsageError(
                "carl needs scores or estimates to know the critical turns",
                hint="prover verify RUN --proposer entropy:N",
            )
        return chosen.select("traj_id", "turn", pl.lit(True).alias("critical"))
