"""Rows by trajectory and turn, cheaply.

A shard holds a trajectory's turns one after the other. Then order and uniqueness of a million turns
are those of their trajectories, of which there are far fewer; rows in any other order are sorted
and counted as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

KEY = ("traj_id", "turn")


@dataclass(frozen=True)
class Runs:
    """Trajectories as they stand in a frame, each in one piece with rising turns."""

    traj_id: pl.Series
    start: NDArray[np.int64]


def runs(frame: pl.DataFrame) -> Runs | None:
    """The trajectories of a frame, or None where one is in pieces or its turns do not rise."""
    traj_id, turn = pl.col("traj_id"), pl.col("turn")
    marks = frame.select(
        (traj_id != traj_id.shift(1)).fill_null(True).alias("new"),
        (turn > turn.shift(1)).fill_null(True).alias("rising"),
    )
    if not (marks["new"] | marks["rising"]).all():
        return None
    first = frame["traj_id"].filter(marks["new"])
    if first.n_unique() != len(first):
        return None
    return Runs(first, marks["new"].arg_true().to_numpy().astype(np.int64))


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame sorted by traj_id and turn."""
    found = runs(frame)
    if found is None:
        return frame.sort(KEY)
    if found.traj_id.is_sorted():
        return frame
    order = found.traj_id.arg_sort().to_numpy()
    length = np.diff(found.start, append=frame.height)[order]
    shift = found.start[order] - (np.cumsum(length) - length)
    return frame[np.repeat(shift, length) + np.arange(frame.height)]


def n_duplicates(frame: pl.DataFrame, key: tuple[str, ...]) -> int:
    """How many rows repeat the key of another one."""
    if key == KEY and runs(frame) is not None:
        return 0
    return frame.height - int(frame.select(key).n_unique())
