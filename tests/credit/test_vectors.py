"""Advantages equal hand-calculated values."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.credit import compute
from prover_cli.credit.intervals import (
    credited_by_chance,
    newcombe,
    p_positive,
    standard_error,
)

REWARDS = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]


def group(
    rewards: list[float | None], n_turns: int = 4, group_id: str = "g"
) -> dict[str, pl.DataFrame]:
    ids = [f"{group_id}.{i}" for i in range(len(rewards))]
    trajectories = pl.DataFrame(
        {
            "traj_id": ids,
            "group_id": group_id,
            "n_turns": n_turns,
            "reward": pl.Series(rewards, dtype=pl.Float64),
            "success": pl.Series(
                [None if r is None else r >= 1.0 for r in rewards], dtype=pl.Boolean
            ),
        }
    )
    turns = pl.DataFrame(
        [{"traj_id": i, "turn": t, "group_id": group_id} for i in ids for t in range(n_turns)]
    )
    return {"trajectories": trajectories, "turns": turns}


def estimate(
    k_before: int, k_after: int, k: int = 8, segment: tuple[int, int] = (1, 3)
) -> pl.DataFrame:
    low, high = newcombe(k_before, k, k_after, k)
    return pl.DataFrame(
        {
            "proposal_id": ["p"],
            "group_id": ["g"],
            "traj_id": ["g.0"],
            "start_turn": [segment[0]],
            "end_turn": [segment[1]],
            "success_before": [k_before],
            "success_after": [k_after],
            "n_before": [k],
            "n_after": [k],
            "gain": [(k_after - k_before) / k],
            "ci_low": [low],
            "ci_high": [high],
            "p_positive": [p_positive(k_before, k, k_after, k)],
        }
    )


def by_turn(rows: pl.DataFrame, traj_id: str) -> list[float]:
    return rows.filter(pl.col("traj_id") == traj_id).sort("turn")["advantage"].to_list()


@pytest.mark.parametrize(
    ("estimator", "knobs", "success", "failure"),
    [
        ("grpo", {}, 0.75, -0.25),
        ("grpo-std", {}, 1.620185, -0.540062),
        ("grpo-std", {"ddof": 0, "eps": 0.0}, 1.732051, -0.577350),
        ("rloo", {}, 0.857143, -0.285714),
        ("maxrl", {}, 3.0, -1.0),
    ],
)
def test_group_relative_advantages(
    estimator: str, knobs: dict[str, float], success: float, failure: float
) -> None:
    rows = compute(estimator, **group(REWARDS), **knobs)
    assert by_turn(rows, "g.0") == pytest.approx([success] * 4, abs=5e-6)
    assert by_turn(rows, "g.1") == pytest.approx([failure] * 4, abs=5e-6)


def test_a_positive_gain_is_added_to_the_turns_of_the_segment_only() -> None:
    rows = compute("prover", **group(REWARDS), estimates=estimate(3, 6))
    assert by_turn(rows, "g.0") == [0.75, 1.125, 1.125, 0.75]
    assert by_turn(rows, "g.3") == [0.75] * 4
    assert by_turn(rows, "g.1") == [-0.25] * 4


def test_the_base_may_be_standardised() -> None:
    rows = compute("prover", **group(REWARDS), estimates=estimate(3, 6), norm="std")
    assert by_turn(rows, "g.0")[1] == pytest.approx(1.995185, abs=5e-6)


def test_a_negative_gain_leaves_the_base_and_is_added_only_in_signed_mode() -> None:
    rows = compute("prover", **group(REWARDS), estimates=estimate(5, 4))
    assert by_turn(rows, "g.0") == [0.75] * 4
    segment = rows.filter((pl.col("traj_id") == "g.0") & (pl.col("turn") == 1))
    assert segment["local"].to_list() == [None]
    assert segment["reason"].to_list() == ["segment_not_credited"]
    signed = compute("prover", **group(REWARDS), estimates=estimate(5, 4), sign="both")
    assert by_turn(signed, "g.0") == [0.75, 0.625, 0.625, 0.75]


@pytest.mark.parametrize(
    ("gate", "before", "after", "bonus"),
    [
        ("margin", 3, 4, None),
        ("margin", 3, 5, 0.25),
        ("ci", 2, 5, None),
        ("ci", 2, 7, 0.625),
        ("posterior", 3, 4, None),
        ("posterior", 2, 6, 0.5),
        ("shrink", 2, 6, 0.4),
    ],
)
def test_gates(gate: str, before: int, after: int, bonus: float | None) -> None:
    rows = compute("prover", **group(REWARDS), estimates=estimate(before, after), gate=gate)
    local = rows.filter((pl.col("traj_id") == "g.0") & (pl.col("turn") == 2))["local"].item()
    assert local == (None if bonus is None else pytest.approx(bonus))


def test_values_at_every_turn_give_their_differences() -> None:
    tables = group([1.0, 0.0])
    values = pl.DataFrame(
        {
            "traj_id": ["g.0"] * 4 + ["g.1"] * 4,
            "turn": [0, 1, 2, 3] * 2,
            "mean": [0.25, 0.25, 0.5, 0.875, 0.25, 0.5, 0.0, 0.125],
        }
    )
    rows = compute("vineppo", **tables, values=values)
    assert by_turn(rows, "g.0") == pytest.approx([0, 0.25, 0.375, 0.125])
    assert sum(by_turn(rows, "g.0")) == pytest.approx(0.75)
    assert sum(by_turn(rows, "g.1")) == pytest.approx(-0.25)


@pytest.mark.parametrize(
    ("before", "after", "interval"),
    [
        (2, 6, (0.018, 0.752)),
        (2, 7, (0.139, 0.831)),
        (3, 4, (-0.303, 0.496)),
        (0, 8, (0.541, 1.0)),
    ],
)
def test_newcombe_intervals(before: int, after: int, interval: tuple[float, float]) -> None:
    assert newcombe(before, 8, after, 8) == pytest.approx(interval, abs=5e-4)


@pytest.mark.parametrize(("before", "after", "p"), [(2, 6, 0.971), (2, 7, 0.992), (3, 4, 0.682)])
def test_posterior_of_a_positive_gain(before: int, after: int, p: float) -> None:
    assert p_positive(before, 8, after, 8) == pytest.approx(p, abs=1e-3)


@given(st.integers(0, 8), st.integers(0, 6))
def test_posterior_equals_numerical_integration(before: int, after: int) -> None:
    grid = (np.arange(20_000) + 0.5) / 20_000
    p0 = grid**before * (1 - grid) ** (8 - before)
    p1 = grid**after * (1 - grid) ** (6 - after)
    below = np.cumsum(p0) / p0.sum()
    expected = float((below * p1).sum() / p1.sum())
    assert p_positive(before, 8, after, 6) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("k", "p", "chance"),
    [(4, 0.5, 0.363), (8, 0.5, 0.402), (16, 0.5, 0.430), (8, 0.3, 0.392), (8, 0.1, 0.323)],
)
def test_chance_of_crediting_a_segment_without_effect(k: int, p: float, chance: float) -> None:
    assert credited_by_chance(p, k, k) == pytest.approx(chance, abs=1e-3)


def test_standard_error_is_at_most_a_quarter_with_eight_continuations() -> None:
    errors = [standard_error(a, 8, b, 8) for a in range(9) for b in range(9)]
    assert max(errors) == pytest.approx(0.25)
