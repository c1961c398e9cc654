"""Judges side by side: answers, agreement and worth, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from prover_cli.credit.intervals import credited_by_chance
from prover_cli.errors import ShardError, UsageError
from prover_cli.stages import compare_judges
from prover_cli.stages.compare_judges import agreement, describe, overlap, worth
from prover_cli.stages.judge import proposal_row
from tests.views.compare_runs import proposal, put, whole

LENGTHS = {"a.0": 6, "b.0": 6, "c.0": 3}


def proposals(*rows: tuple[str, tuple[str, int, int] | str, int]) -> pl.DataFrame:
    """Rows of group, segment or status, and the tokens that the judge wrote."""
    made = []
    for group, found, tokens in rows:
        segment = found if isinstance(found, tuple) else None
        status = {} if segment else {"status": found}
        made.append(proposal(group, segment, n_output_tokens=tokens, **status))
    return pl.DataFrame(made, infer_schema_length=None)


ONE = proposals(
    ("a", ("a.0", 0, 2), 10),
    ("b", ("b.0", 4, 5), 10),
    ("c", ("c.0", 0, 1), 10),
    ("d", "no_success", 0),
    ("e", "invalid_reply", 10),
    ("f", "no_reply", 0),
)
OTHER = proposals(
    ("a", ("a.0", 1, 3), 0),
    ("b", ("b.0", 4, 5), 0),
    ("c", ("c.1", 0, 1), 0),
    ("d", "no_success", 0),
    ("e", ("e.0", 0, 1), 0),
    ("f", "no_contrast", 0),
)


def test_groups_that_were_not_eligible_are_not_asked_about() -> None:
    found = describe(ONE, LENGTHS)
    assert (found["asked"], found["answered"], found["segments"]) == (5, 4, 3)
    assert found["answer_rate"] == pytest.approx(4 / 5)
    assert found["valid_rate"] == pytest.approx(3 / 4)
    assert found["segment_rate"] == pytest.approx(3 / 5)
    assert found["status"]["no_success"] == 1


def test_lengths_and_positions_of_segments() -> None:
    found = describe(ONE, LENGTHS)
    assert found["mean_turns"] == pytest.approx(4 / 3)
    assert found["turns_histogram"] == {"1": 2, "2": 1}
    # Turn 0 of 6 and of 3, and turn 4 of 6, of which turns 0 to 4 and 0 to 1 may be chosen.
    assert found["position_shares"] == pytest.approx([2 / 3, 0, 0, 0, 1 / 3])
    both, short = 2 * 0.2, 0.5
    assert found["position_shares_at_random"] == pytest.approx(
        [x / 3 for x in (both + short, both, both + short, both, both)]
    )


def test_tokens_are_read_and_written_ones() -> None:
    found = describe(ONE.with_columns(pl.lit(3).alias("n_prompt_tokens")), LENGTHS)
    assert (found["prompt_tokens"], found["output_tokens"], found["tokens"]) == (18, 40, 58)


def test_agreement_is_over_the_groups_with_two_segments() -> None:
    found = agreement(ONE, OTHER)
    assert found["groups"] == 3
    assert found["same_trajectory_rate"] == pytest.approx(2 / 3)
    assert found["same_segment_rate"] == pytest.approx(1 / 3)
    assert found["touching_rate"] == pytest.approx(2 / 3)
    assert found["mean_overlap"] == pytest.approx((1 / 3 + 1 + 0) / 3)


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [
        (("a", 0, 2), ("a", 0, 2), 1),
        (("a", 0, 2), ("a", 1, 3), 1 / 3),
        (("a", 0, 4), ("a", 1, 2), 1 / 4),
        (("a", 0, 2), ("a", 2, 3), 0),
        (("a", 0, 2), ("b", 0, 2), 0),
    ],
)
def test_overlap_is_common_turns_over_all_turns(
    one: tuple[str, int, int], other: tuple[str, int, int], value: float
) -> None:
    assert overlap(one, other) == overlap(other, one) == pytest.approx(value)


def test_gains_stand_beside_chance_and_cost() -> None:
    estimates = pl.DataFrame(
        {
            "gain": [0.5, -0.25, 0.0, None],
            "success_before": [2, 4, 4, None],
            "success_after": [6, 2, 4, None],
            "n_before": [8, 8, 8, 0],
            "n_after": [8, 8, 8, 0],
        }
    )
    found = worth(estimates, judge_tokens=500)
    assert found["verified"] == 3 and found["continuations"] == 48
    assert found["positive_rate"] == pytest.approx(1 / 3)
    chances = [credited_by_chance(p, 8, 8) for p in (8 / 16, 6 / 16, 8 / 16)]
    assert found["null_rate"] == pytest.approx(sum(chances) / 3)
    assert found["mean_gain"] == pytest.approx(0.25 / 3)
    assert found["mean_positive_gain"] == pytest.approx(0.5)
    assert found["gain_per_1000_tokens"] == pytest.approx(0.5)
    assert worth(estimates, judge_tokens=0)["gain_per_1000_tokens"] is None


def test_nothing_verified_has_no_rates() -> None:
    empty = pl.DataFrame(
        schema={
            "gain": pl.Float64,
            **dict.fromkeys(("success_before", "success_after", "n_before", "n_after"), pl.Int32),
        }
    )
    found = worth(empty, 10)
    assert found["positive_rate"] is None and found["null_rate"] is None
    assert found["mean_gain"] is None and found["gain_per_1000_tokens"] == 0


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = whole(tmp_path)
    rows: list[dict[str, Any]] = [
        {"proposals": [proposal("ga", ("ga.0", 0, 2))]},
        {"proposals": [proposal("gb", ("gb.0", 0, 1))]},
    ]
    put(path, "judge@other", rows, ["rollout"])
    return path


def test_verifications_are_found_by_what_they_read(run: Path) -> None:
    found = compare_judges.run(run, ["judge", "judge@other"])
    one, other = found["judges"]
    assert [v["stage"] for v in one["verified"]] == ["verify"] and other["verified"] == []
    (worth_,) = one["verified"]
    assert (worth_["verified"], worth_["positive_rate"], worth_["mean_gain"]) == (1, 1, 0.5)
    assert found["pairs"][0]["judges"] == ["judge", "judge@other"]
    assert found["pairs"][0]["mean_overlap"] == pytest.approx(0.5)


def test_a_stale_verification_is_left_out_aloud(run: Path) -> None:
    for file in (run / "judge").iterdir():
        file.unlink()
    rows = [{"proposals": [proposal(group, None)]} for group in ("ga", "gb")]
    put(run, "judge", rows, ["rollout"])
    found = compare_judges.run(run, ["judge"])
    assert found["judges"][0]["verified"] == []
    (warning,) = found["warnings"]
    assert warning.startswith("verify is left out") and "judge changed since" in warning


def test_what_cannot_be_compared_is_refused(run: Path) -> None:
    with pytest.raises(UsageError, match="verify is not a stage of a judge"):
        compare_judges.run(run, ["judge", "verify"])
    with pytest.raises(UsageError, match="judge more than once"):
        compare_judges.run(run, ["judge", "judge"])
    with pytest.raises(ShardError, match="judge@gone has no manifest"):
        compare_judges.run(run, ["judge@gone"])


def test_hand_made_proposals_have_the_columns_of_real_ones() -> None:
    from prover_cli.judges.base import Proposal, ProposalStatus

    real = proposal_row(Proposal("g", ProposalStatus.NO_SUCCESS, "contrast"))
    assert set(real) == set(ONE.columns)
