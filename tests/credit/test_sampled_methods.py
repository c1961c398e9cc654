"""Methods that need continuations, a scoring pass or a critic: values worked out by hand."""

from __future__ import annotations

from math import log
from typing import Any

import polars as pl
import pytest

from prover_cli.credit import compute
from prover_cli.errors import UsageError
from tests.credit.test_judged_methods import judged
from tests.credit.test_rollout_methods import check, walks
from tests.credit.test_vectors import REWARDS, by_turn, estimate, group


def values(**by_trajectory: dict[int, float]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"traj_id": name.replace("_", "."), "turn": turn, "mean": value}
            for name, known in by_trajectory.items()
            for turn, value in known.items()
        ]
    )


def scores(traj_id: str, **columns: list[Any]) -> pl.DataFrame:
    n = len(next(iter(columns.values())))
    return pl.DataFrame({"traj_id": [traj_id] * n, "turn": list(range(n)), **columns})


def shown(traj_id: str, *gaps: float | None) -> pl.DataFrame:
    """One token per turn, whose log-prob moves by the gap when a success is shown."""
    return scores(
        traj_id,
        token_logprobs=[[-1.0]] * len(gaps),
        hindsight_logprobs=[None if gap is None else [gap - 1.0] for gap in gaps],
    )


def test_spo_gives_a_segment_the_difference_of_its_ends() -> None:
    known = values(g_0={0: 0.25, 2: 0.5}, g_1={0: 0.25, 2: 0.0})
    rows = compute("spo-chain", **group([1.0, 0.0]), values=known, interval=2)
    check(rows, [0.25, 0.25, 0.5, 0.5], [-0.25, -0.25, 0.0, 0.0])


def test_spo_needs_a_value_at_every_cut() -> None:
    known = values(g_0={0: 0.25}, g_1={0: 0.25, 2: 0.0})
    rows = compute("spo-chain", **group([1.0, 0.0]), values=known, interval=2)
    assert by_turn(rows, "g.0") == [None] * 4
    assert rows["reason"].to_list()[:4] == ["turn_without_value"] * 4


def test_spo_may_leave_likely_tokens_out() -> None:
    frames = group([1.0, 0.0], 1)
    tokens = [[log(0.95), log(0.5)], [log(0.85)]]
    frames["turns"] = frames["turns"].with_columns(pl.Series("logprobs", tokens))
    known = values(g_0={0: 0.25}, g_1={0: 0.25})
    rows = compute("spo-chain", **frames, values=known, prob_mask=0.9)
    assert rows["token_advantages"].to_list() == [[0.0, 0.75], [-0.25]]


def test_carl_learns_at_the_most_open_turns_only() -> None:
    known = values(g_0={0: 0.25, 1: 0.25, 2: 0.5, 3: 0.875}, g_1={0: 0.25, 1: 0.5, 2: 0.0, 3: 0.5})
    entropy = pl.concat(
        [scores("g.0", entropy=[0.1, 0.9, 0.2, 0.3]), scores("g.1", entropy=[0.5, 0.5, 0.4, 0.1])]
    )
    rows = compute("carl", **group([1.0, 0.0]), values=known, scores=entropy)
    # g.1 has two turns of .5: the earlier one.
    check(rows, [None, 0.25, None, None], [0.25, None, None, None])
    assert rows["reason"].to_list()[:2] == ["not_critical", "value_difference"]
    two = compute("carl", **group([1.0, 0.0]), values=known, scores=entropy, n=2)
    check(two, [None, 0.25, None, 0.125], [0.25, -0.5, None, None])


def test_carl_takes_the_turns_that_verification_chose() -> None:
    known = values(g_0={1: 0.25, 2: 0.5})
    chosen = estimate(2, 4, segment=(1, 2))
    rows = compute("carl", **group([1.0, 0.0]), values=known, estimates=chosen)
    check(rows, [None, 0.25, None, None], [None] * 4)
    with pytest.raises(UsageError, match="scores or estimates"):
        compute("carl", **group([1.0, 0.0]), values=known)


def test_pivoarl_credits_a_failure_up_to_its_error() -> None:
    pivots = {f"g.{i}": None for i in (2, 4, 5, 6)} | {"g.1": 2}
    rows = compute(
        "pivoarl",
        **group(REWARDS),
        proposals=judged(first_error=pivots),
        values=values(g_1={2: 0.5}),
    )
    assert by_turn(rows, "g.1") == [0.25, 0.25, -0.25, -0.25]
    assert by_turn(rows, "g.2") == [-0.25] * 4
    assert by_turn(rows, "g.0") == [0.75] * 4
    assert by_turn(rows, "g.7") == [None] * 4


def tree() -> dict[str, pl.DataFrame]:
    """g.1 branched from g.0 before turn 1; g.2 has a tree of its own."""
    frames = group([1.0, 0.0, 0.0], 2)
    frames["trajectories"] = frames["trajectories"].with_columns(
        pl.Series("parent_traj_id", [None, "g.0", None]), pl.Series("parent_turn", [None, 1, None])
    )
    return frames


def test_tree_grpo_compares_within_the_tree_and_within_the_group() -> None:
    # Group: mean 1/3, deviation .577350: 1.154700, -.577350. Tree: .707106, -.707106; g.2 alone.
    check(compute("tree-grpo@paper", **tree()), [1.861804] * 2, [-1.284455] * 2, [-0.577349] * 2)
    # z in the tree of 1.154700, -.577350 (mean .288675, deviation 1.224745).
    check(compute("tree-grpo@code", **tree()), [0.707106] * 2, [-0.707106] * 2, [0.0] * 2)


