"""Groups whose trajectories branch from one another.

A trajectory with `parent_traj_id` and `parent_turn` was continued from the state before that turn
of its parent: the turns before are the parent's, and its own rows repeat them. The outcomes of a
tree's trajectories are its leaves; the value of a state is the mean of those that pass through it.
Trajectories whose parent is null are roots, each with a tree of its own. Methods that sample such
trees can be computed from them, but would have sampled another batch: they are `adapted`.
"""

from __future__ import annotations

import polars as pl

from prover_cli.credit.base import CreditTables
from prover_cli.errors import UsageError

PARENT = ("parent_traj_id", "parent_turn")


def branched(tables: CreditTables, method: str) -> pl.DataFrame:
    """The trajectories, with the columns of their parents; `UsageError` where they are missing."""
    missing = [name for name in PARENT if name not in tables.trajectories.columns]
    if missing:
        raise UsageError(
            f"{method} needs trajectories that branch: table trajectories has no column "
            f"{', '.join(missing)} with a parent in it",
            hint="sample trees, or use spo-chain or vineppo on continuations",
        )
    return tables.trajectories


def roots(trajectories: pl.DataFrame) -> pl.DataFrame:
    """`traj_id` and `tree`, the trajectory that its tree grew from."""
    start = trajectories.select("traj_id", pl.col("traj_id").alias("tree"))
    always = pl.lit(True)
    return _climb(start, "tree", trajectories, always)


def states(trajectories: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """Add to `traj_id`, `turn`: `owner`, the trajectory on which the state before the turn first
    came up. Two rows with the same owner and turn are the same state."""
    start = turns.select("traj_id", "turn", pl.col("traj_id").alias("owner"))
    return _climb(start, "owner", trajectories, pl.col("turn") <= pl.col("parent_turn"))


def _climb(
    rows: pl.DataFrame, name: str, trajectories: pl.DataFrame, shared: pl.Expr
) -> pl.DataFrame:
    """Replace the trajectory in column `name` by its parent as long as the turn is `shared`."""
    parents = trajectories.filter(pl.col("parent_traj_id").is_not_null()).select(
        pl.col("traj_id").alias(name), "parent_traj_id", "parent_turn"
    )
    unknown = parents.join(
        trajectories.select("traj_id"), left_on="parent_traj_id", right_on="traj_id", how="anti"
    )
    if unknown.height:
        raise UsageError(f"the parent of {unknown[name][0]} is not among the trajectories")
    for _ in range(trajectories.height + 1):
        joined = rows.join(parents, on=name, how="left")
        up = (pl.col("parent_traj_id").is_not_null() & shared).fill_null(False)
        moved = joined.select(up.any()).item()
        if not moved:
            return rows
        rows = joined.with_columns(
            pl.when(up).then("parent_traj_id").otherwise(name).alias(name)
        ).drop(PARENT)
    raise UsageError("trajectories are each other's parents", hint="check parent_traj_id")


def valued_states(
    trajectories: pl.DataFrame, turns: pl.DataFrame, leaf: pl.DataFrame
) -> pl.DataFrame:
    """Per turn of a trajectory with a `leaf` value: `before` and `after`, the values of the states
    it leads from and to, and `n_after`, the leaves behind the latter. After its last turn a
    trajectory is its own leaf. `leaf` has traj_id and leaf (null when void)."""
    rows = states(trajectories, turns).join(leaf, on="traj_id").filter(pl.col("leaf").is_not_null())
    key = ["owner", "turn"]
    rows = rows.with_columns(
        pl.col("leaf").mean().over(key).alias("before"), pl.len().over(key).alias("n_before")
    ).sort("traj_id", "turn")
    return rows.select(
        "traj_id",
        "turn",
        "before",
        pl.col("before").shift(-1).over("traj_id").fill_null(pl.col("leaf")).alias("after"),
        pl.col("n_before").shift(-1).over("traj_id").fill_null(1).alias("n_after"),
    )
