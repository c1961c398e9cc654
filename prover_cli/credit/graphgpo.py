"""GraphGPO (arXiv 2605.26684; verl-agent recipe/GraphGPO): turns that lead closer to the success.

    A[t] = beta_episode * A_E + beta_graph * A_G[t]
    A_E     the group's outcomes, normalised as in GiGPO
    A_G[t]  r * omega^(d + cost), d the distance to success of the state that the turn leads to,
            normalised (ddof 1) over the turns of the group that start at the same state;
            0 where a turn is alone, and in groups without a success

`graphgpo@paper` has a cost of 1 and A_E over trajectories; `graphgpo@code` has a cost of 0 and A_E
over turns. The distance of a state is that of `graph`. Groups of equal outcomes may have a graph
term. Needs: trajectories (success), turns (observation_hash or state_key).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import normalised, require, with_local
from prover_cli.credit.graph import distances, edges
from prover_cli.credit.group_relative import Outcome
from prover_cli.credit.steps import Episode, Key, StepNorm, compared


@dataclass(frozen=True)
class GraphGPO:
    """The episode's term plus one from the graph of the group's states."""

    omega: float = 0.1
    r: float = 10.0
    cost: float = 1.0
    beta_episode: float = 1.0
    beta_graph: float = 1.0
    norm: StepNorm = "std"
    key: Key = "observation_hash"
    across_steps: bool = False
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        trajectories = require(tables.trajectories, "trajectories", "success")
        episode = Episode(self.norm, self.outcome, self.across_steps, 0.0, self.ddof, self.eps)
        rows = episode.advantages(tables)
        steps = compared(rows, tables.turns, self.key).join(
            trajectories.select("traj_id", "success"), on="traj_id", maintain_order="left"
        )
        steps = distances(edges(steps, self.key))
        reward = self.r * pl.lit(self.omega).pow(pl.col("distance") + self.cost)
        steps = steps.with_columns(reward.alias("edge")).select(
            "traj_id",
            "turn",
            normalised(pl.col("edge"), ["node"], self.norm, self.ddof, self.eps)
            .fill_null(0.0)
            .alias("step"),
        )
        merged = rows.join(steps, on=["traj_id", "turn"], how="left").with_columns(
            pl.col("base") * self.beta_episode
        )
        return with_local(merged, pl.col("step") * self.beta_graph, Reason.LOCAL)