def test_treerl_adds_global_and_local_advantage() -> None:
    # Leaves 1, -.5, -.5. The states of g.0 and g.1 up to turn 1 are shared: .25.
    # Turn 0: (0 + .25) / sqrt(2). Turn 1: (1 - .25) + 1 and (-.5 - .25) - .5.
    rows = compute("treerl", **tree())
    check(rows, [0.176777, 1.75], [0.176777, -1.25], [-0.5, -0.5])


def test_spo_tree_leaves_turns_without_a_difference_out() -> None:
    rows = compute("spo-tree", **tree())
    check(rows, [None, 0.5], [None, -0.5], [None, None])
    assert rows["reason"].to_list()[:2] == ["filtered", "value_difference"]


@pytest.mark.parametrize("name", ["tree-grpo@paper", "tree-grpo@code", "treerl", "spo-tree"])
def test_tree_methods_say_what_they_lack(name: str) -> None:
    with pytest.raises(UsageError, match="no column parent_traj_id, parent_turn"):
        compute(name, **group([1.0, 0.0]))
    looped = tree()
    looped["trajectories"] = looped["trajectories"].with_columns(
        pl.Series("parent_traj_id", ["g.1", "g.0", None]), pl.Series("parent_turn", [1, 1, None])
    )
    with pytest.raises(UsageError, match="each other's parents"):
        compute(name, **looped)


def test_sharpo_tilts_by_what_a_sibling_makes_likelier() -> None:
    # 2 sigmoid(1) = 1.462117, 2 sigmoid(-1) = .537883.
    table = pl.concat([shown("g.0", 1.0, 0.0), shown("g.1", 1.0, None)])
    rows = compute("sharpo", **group(REWARDS, 2), scores=table, norm="mean")
    # .75 * (.95 + .05 * 1.462117), -.25 * (.95 + .05 * .537883)
    check(rows, [0.767329, 0.75], [-0.244224, -0.25])
    assert rows["reason"].to_list()[:4] == ["local", "local", "local", "turn_without_score"]


def test_agentopsd_moves_a_belief_from_turn_to_turn() -> None:
    # The success rate of the group is .25; beliefs .25, .47537, .34330.
    table = shown("g.0", 0.0, 1.0, -0.5)
    rows = compute("agentopsd@paper", **group(REWARDS, 3), scores=table, norm="mean")
    assert by_turn(rows, "g.0") == pytest.approx([0.73419, 0.825, 0.675], abs=1e-5)
    # From .5: beliefs .5, .731059, .610639; steps 0, .231059, -.120420 with mean .036880 and
    # deviation .145841: z -.252878, 1.331, -1.079; w .949424, 1.2, .8.
    code = compute("agentopsd@code", **group(REWARDS, 3), scores=table, norm="mean")
    assert by_turn(code, "g.0") == pytest.approx([0.731034, 0.825, 0.675], abs=1e-5)


def test_hcapo_smooths_a_clipped_ratio() -> None:
    # Ratios 1.1 and 1.5, clipped to 1.2; smoothed 1.1, .5 * 1.1 + .5 * 1.2 = 1.15.
    table = shown("g.0", log(1.1), log(1.5))
    rows = compute("hcapo", **group(REWARDS, 2), scores=table, norm="mean")
    assert by_turn(rows, "g.0") == pytest.approx([0.825, 0.8625])


def test_gaca_gives_surprising_turns_more_step_credit() -> None:
    # Surprise 1 and 3: z -1, 1; weights .5 and 1.5. Step terms .25 at a, else 0.
    table = scores("g.0", token_logprobs=[[-0.5, -1.5], [-3.0]])
    frames = walks(("ab", 1.0), ("ac", 0.0))
    rows = compute("gaca", **frames, scores=table, gamma=0.5, norm="mean")
    check(rows, [0.625, 0.5], [-0.5, -0.5])


def test_scores_must_fit_the_tokens() -> None:
    table = scores("g.0", token_logprobs=[[-1.0]], hindsight_logprobs=[[-1.0, -2.0]])
    with pytest.raises(UsageError, match=r"scores of g\.0 turn 0: .* different lengths"):
        compute("sharpo", **group([1.0, 0.0], 1), scores=table)


def test_gae_sums_one_step_errors() -> None:
    # delta = .75 - .5 and 1 - .75; A = .25 + .5 * .25 and .25.
    frames = walks(("ab", 1.0), ("ab", 0.0))
    table = pl.concat([scores("g.0", value=[0.5, 0.75]), scores("g.1", value=[0.5, None])])
    rows = compute("gae", **frames, scores=table, lambda_=0.5)
    check(rows, [0.375, 0.25], [None, None])
    assert rows["reason"].to_list()[2:] == ["turn_without_value"] * 2
    check(compute("actor-critic", **frames, scores=table), [0.25, 0.25])
    # delta = .9 * .75 - .5 = .175; A = .175 + .9 * .5 * .25.
    check(compute("steppo", **frames, scores=table, lambda_=0.5, gamma=0.9), [0.2875, 0.25])


def test_a_missing_table_names_the_command_that_writes_it() -> None:
    for name, command in (
        ("gae", "prover score RUN"),
        ("vineppo", "prover verify RUN --proposer all-turns"),
        ("vppo", "prover judge RUN"),
    ):
        with pytest.raises(UsageError, match="needs the tables") as caught:
            compute(name, **group([1.0, 0.0]))
        assert caught.value.hint == command
    with pytest.raises(UsageError, match="table scores has no column value"):
        compute("gae", **walks(("a", 1.0)), scores=scores("g.0", entropy=[0.1]))
