"""Methods that need rollouts only: values worked out by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from prover_cli.credit import compute
from prover_cli.errors import UsageError
from tests.credit.test_vectors import REWARDS, by_turn, group

Frames = dict[str, pl.DataFrame]


def walks(
    *trajectories: tuple[str, float], rewards: dict[tuple[int, int], float] | None = None
) -> Frames:
    """One group; each trajectory is a string of states and the reward of its last turn."""
    rows, turns = [], []
    for i, (states, outcome) in enumerate(trajectories):
        n = len(states)
        paid = [(rewards or {}).get((i, t), outcome if t == n - 1 else 0.0) for t in range(n)]
        rows.append(
            {
                "traj_id": f"g.{i}",
                "group_id": "g",
                "n_turns": n,
                "reward": sum(paid),
                "success": outcome >= 1,
            }
        )
        turns += [
            {
                "traj_id": f"g.{i}",
                "turn": t,
                "group_id": "g",
                "observation": f"you see a red key {state}",
                "observation_hash": state,
                "state_key": f"{state}{i}",
                "action_valid": True,
                "reward": paid[t],
            }
            for t, state in enumerate(states)
        ]
    return {"trajectories": pl.DataFrame(rows), "turns": pl.DataFrame(turns)}


def check(rows: pl.DataFrame, *expected: list[float | None], abs_: float = 1e-6) -> None:
    for i, values in enumerate(expected):
        found = by_turn(rows, f"g.{i}")
        assert len(found) == len(values)
        for one, value in zip(found, values, strict=True):
            assert one == (None if value is None else pytest.approx(value, abs=abs_)), (i, found)


def tokens(frames: Frames, **n_tokens: int) -> Frames:
    counts = {key.replace("_", "."): n for key, n in n_tokens.items()}
    column = pl.col("traj_id").replace_strict(counts, return_dtype=pl.Int32)
    return frames | {
        "trajectories": frames["trajectories"].with_columns(column.alias("n_action_tokens"))
    }


def test_reinforce_whitens_over_tokens() -> None:
    # Tokens 1 1 1 0: mean .75, squares 3 * .0625 + .5625 = .75, variance .75 / 3, deviation .5.
    frames = tokens(group([1.0, 0.0], 1), g_0=3, g_1=1)
    check(compute("reinforce++", **frames), [0.5], [-1.5])
    # Each once: mean .5, deviation .7071.
    check(compute("reinforce++", **frames, weight="trajectory"), [0.707107], [-0.707107])


def test_reinforce_with_a_baseline_compares_groups_of_equal_outcomes_with_the_others() -> None:
    # x: .5 three times, -.5 once, 0 four times. Mean 1 / 8; squares .421875 + .390625 + .0625 =
    # .875, variance .875 / 7 = .125, deviation .353553.
    parts = [group([1.0, 0.0], 1), group([1.0, 1.0], 1, "h")]
    frames = {name: pl.concat([part[name] for part in parts]) for name in parts[0]}
    rows = compute("reinforce++-baseline", **tokens(frames, g_0=3, g_1=1, h_0=2, h_1=2))
    check(rows, [1.06066], [-1.767767])
    assert by_turn(rows, "h.0") == pytest.approx([-0.353553], abs=1e-6)


def test_gpg_scales_by_how_rare_signal_is() -> None:
    # alpha = 8 / 2.
    rows = compute("gpg", **group(REWARDS, 1))
    assert rows["advantage"].to_list() == [3.0, -1.0, -1.0, 3.0, -1.0, -1.0, -1.0, -1.0]
    assert compute("gpg", **group(REWARDS, 1), alpha=1.0, f_norm=0.5)["advantage"][0] == 1.5


def test_dynamic_sampling_leaves_groups_of_equal_outcomes_out() -> None:
    rows = compute("dapo", **group([1.0, 1.0], 2))
    assert rows["advantage"].to_list() == [None] * 4
    assert set(rows["reason"]) == {"filtered"}
    # (1 - .5) / .707107
    check(compute("dapo", **group([1.0, 0.0], 1)), [0.707106], [-0.707106])


def test_starpo_s_keeps_the_groups_that_deviate_most() -> None:
    parts = [
        group(rewards, 1, name)
        for name, rewards in zip(
            "ghij", ([1.0, 0.0], [1.0, 0.5], [1.0, 0.8], [1.0, 1.0]), strict=True
        )
    ]
    frames = {name: pl.concat([part[name] for part in parts]) for name in parts[0]}
    rows = compute("ragen", **frames)
    kept = rows.filter(pl.col("advantage").is_not_null())
    assert kept["group_id"].unique().to_list() == ["g"]
    assert set(rows.filter(pl.col("group_id") != "g")["reason"]) == {"filtered"}
    half = compute("ragen", **frames, keep=0.5).filter(pl.col("advantage").is_not_null())
    assert sorted(half["group_id"].unique()) == ["g", "h"]
    with pytest.raises(UsageError, match="not a share"):
        compute("ragen", **frames, keep=0)


def test_gigpo_adds_what_turns_at_the_same_state_tell() -> None:
    # Returns .5, 1 and 0, 0. At a: .5 against 0, so .25 and -.25; b and c are alone.
    frames = walks(("ab", 1.0), ("ac", 0.0))
    check(compute("gigpo", **frames, gamma=0.5, norm="mean"), [0.75, 0.5], [-0.75, -0.5])
    # With deviations: .5 / .707107 and .25 / .353553, which is .707107 twice.
    check(
        compute("gigpo", **frames, gamma=0.5), [1.41421, 0.707106], [-1.41421, -0.707106], abs_=1e-5
    )
    # The whole state differs everywhere.
    check(compute("gigpo", **frames, norm="mean", key="state_key"), [0.5, 0.5], [-0.5, -0.5])


def test_alike_observations_are_the_same_state_to_gigpo() -> None:
    # "you see a red key b" and "... c" share 18 of 19 characters: ratio .947. All are alike:
    # returns .5, 1, 0, 0 with mean .375.
    frames = walks(("ab", 1.0), ("ac", 0.0))
    rows = compute("gigpo", **frames, gamma=0.5, norm="mean", similarity=0.94)
    check(rows, [0.625, 1.125], [-0.875, -0.875])
    apart = compute("gigpo", **frames, gamma=0.5, norm="mean", similarity=0.95)
    check(apart, [0.75, 0.5], [-0.75, -0.5])


def test_gigpos_code_weighs_long_trajectories_more() -> None:
    # 2 successes of 5 turns, 6 failures of 50: mean 10 / 310.
    won, lost = [("a" * 5, 1.0)] * 2, [("b" * 50, 0.0)] * 6
    rows = compute("gigpo@code", **walks(*won, *lost), omega=0.0, norm="mean")
    assert by_turn(rows, "g.0")[0] == pytest.approx(1 - 0.0322581, abs=1e-6)
    plain = compute("gigpo", **walks(*won, *lost), omega=0.0, norm="mean")
    assert by_turn(plain, "g.0")[0] == 0.75


def test_gigpos_code_takes_invalid_actions_off_twice() -> None:
    # Outcomes 1 and 0 - .1, mean .45. At a, returns 1 and 0 - .1: .55 and -.55 once more.
    frames = walks(("a", 1.0), ("a", 0.0))
    frames["turns"] = frames["turns"].with_columns(
        (pl.col("traj_id") == "g.0").alias("action_valid")
    )
    check(compute("gigpo@code", **frames, norm="mean"), [1.1], [-1.1])


def test_hgpo_weighs_longer_common_histories_more() -> None:
    # Returns (.5, 1), (0, 0), (0, 0). Turn 0: a is .25, -.25; c is alone.
    # Turn 1, last observation b: 2/3, -1/3, -1/3 (weight 2); last two ab: .5, -.5 (weight 3).
    # (2 * 2/3 + 3 * .5) / 5 = .566667, (2 * -1/3 - 3 * .5) / 5 = -.433333, and -1/3 alone.
    frames = walks(("ab", 1.0), ("ab", 0.0), ("cb", 0.0))
    rows = compute("hgpo", **frames, gamma=0.5, norm="mean", history=1)
    check(rows, [0.25, 0.566667], [-0.25, -0.433333], [0.0, -0.333333])
    assert rows["base"].null_count() == 6


def test_hgpo_may_take_the_episode_in() -> None:
    # At turn 0 of g.0: the episode 1 - 1/3 (weight 1) and a's .25 (weight 2): 1.166667 / 3.
    frames = walks(("ab", 1.0), ("ab", 0.0), ("cb", 0.0))
    rows = compute("hgpo", **frames, gamma=0.5, norm="mean", history=1, base_group=True)
    assert by_turn(rows, "g.0")[0] == pytest.approx(0.388889, abs=1e-6)


def test_graphgpo_pays_for_getting_closer() -> None:
    # b is 1 from success, a 2, c has no way: 3. From a to b 10 * .1^2 = .1, to c 10 * .1^4 = .001:
    # mean .0505. The code leaves the cost out of the exponent: 1 and .01, mean .505.
    frames = walks(("ab", 1.0), ("ac", 0.0))
    check(compute("graphgpo@paper", **frames, norm="mean"), [0.5495, 0.5], [-0.5495, -0.5])
    check(compute("graphgpo@code", **frames, norm="mean"), [0.995, 0.5], [-0.995, -0.5])


def test_graphgpo_finds_the_way_that_another_trajectory_took() -> None:
    # g.1 ends in b, from where g.0 got to success: c is 2 away, so a to c is 10 * .1^3 = .01.
    # From b: to success 10 * .1 = 1, to nowhere 10 * .1^4 = .001 (farthest is a: 2, so 3).
    frames = walks(("ab", 1.0), ("acb", 0.0))
    rows = compute("graphgpo@paper", **frames, norm="mean")
    check(rows, [0.545, 0.9995], [-0.545, -0.5, -0.9995])


def test_a_group_without_success_has_no_graph_term() -> None:
    rows = compute("graphgpo@paper", **walks(("ab", 0.5), ("ac", 0.0)), norm="mean")
    check(rows, [0.25, 0.25], [-0.25, -0.25])


def test_g2po_compares_values_of_states() -> None:
    # V(a) = (.25 + 0) / 2, V(b) = .5, V(c) = 0. From a to b .5, to c 0: .25 and -.25.
    # Gains .375, .5, -.125, 0 with mean .1875.
    frames = walks(("ab", 1.0), ("ac", 0.0))
    rows = compute("g2po", **frames, gamma=0.5)
    check(rows, [0.9375, 0.8125], [-1.0625, -0.6875])


def test_mt_grpo_adds_turn_rewards_before_the_last_turn() -> None:
    # Outcomes 1, 0 and turn rewards 1, 0: both .5 / (.707107 + .0001) = .707007.
    frames = walks(("ab", 1.0), ("ac", 0.0), rewards={(0, 0): 1.0})
    check(compute("mt-grpo", **frames), [1.414014, 0.707007], [-1.414014, -0.707007])


def test_dr_grpo_and_search_r1_are_settings_of_grpo() -> None:
    for name, same in (("dr-grpo", "grpo"), ("search-r1", "grpo-std")):
        found, expected = (compute(one, **group(REWARDS)) for one in (name, same))
        assert found.drop("estimator").equals(expected.drop("estimator"))


@pytest.mark.parametrize(
    ("name", "column"),
    [("gigpo", "reward"), ("hgpo", "observation_hash"), ("g2po", "action_valid")],
)
def test_a_missing_column_is_named(name: str, column: str) -> None:
    frames: dict[str, Any] = walks(("ab", 1.0), ("ac", 0.0))
    frames["turns"] = frames["turns"].drop(column)
    with pytest.raises(UsageError, match=f"table turns has no column {column}"):
        compute(name, **frames)
