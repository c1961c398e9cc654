"""What no data may break: order, sharding, voids, singletons, equal outcomes."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from prover_cli.credit import compute, registry
from prover_cli.errors import UsageError
from tests.credit.test_vectors import by_turn, estimate, group

reward_lists = st.lists(
    st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)), min_size=1, max_size=8
)


def test_lambda_zero_equals_the_base_bit_for_bit() -> None:
    tables = group([1.0, 0.0, 0.0, 1 / 3])
    base = compute("grpo", **tables)
    prover = compute("prover", **tables, estimates=estimate(2, 6), lambda_=0.0)
    assert prover["advantage"].to_list() == base["advantage"].to_list()


def test_trajectories_outside_the_proposal_keep_their_base_bit_for_bit() -> None:
    tables = group([1.0, 0.0, 0.0, 1 / 3])
    base = compute("grpo", **tables).filter(pl.col("traj_id") != "g.0")
    prover = compute("prover", **tables, estimates=estimate(2, 6)).filter(
        pl.col("traj_id") != "g.0"
    )
    assert prover["advantage"].to_list() == base["advantage"].to_list()


def test_swapping_before_and_after_negates_the_gain() -> None:
    up = compute("prover", **group([1.0, 0.0]), estimates=estimate(2, 6), sign="both")
    down = compute("prover", **group([1.0, 0.0]), estimates=estimate(6, 2), sign="both")
    gains = [rows.filter(pl.col("local").is_not_null())["local"].to_list() for rows in (up, down)]
    assert gains == [[0.5, 0.5], [-0.5, -0.5]]


@given(st.lists(reward_lists, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_row_and_shard_order_do_not_matter(groups: list[list[float | None]], rng: object) -> None:
    parts = [group(rewards, 2, f"g{i}") for i, rewards in enumerate(groups)]
    for name in ("grpo", "grpo-std", "rloo", "maxrl"):
        together = compute(
            name,
            trajectories=pl.concat([p["trajectories"] for p in parts]).sample(
                fraction=1, shuffle=True, seed=1
            ),
            turns=pl.concat([p["turns"] for p in reversed(parts)]),
        )
        apart = pl.concat([compute(name, **part) for part in reversed(parts)])
        assert_frame_equal(together, apart.sort("traj_id", "turn"), rel_tol=1e-12)


@given(reward_lists)
def test_advantages_are_finite_and_centred(rewards: list[float | None]) -> None:
    rows = compute("grpo", **group(rewards, 1))
    scored = [r for r in rewards if r is not None]
    known = rows["advantage"].drop_nulls()
    assert known.is_finite().all()
    assert len(known) == (len(scored) if len(scored) > 1 else 0)
    assert abs(known.sum()) < 1e-6
    if len(scored) > 1 and len(set(scored)) == 1:
        assert known.to_list() == [0.0] * len(scored)
        assert "zero_variance" in rows["reason"].to_list()


def test_a_group_of_one_has_no_advantage() -> None:
    rows = compute("grpo", **group([1.0], 3))
    assert rows["advantage"].to_list() == [None] * 3
    assert set(rows["reason"]) == {"singleton"}


def test_long_trajectories_do_not_weigh_more_in_the_group_mean() -> None:
    tables = group([1.0, 0.0, 0.0, 0.0], 1)
    long = pl.DataFrame({"traj_id": ["g.0"] * 10, "turn": range(10), "group_id": ["g"] * 10})
    tables["turns"] = pl.concat(
        [
            tables["turns"].filter(pl.col("traj_id") != "g.0"),
            long.cast(tables["turns"].schema),
        ]
    )
    rows = compute("grpo", **tables)
    assert by_turn(rows, "g.0") == [0.75] * 10


def test_a_void_trajectory_is_not_a_zero() -> None:
    rows = compute("grpo", **group([1.0, 3.0, 2.0, None], 1))
    assert rows["advantage"].to_list() == [-1.0, 1.0, 0.0, None]
    assert rows["reason"].to_list()[3] == "void"


def test_almost_equal_outcomes_are_equal() -> None:
    rows = compute("grpo-std", **group([0.1 + 0.2, 0.3, 0.3], 1))
    assert rows["advantage"].to_list() == [0.0] * 3


def test_a_proposal_without_an_estimate_says_so() -> None:
    missing = estimate(2, 6).with_columns(pl.lit(None, pl.Float64).alias("gain"))
    rows = compute("prover", **group([1.0, 0.0]), estimates=missing)
    assert rows["reason"].to_list()[1] == "segment_without_estimate"
    assert by_turn(rows, "g.0") == [0.5] * 4


def test_duplicated_rows_are_refused() -> None:
    tables = group([1.0, 0.0])
    tables["trajectories"] = pl.concat([tables["trajectories"]] * 2)
    with pytest.raises(UsageError, match="2 duplicated keys"):
        compute("grpo", **tables)


def test_a_missing_table_or_unknown_knob_is_named() -> None:
    with pytest.raises(UsageError, match="needs the tables estimates"):
        compute("prover", **group([1.0, 0.0]))
    with pytest.raises(UsageError, match="lambda_, gate, margin"):
        compute("prover", **group([1.0, 0.0]), estimates=estimate(2, 6), lamda=2)
    with pytest.raises(UsageError, match="no estimator called 'gpro'"):
        registry.make("gpro")
