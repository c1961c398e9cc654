"""Methods that sample trees, adapted to trajectories that branch (see `trees`).

    tree-grpo@paper   A = z over the tree of R + z over the group of R         (arXiv 2509.21240)
    tree-grpo@code    A = z over the tree of (z over the group of R)           (AMAP-ML/Tree-GRPO)
    treerl            A[t] = ((V' - V) + V') / sqrt(leaves behind the turn)    (arXiv 2506.11902)
                      V, V' the values before and after the turn, of leaves R - mean of the others
    spo-tree          A[t] = V' - V, of leaves R; turns of 0 are left out      (arXiv 2505.23564)

z(x) = (x - mean) / (std + eps), ddof 1, 0 where there is one x. The values of treerl and spo-tree
are means over leaves, so turns that all branches share are in every branch's row. SPO-tree's
optional division by a deviation is not done. Needs: trajectories (parent_traj_id, parent_turn),
turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from prover_cli.credit.base import CreditTables, Reason, broadcast
from prover_cli.credit.frames import EQUAL, normalised, purely_local, text
from prover_cli.credit.group_relative import GroupRelative, Outcome
from prover_cli.credit.trees import branched, roots, valued_states


@dataclass(frozen=True)
class TreeGRPO:
    """One number per trajectory from its group and its tree."""

    form: Literal["paper", "code"] = "paper"
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-6
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        trajectories = branched(tables, "tree-grpo")
        group = GroupRelative("std", self.outcome, self.ddof, self.eps)
        counted = pl.col("base").is_not_null()
        outcome = pl.col(self.outcome).cast(pl.Float64)
        rows = (
            trajectories.select("traj_id", outcome.alias("R"))
            .join(group.per_trajectory(trajectories), on="traj_id")
            .join(roots(trajectories), on="traj_id")
        )
        x = pl.col("R") if self.form == "paper" else pl.col("base")
        within = normalised(pl.when(counted).then(x), ["tree"], "std", self.ddof, self.eps)
        total = pl.col("base") + within if self.form == "paper" else within
        return broadcast(rows.with_columns(total.alias("base")), tables.turns)


@dataclass(frozen=True)
class TreeRL:
    """Global plus local advantage of the state that a turn leads to."""

    outcome: Outcome = "reward"
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        trajectories = branched(tables, "treerl")
        leaf = GroupRelative("rloo", self.outcome).per_trajectory(trajectories)
        values = valued_states(
            trajectories, tables.turns, leaf.select("traj_id", pl.col("base").alias("leaf"))
        )
        rows = broadcast(leaf, tables.turns).join(values, on=["traj_id", "turn"], how="left")
        after, before = pl.col("after"), pl.col("before")
        amount = (2 * after - before) / pl.col("n_after").cast(pl.Float64).sqrt()
        changed = pl.col("reason") == str(Reason.BASE)
        reason = pl.when(changed).then(text(Reason.VALUE_DIFFERENCE)).otherwise("reason")
        return purely_local(rows, amount, reason)


@dataclass(frozen=True)
class SPOTree:
    """The difference of the values of two states of the tree."""

    outcome: Outcome = "reward"
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        trajectories = branched(tables, "spo-tree")
        group = GroupRelative("mean", self.outcome).per_trajectory(trajectories)
        outcome = pl.col(self.outcome).cast(pl.Float64)
        values = valued_states(
            trajectories, tables.turns, trajectories.select("traj_id", outcome.alias("leaf"))
        )
        rows = broadcast(group, tables.turns).join(values, on=["traj_id", "turn"], how="left")
        difference = pl.col("after") - pl.col("before")
        alone = pl.col("reason") == str(Reason.SINGLETON)
        flat = pl.col("reason") == str(Reason.ZERO_VARIANCE)
        zero = difference.abs() < EQUAL
        return purely_local(
            rows,
            pl.when(flat).then(0.0).when(~alone & ~zero).then(difference),
            pl.when(alone | flat | difference.is_null())
            .then("reason")
            .when(zero)
            .then(text(Reason.FILTERED))
            .otherwise(text(Reason.VALUE_DIFFERENCE)),
        )
