"""Rows are put in order by trajectory and turn, however they came."""

from __future__ import annotations

import random

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.credit.order import in_order, n_duplicates, runs

lengths = st.lists(st.integers(1, 4), max_size=8)


def frame(sizes: list[int], seed: int, *, in_pieces: bool) -> pl.DataFrame:
    """Trajectories in any order, each in one piece or with all rows shuffled."""
    rng = random.Random(seed)
    whole = [[(f"t{i}", turn) for turn in range(n)] for i, n in enumerate(sizes)]
    rng.shuffle(whole)
    rows = [row for one in whole for row in one]
    if in_pieces:
        rng.shuffle(rows)
    return pl.DataFrame(rows, {"traj_id": pl.String, "turn": pl.Int32}, orient="row").with_columns(
        pl.int_range(pl.len()).alias("place")
    )


@given(lengths, st.integers(0, 99), st.booleans())
def test_any_frame_is_put_in_order(sizes: list[int], seed: int, in_pieces: bool) -> None:
    made = frame(sizes, seed, in_pieces=in_pieces)
    assert in_order(made).equals(made.sort("traj_id", "turn"))
    assert in_pieces or runs(made) is not None


@given(lengths, st.integers(0, 99), st.booleans(), st.integers(0, 3))
def test_repeated_keys_are_counted(sizes: list[int], seed: int, pieces: bool, more: int) -> None:
    made = frame(sizes, seed, in_pieces=pieces)
    doubled = pl.concat([made, made.head(more)])
    assert n_duplicates(doubled, ("traj_id", "turn")) == min(more, made.height)
