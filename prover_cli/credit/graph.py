"""The graph of a group's states: who leads where, and how far the success is.

A node is a state of a group (see `steps`), an edge is one turn. A turn leads to the state of the
next one. What follows the last turn is not recorded: it is SUCCESS after a success, and a state
from which nothing leads on after a failure. A state's distance is the least number of edges to
SUCCESS; where none leads there it is the greatest finite distance of the group's states plus one,
and in a group without a success it is null.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

SUCCESS, NOWHERE = -1, -2


def edges(steps: pl.DataFrame, key: str) -> pl.DataFrame:
    """Add `node` (a number per group and state) and `next`, the node a turn leads to.

    `steps` has traj_id, turn, group_id, `key` and `success`, sorted by traj_id and turn.
    """
    node = pl.struct("group_id", key).rank("dense").cast(pl.Int64)
    end = pl.when("success").then(SUCCESS).otherwise(NOWHERE)
    return steps.with_columns(node.alias("node")).with_columns(
        pl.col("node").shift(-1).over("traj_id").fill_null(end).cast(pl.Int64).alias("next")
    )


def distances(steps: pl.DataFrame) -> pl.DataFrame:
    """Add `distance`, from the node a turn leads to; `steps` as from `edges`."""
    source, target = steps["node"].to_numpy(), steps["next"].to_numpy()
    reached = _breadth_first(source, target)
    found = np.where(target >= 0, reached[np.maximum(target, 0)], -1)
    ahead = pl.Series("ahead", np.where(target == SUCCESS, 0, found))
    here = pl.Series("here", reached[source])
    farthest = pl.max_horizontal("here", "ahead").max().over("group_id")
    known = pl.when(pl.col("ahead") >= 0).then("ahead").otherwise(pl.col("farthest") + 1)
    return (
        steps.with_columns(ahead, here)
        .with_columns(farthest.alias("farthest"))
        .with_columns(pl.when(pl.col("farthest") >= 0).then(known).alias("distance"))
        .drop("ahead", "here", "farthest")
    )


def _breadth_first(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per node its distance to SUCCESS, -1 where there is no way."""
    distance = np.full(int(source.max(initial=0)) + 1, -1, dtype=np.int64)
    distance[source[target == SUCCESS]] = 1
    open_ = target >= 0
    source, target, level = source[open_], target[open_], 1
    while True:
        waiting = distance[source] < 0
        source, target = source[waiting], target[waiting]
        new = source[distance[target] == level]
        if not len(new):
            return distance
        level += 1
        distance[new] = level
