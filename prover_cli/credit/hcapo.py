"""HCAPO (arXiv 2603.08754), approximate: turns that are likelier when the outcome is known.

    ratio[t] = clip(exp(gap[t]), low, high)            gap as in SHARPO: the mean per token
    s[t] = smoothing * s[t-1] + (1 - smoothing) * ratio[t],  s[0] = ratio[0]
    A[t] = A * (1 + omega * (s[t] - 1))

The bounds 0.8 and 1.2, the smoothing of 0.5 and omega 1 are the paper's; that the ratio is that of
the tokens' geometric means, that the smoothing runs over turns, and where the result enters are our
reading. A turn without hindsight scores, and those after it, keep A. Needs: trajectories, turns,
scores (token_logprobs, hindsight_logprobs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import scaled
from prover_cli.credit.group_relative import GroupRelative, Norm, Outcome
from prover_cli.credit.hindsight import with_gaps
from prover_cli.credit.recurrence import recur


@dataclass(frozen=True)
class HCAPO:
    """The group advantage times a smoothed hindsight ratio."""

    omega: float = 1.0
    low: float = 0.8
    high: float = 1.2
    smoothing: float = 0.5
    norm: Norm = "std"
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "scores"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        base = GroupRelative(self.norm, self.outcome, self.ddof, self.eps).advantages(tables)
        first = pl.int_range(pl.len()).over("traj_id") == 0
        share = pl.when(first).then(1.0).otherwise(1 - self.smoothing)
        ratio = pl.col("gap_mean").exp().clip(self.low, self.high)
        rows = with_gaps(base, tables).with_columns((share * ratio).alias("s"))
        rows = rows.with_columns(recur(rows, "s", self.smoothing, "forward"))
        return scaled(rows, 1 + self.omega * (pl.col("s") - 1), Reason.NO_SCORE)
