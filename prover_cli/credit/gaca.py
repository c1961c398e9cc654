"""GACA (granularity-adaptive, arXiv 2609.12424), approximate: more step credit at surprising turns.

    A[t] = A_E + w[t] * A_S[t]      A_E, A_S as in GiGPO
    w[t] = omega * clip(1 + eta * z(NLL[t]), low, high)      z within the trajectory, ddof 0

NLL[t] is the mean of -log p over the turn's tokens. The paper's weight rises in the normalised NLL;
its map is not public, and this one with its eta, low and high is ours. A turn without scores keeps
A_E. Needs: trajectories, turns (as GiGPO), scores (token_logprobs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import text, with_local
from prover_cli.credit.gigpo import GiGPO
from prover_cli.credit.group_relative import GroupRelative, Outcome
from prover_cli.credit.hindsight import standard, with_surprise
from prover_cli.credit.steps import Key, StepNorm


@dataclass(frozen=True)
class GACA:
    """GiGPO whose step term weighs more where the policy was less sure."""

    omega: float = 1.0
    eta: float = 0.5
    low: float = 0.0
    high: float = 2.0
    gamma: float = 0.95
    norm: StepNorm = "std"
    key: Key = "observation_hash"
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "scores"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative(self.norm, self.outcome, self.ddof, self.eps).advantages(tables)
        gigpo = GiGPO(gamma=self.gamma, norm=self.norm, key=self.key, ddof=self.ddof, eps=self.eps)
        steps = with_surprise(rows, tables).join(
            gigpo.step_terms(rows, tables), on=["traj_id", "turn"], how="left"
        )
        z = standard(pl.col("surprise"), "traj_id", self.eps)
        weight = self.omega * (1 + self.eta * z).clip(self.low, self.high)
        return with_local(steps, weight * pl.col("step"), Reason.LOCAL, text(Reason.NO_SCORE))
