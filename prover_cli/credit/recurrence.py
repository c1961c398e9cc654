"""Linear recurrences along trajectories: `x[t] = value[t] + factor * x[neighbour]`.

The loop runs over positions in a trajectory, all trajectories at once: linear in the number of
turns, and the same additions in the same order as one would do by hand.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray


def recur(
    rows: pl.DataFrame, column: str, factor: float, direction: Literal["backward", "forward"]
) -> pl.Series:
    """The recurrence over `rows`, which are sorted by traj_id and turn; a null makes null all that
    depends on it. `backward` starts at the last turn (returns), `forward` at the first."""
    values = rows[column].cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()
    position, length = _positions(rows["traj_id"])
    rank = length - 1 - position if direction == "backward" else position
    neighbour = 1 if direction == "backward" else -1
    order = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[order], np.arange(1, int(rank.max(initial=0)) + 2))
    for start, end in pairwise(bounds):
        at = order[start:end]
        values[at] += factor * values[at + neighbour]
    return pl.Series(column, values).fill_nan(None)


def _positions(traj_id: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of every row, its place in its trajectory and the trajectory's length."""
    lengths = traj_id.rle().struct.field("len").to_numpy().astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    length = np.repeat(lengths, lengths)
    return np.arange(len(length)) - np.repeat(starts, lengths), length
