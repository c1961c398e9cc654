"""Methods that need a judge's labels or proposals: values worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from prover_cli.credit import compute
from prover_cli.errors import UsageError
from tests.credit.test_rollout_methods import check
from tests.credit.test_vectors import REWARDS, by_turn, estimate, group


def judged(segment: tuple[str, int, int] | None = None, **labels: Any) -> pl.DataFrame:
    traj_id, start, end = segment or (None, None, None)
    return pl.DataFrame(
        {
            "proposal_id": ["p"],
            "group_id": ["g"],
            "traj_id": pl.Series([traj_id], dtype=pl.String),
            "start_turn": pl.Series([start], dtype=pl.Int32),
            "end_turn": pl.Series([end], dtype=pl.Int32),
            "labels_json": [json.dumps(labels)],
        }
    )


def test_criticsearch_mixes_good_and_bad_turns_with_the_outcome() -> None:
    # Outcome .707106 and -.707106. Labels 1, 0, 0: mean 1/3, deviation .577350: 1.154700, -.577350.
    labels = judged(turns={"g.0": ["good", "bad"], "g.1": ["bad", None]})
    rows = compute("criticsearch", **group([1.0, 0.0], 2), proposals=labels)
    # .75 * .707106 + .25 * 1.1547 and so on; the turn without an opinion keeps its outcome's.
    check(rows, [0.819003, 0.385992], [-0.674667, -0.707106], abs_=5e-6)
    assert rows["reason"].to_list() == ["local", "local", "local", "turn_without_label"]


def test_a_trajectory_that_was_not_labelled_has_no_advantage() -> None:
    labels = judged(turns={"g.0": ["good", "bad"]})
    rows = compute("criticsearch", **group([1.0, 0.0], 2), proposals=labels)
    assert by_turn(rows, "g.1") == [None, None]
    assert rows["reason"].to_list()[2:] == ["unlabelled"] * 2


def contribution(*products: int) -> list[dict[str, float]]:
    return [{"utility": 1.0, "validity": p} for p in products]


@pytest.mark.parametrize(
    ("alpha", "expected"), [(1.0, [0.950, 0.350, 0.950]), (100.0, [1.125, 0.0, 1.125])]
)
def test_cw_grpo_shares_a_success_out_by_contribution(alpha: float, expected: list[float]) -> None:
    labels = judged(contribution={t: contribution(1, 0, 1) for t in ("g.0", "g.3")})
    rows = compute("cw-grpo", **group(REWARDS), proposals=labels, norm="mean", alpha=alpha)
    assert by_turn(rows, "g.0") == pytest.approx([*expected, 0.75], abs=5e-4)
    assert sum(by_turn(rows, "g.0")) == pytest.approx(4 * 0.75)
    assert by_turn(rows, "g.1") == [-0.25] * 4


def test_a_gap_in_the_contributions_is_not_a_zero() -> None:
    rated: dict[str, Any] = {"g.0": contribution(1, 0, 1), "g.3": [None, *contribution(1, 1)]}
    rows = compute("cw-grpo", **group(REWARDS), proposals=judged(contribution=rated))
    assert by_turn(rows, "g.3") == [None] * 4
    assert None not in by_turn(rows, "g.0")
    assert set(rows.filter(pl.col("traj_id") == "g.3")["reason"]) == {"unlabelled"}


def test_vppo_pays_the_good_prefix_of_failures() -> None:
    # Mean credits 1, 4 * .5 / 10 = .2, 0, 6 * .5 / 10 = .3: mean .375.
    labels = judged(first_error={"g.1": 4, "g.2": 0, "g.3": 6})
    frames = group([1.0, 0.0, 0.0, 0.0], 10)
    rows = compute("vppo", **frames, proposals=labels)
    check(rows, [0.625] * 10, [0.125] * 4 + [-0.375] * 6, [-0.375] * 10)
    # Half of the prefixes, 2 and 3 turns: mean (1 + .1 + 0 + .15) / 4 = .3125.
    half = compute("vppo", **frames, proposals=labels, keep=0.5)
    check(half, [0.6875] * 10, [0.1875] * 2 + [-0.3125] * 8)


def test_vppo_may_spare_a_good_prefix_from_blame() -> None:
    # Credits 1, 1 and .25 on half of the turns: mean (1 + 1 + .125) / 3 = .708333.
    labels = judged(first_error={"g.2": 1})
    frames = group([1.0, 1.0, 0.0], 2)
    for relu, prefix in ((False, 0.25 - 0.708333), (True, 0.0)):
        rows = compute("vppo", **frames, proposals=labels, alpha=0.25, relu=relu)
        assert by_turn(rows, "g.2") == pytest.approx([prefix, -0.708333], abs=1e-6)


def test_triage_adds_the_constants_of_roles() -> None:
    labels = judged(roles={"g.0": ["D", "N"], "g.1": ["R", None]})
    knobs: dict[str, Any] = {"d": 0.5, "e": 0.2, "n": 0.0, "r": -0.5, "norm": "mean"}
    rows = compute("triage", **group([1.0, 0.0], 2), proposals=labels, **knobs, whiten=False)
    check(rows, [1.0, 0.5], [-1.0, -0.5])
    # Mean 0, variance (1 + .25 + 1 + .25) / 3, deviation .912871.
    white = compute("triage", **group([1.0, 0.0], 2), proposals=labels, **knobs)
    check(white, [1.095445, 0.547723], [-1.095445, -0.547723])


def test_triage_asks_for_constants_that_nobody_published() -> None:
    with pytest.raises(UsageError, match="no constant for the roles e, n, r") as caught:
        compute("triage", **group([1.0, 0.0], 1), proposals=judged(), d=1.0)
    assert caught.value.hint == "--knob e=VALUE --knob n=VALUE --knob r=VALUE"


def test_judge_only_prover_credits_without_verification() -> None:
    proposals = judged(("g.0", 1, 3), confidence={"g.0": 0.4})
    rows = compute("prover-judge-only", **group(REWARDS), proposals=proposals)
    assert by_turn(rows, "g.0") == [0.75, 1.0, 1.0, 0.75]
    scored = compute("prover-judge-only", **group(REWARDS), proposals=proposals, score="confidence")
    assert by_turn(scored, "g.0") == pytest.approx([0.75, 1.15, 1.15, 0.75])
    silent = compute(
        "prover-judge-only", **group(REWARDS), proposals=judged(("g.0", 1, 3)), score="confidence"
    )
    assert by_turn(silent, "g.0") == [0.75] * 4
    assert silent["reason"].to_list()[1] == "segment_without_estimate"


def test_the_control_spreads_the_verified_mass_over_all_proposals() -> None:
    # Verified: .375 at two turns, mass .75. Proposed: these two and one that failed: .25 each.
    verified = estimate(3, 6)
    failed = estimate(5, 4, segment=(0, 1)).with_columns(
        pl.lit("q").alias("proposal_id"), pl.lit("g.3").alias("traj_id")
    )
    rows = compute("constant", **group(REWARDS), estimates=pl.concat([verified, failed]))
    assert by_turn(rows, "g.0") == [0.75, 1.0, 1.0, 0.75]
    assert by_turn(rows, "g.3") == [1.0, 0.75, 0.75, 0.75]
    by_hand = compute("constant", **group(REWARDS), estimates=failed, bonus=0.1)
    assert by_turn(by_hand, "g.3") == pytest.approx([0.85, 0.75, 0.75, 0.75])


def test_several_segments_add_up() -> None:
    second = estimate(3, 4, segment=(2, 4)).with_columns(pl.lit("q").alias("proposal_id"))
    rows = compute("prover", **group(REWARDS), estimates=pl.concat([estimate(3, 6), second]))
    assert by_turn(rows, "g.0") == [0.75, 1.125, 1.25, 0.875]


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("criticsearch", {"turns": {"g.0": ["fine"]}}),
        ("cw-grpo", {"contribution": {"g.0": [{"utility": 2, "validity": 1}]}}),
        ("vppo", {"first_error": {"g.1": -1}}),
        ("vppo", {"first_error": [3]}),
        ("prover-judge-only", {"confidence": {"g.0": "high"}}),
    ],
)
def test_a_label_of_another_form_is_not_taken_for_silence(name: str, labels: Any) -> None:
    knobs = {"score": "confidence"} if name == "prover-judge-only" else {}
    with pytest.raises(UsageError, match="proposal p"):
        compute(name, **group([1.0, 0.0], 2), proposals=judged(("g.0", 0, 1), **labels), **knobs)


def test_a_trajectory_is_labelled_once() -> None:
    one = judged(first_error={"g.1": 0})
    two = pl.concat([one, one.with_columns(pl.lit("q").alias("proposal_id"))])
    with pytest.raises(UsageError, match="another proposal labels this trajectory"):
        compute("vppo", **group([1.0, 0.0], 2), proposals=two)
