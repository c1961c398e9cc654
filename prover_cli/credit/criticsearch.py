"""CriticSearch (arXiv 2511.12159), approximate: good and bad turns mixed with the outcome.

    A[t] = (1 - alpha) * A_O + alpha * A_T[t]
    A_O    the outcome, A_T the label (good 1, bad 0), each (x - mean) / (std + eps) over the group:
           A_O over trajectories, A_T over labelled turns; equal labels are 0

The paper mixes a dense advantage of the turns with the outcome's at alpha 0.25; no code is public.
The map from labels to A_T is ours. A turn without an opinion keeps A_O, a trajectory that was not
labelled has no advantage. A group of equal outcomes still has A_T. Needs: trajectories, turns,
proposals (labels `turns`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import left_out, normalised, text, with_local
from prover_cli.credit.group_relative import GroupRelative, Norm, Outcome
from prover_cli.credit.labels import turn_labels


@dataclass(frozen=True)
class CriticSearch:
    """A share of the outcome's advantage is replaced by the turn's."""

    alpha: float = 0.25
    norm: Norm = "std"
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "proposals"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative(self.norm, self.outcome, self.ddof, self.eps).advantages(tables)
        labels = turn_labels(tables.proposals, "turns", "good bad")
        good = pl.col("label").replace_strict({"good": 1.0, "bad": 0.0}, return_dtype=pl.Float64)
        credited = pl.col("base").is_not_null()
        merged = (
            rows.join(labels, on=["traj_id", "turn"], how="left")
            .with_columns(pl.when(credited).then(good).alias("good"))
            .with_columns(
                normalised(pl.col("good"), ["group_id"], "std", self.ddof, self.eps).alias("own")
            )
        )
        unlabelled = pl.col("traj_id").is_in(labels["traj_id"].unique().implode()).not_()
        local = self.alpha * (pl.col("own") - pl.col("base"))
        done = with_local(merged, local, Reason.LOCAL, text(Reason.NO_LABEL))
        return left_out(done, unlabelled, Reason.UNLABELLED)
