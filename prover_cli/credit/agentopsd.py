"""AgentOPSD (arXiv 2608.05987; ZethWang/AgentOPSD): a belief that hindsight moves, turn by turn.

    e[k] = sum over the turn's tokens of (log-prob shown a success - log-prob)
    c[k] = gamma c[k-1] + e[k],  B[k] = sigmoid(logit B0 + c[k]),  B before the first turn is B0
    q[k] = sign(A) (B[k] - B[k-1]),  w[k] = clip(1 + b z(q[k]), 1 - b, 1 + b)
    A[k] = A * ((1 - lambda) + lambda w[k])      z within the trajectory, ddof 0

B0 is the group's success rate, kept off 0 and 1 by 1e-4 (`agentopsd@paper`), or 0.5 as in the
released script (`agentopsd@code`). A trajectory with a turn that has no hindsight scores keeps A
from there on, and z is over the turns before. Needs: trajectories (success), turns, scores
(token_logprobs, hindsight_logprobs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import require, scaled
from prover_cli.credit.group_relative import GroupRelative, Norm, Outcome
from prover_cli.credit.hindsight import standard, with_gaps
from prover_cli.credit.recurrence import recur

_CLAMP = 1e-4


@dataclass(frozen=True)
class AgentOPSD:
    """The group advantage, tilted by how much a turn moved the belief in a success."""

    prior: Literal["group", "half"] = "group"
    gamma: float = 0.95
    b: float = 0.2
    lambda_: float = 0.5
    norm: Norm = "std"
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "scores"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        base = GroupRelative(self.norm, self.outcome, self.ddof, self.eps).advantages(tables)
        rows = with_gaps(base, tables).join(
            self._priors(tables.trajectories), on="traj_id", how="left", maintain_order="left"
        )
        evidence = recur(rows, "gap_sum", self.gamma, "forward").alias("c")
        logit = (pl.col("prior") / (1 - pl.col("prior"))).log()
        belief = 1 / (1 + (-(logit + pl.col("c"))).exp())
        rows = rows.with_columns(evidence).with_columns(belief.alias("belief"))
        before = pl.col("belief").shift(1).over("traj_id").fill_null(pl.col("prior"))
        rows = rows.with_columns((pl.col("base").sign() * (pl.col("belief") - before)).alias("q"))
        z = standard(pl.col("q"), "traj_id", self.eps)
        w = (1 + self.b * z).clip(1 - self.b, 1 + self.b)
        return scaled(rows, (1 - self.lambda_) + self.lambda_ * w, Reason.NO_SCORE)

    def _priors(self, trajectories: pl.DataFrame) -> pl.DataFrame:
        if self.prior == "half":
            return trajectories.select("traj_id", pl.lit(0.5).alias("prior"))
        require(trajectories, "trajectories", "success")
        rate = pl.col("success").cast(pl.Float64).mean().over("group_id")
        return trajectories.select("traj_id", rate.clip(_CLAMP, 1 - _CLAMP).alias("prior"))
