"""Rows by their key, cheaply.

A shard holds the rows that share all but the last column of a key one after the other: a
trajectory's turns, a state's continuations. Then order and uniqueness of a million rows are those
of their runs, of which there are far fewer. Rows in any other order are sorted and counted as they
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

TURN = ("traj_id", "turn")


@dataclass(frozen=True)
class Runs:
    """Stretches of rows that share all but the last column of the key, which rises in each."""

    heads: pl.DataFrame
    """The shared columns, once per run; no two runs share them."""
    start: NDArray[np.int64]


def runs(frame: pl.DataFrame, key: Sequence[str]) -> Runs | None:
    """The runs of a frame, or None where its rows do not stand in such runs."""
    *shared, last = key
    if not shared:
        return None
    # Neighbours are compared column by column: that is cheaper than hashing all rows.
    new = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in shared)
    marks = frame.select(
        (new | (pl.int_range(pl.len()) == 0)).alias("new"),
        (pl.col(last) > pl.col(last).shift(1)).fill_null(False).alias("rising"),
    )
    if not (marks["new"] | marks["rising"]).all():
        return None
    heads = frame.select(shared).filter(marks["new"])
    if heads.n_unique() != heads.height:
        return None
    return Runs(heads, marks["new"].arg_true().to_numpy().astype(np.int64))


def in_order(frame: pl.DataFrame, key: Sequence[str] = TURN) -> pl.DataFrame:
    """The frame sorted by its key, that of turns where none is given."""
    found = runs(frame, key)
    if found is None:
        return frame.sort(key)
    order = (
        found.heads.select(pl.arg_sort_by(found.heads.columns))
        .to_series()
        .to_numpy()
        .astype(np.int64)
    )
    if np.array_equal(order, np.arange(len(order))):
        return frame
    length = np.diff(found.start, append=frame.height)[order]
    shift = found.start[order] - (np.cumsum(length) - length)
    return frame[np.repeat(shift, length) + np.arange(frame.height)]


def n_duplicates(frame: pl.DataFrame, key: Sequence[str]) -> int:
    """How many rows repeat the key of another one."""
    if runs(frame, key) is not None:
        return 0
    return frame.height - int(frame.select(key).n_unique())
