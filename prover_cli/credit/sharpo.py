"""SHARPO (arXiv 2610.00838), approximate: turns that a successful sibling makes likelier.

    A[t] = A * ((1 - lambda) + lambda * w[t]),   w[t] = 2 sigmoid(sign(A) * gap[t])

gap[t] is the mean over the turn's tokens of their log-prob when a successful sibling is shown minus
that without. The form of w is a third party's reproduction; the official one is not public. A
segment is a turn here. A turn without hindsight scores keeps A. Needs: trajectories, turns, scores
(token_logprobs, hindsight_logprobs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import scaled
from prover_cli.credit.group_relative import GroupRelative, Norm, Outcome
from prover_cli.credit.hindsight import with_gaps


@dataclass(frozen=True)
class SHARPO:
    """The group advantage, tilted by hindsight."""

    lambda_: float = 0.05
    norm: Norm = "std"
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "scores"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        base = GroupRelative(self.norm, self.outcome, self.ddof, self.eps).advantages(tables)
        rows = with_gaps(base, tables)
        w = 2 / (1 + (-pl.col("base").sign() * pl.col("gap_mean")).exp())
        return scaled(rows, (1 - self.lambda_) + self.lambda_ * w, Reason.NO_SCORE)
