"""Rows of any key are put in order and counted, however they came."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.order import in_order, n_duplicates, runs

lengths = st.lists(st.integers(1, 4), max_size=8)
KEY = ("estimator", "traj_id", "turn")


def frame(sizes: list[int], seed: int, *, in_pieces: bool) -> pl.DataFrame:
    """Two estimators' trajectories in any order, each in one piece or with all rows shuffled."""
    rng = random.Random(seed)
    whole = [
        [(name, f"t{i}", turn) for turn in range(n)] for name in "ab" for i, n in enumerate(sizes)
    ]
    rng.shuffle(whole)
    rows = [row for one in whole for row in one]
    if in_pieces:
        rng.shuffle(rows)
    schema = {"estimator": pl.String, "traj_id": pl.String, "turn": pl.Int32}
    return pl.DataFrame(rows, schema, orient="row").with_columns(place=pl.int_range(pl.len()))


@given(lengths, st.integers(0, 99), st.booleans())
def test_any_frame_is_put_in_order(sizes: list[int], seed: int, in_pieces: bool) -> None:
    made = frame(sizes, seed, in_pieces=in_pieces)
    assert in_order(made, KEY).equals(made.sort(KEY))
    assert in_pieces or runs(made, KEY) is not None


@given(lengths, st.integers(0, 99), st.booleans(), st.integers(0, 3))
def test_repeated_keys_are_counted(sizes: list[int], seed: int, pieces: bool, more: int) -> None:
    made = frame(sizes, seed, in_pieces=pieces)
    doubled = pl.concat([made, made.head(more)])
    assert n_duplicates(doubled, KEY) == min(more, made.height)


@pytest.mark.parametrize("turns", [[0, 1, 1], [1, 0, 1], [0, 0, 0]])
def test_a_key_that_is_repeated_inside_a_trajectory_is_found(turns: list[int]) -> None:
    made = pl.DataFrame({"estimator": "a", "traj_id": "t", "turn": turns})
    assert n_duplicates(made, KEY) == 3 - len(set(turns))


def test_a_key_of_one_column_is_ordered_too() -> None:
    made = pl.DataFrame({"traj_id": ["b", "a", "b"]})
    assert in_order(made, ("traj_id",))["traj_id"].to_list() == ["a", "b", "b"]
    assert n_duplicates(made, ("traj_id",)) == 1
