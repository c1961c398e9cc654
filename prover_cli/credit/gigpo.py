"""GiGPO (arXiv 2505.10978; langfengQ/verl-agent): the episode's term plus one among equal states.

    A[t] = A_E + omega * A_S[t]
    A_E     (R - mean(R)) / (std(R) + eps) over the group        (`norm=mean`: without the std)
    A_S[t]  the same of the returns G[t] = sum over k >= t of gamma^(k-t) r[k], over the turns of
            the group at the same state; 0 where a turn is alone

Needs: trajectories, turns (reward, observation_hash or state_key; observation with `similarity`).
`gigpo@code` takes A_E over turns instead of trajectories and subtracts 0.1 from outcome and return
at invalid actions, as the reference code does. A_S compares returns that are discounted, so it is
not 0 in groups of equal outcomes: the shorter way is the better one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import normalised, with_local
from prover_cli.credit.group_relative import Outcome
from prover_cli.credit.steps import Episode, Key, StepNorm, compared, returns, similar_sets


@dataclass(frozen=True)
class GiGPO:
    """Two group-relative terms: trajectories of a task, turns at a state."""

    omega: float = 1.0
    gamma: float = 0.95
    norm: StepNorm = "std"
    """std for ALFWorld and search, mean for WebShop in the paper."""
    key: Key = "observation_hash"
    similarity: float | None = None
    """Observations that are alike to this ratio are the same state (0.9 to 0.95)."""
    across_steps: bool = False
    penalty: float = 0.0
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        episode = Episode(
            self.norm, self.outcome, self.across_steps, self.penalty, self.ddof, self.eps
        )
        rows = episode.advantages(tables)
        steps = rows.join(self.step_terms(rows, tables), on=["traj_id", "turn"], how="left")
        return with_local(steps, pl.col("step") * self.omega, Reason.LOCAL)

    def step_terms(self, rows: pl.DataFrame, tables: CreditTables) -> pl.DataFrame:
        """`traj_id`, `turn`, `step` (A_S) of the turns with a base."""
        columns = ["reward", self.key if self.similarity is None else "observation"]
        if self.penalty:
            columns.append("action_valid")
        steps = compared(rows, tables.turns, *columns)
        total = returns(steps, self.gamma).alias("total")
        if self.penalty:
            total = total - self.penalty * (~steps["action_valid"]).cast(pl.Float64)
        key = steps[self.key] if self.similarity is None else similar_sets(steps, self.similarity)
        return steps.with_columns(total, key.alias("key")).select(
            "traj_id",
            "turn",
            normalised(pl.col("total"), ["group_id", "key"], self.norm, self.ddof, self.eps).alias(
                "step"
            ),
        )
