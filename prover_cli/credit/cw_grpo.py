"""CW-GRPO (arXiv 2604.14267; zsxmwjz/CW-GRPO): a success is shared out by contribution.

    p[t] = utility[t] * validity[t],  c = softmax(alpha * p)      over the rounds before the last
    A[t] = A * c[t] * (T - 1)    before the last turn, where A >= 0
    A[t] = A                     at the last turn, and where A < 0

Only trajectories with a positive advantage need labels. One whose labels are missing or have gaps
has no advantage: taking them as zeros, as the code does after three failed tries, would pass off
plain GRPO as a judged result. Needs: trajectories, turns, proposals (labels `contribution`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import left_out, scaled
from prover_cli.credit.group_relative import GroupRelative, Norm, Outcome
from prover_cli.credit.labels import contributions


@dataclass(frozen=True)
class CWGRPO:
    """The mean weight of the rounds before the last is 1."""

    alpha: float = 100.0
    norm: Norm = "std"
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "proposals"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative(self.norm, self.outcome, self.ddof, self.eps).advantages(tables)
        merged = rows.join(
            contributions(tables.proposals), on=["traj_id", "turn"], how="left"
        ).with_columns(
            (pl.col("turn") == pl.col("turn").max().over("traj_id")).alias("last"),
            (self.alpha * pl.col("label")).alias("power"),
        )
        early = pl.col("last").not_()
        power = pl.when(early).then("power")
        share = (power - power.max().over("traj_id")).exp()
        rounds = early.sum().over("traj_id")
        shared = (pl.col("base") > 0) & early
        weight = pl.when(shared).then(share / share.sum().over("traj_id") * rounds)
        gaps = (shared & pl.col("power").is_null()).any().over("traj_id")
        merged = merged.with_columns(gaps.alias("gaps"))
        out = merged.filter("gaps").select("traj_id").unique()["traj_id"].implode()
        done = scaled(merged, weight, Reason.BASE)
        return left_out(done, pl.col("traj_id").is_in(out), Reason.UNLABELLED)
