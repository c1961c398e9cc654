"""What counts as a success, as eligible and as a segment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.judges.base import ProposalStatus as Status
from prover_cli.judges.eligibility import eligible
from prover_cli.judges.segments import valid_segments
from tests.judges.groups import group, outcomes, trajectory


def test_void_trajectories_are_neither_successes_nor_failures() -> None:
    view = outcomes(True, None, False, None)
    assert [t.sample for t in view.successes] == [0]
    assert [t.sample for t in view.failures] == [2]


def test_the_shortest_success_has_the_fewest_turns_and_then_the_lowest_sample() -> None:
    view = group(
        trajectory(3, "abc", True),
        trajectory(1, "abc", True),
        trajectory(0, "abcd", True),
        trajectory(2, "a", False),
        trajectory(4, "a", None),
    )
    assert view.shortest_success is not None and view.shortest_success.sample == 1
    assert outcomes(False, None).shortest_success is None


@pytest.mark.parametrize(
    ("successes", "reason"),
    [
        ((), Status.TOO_FEW_SCORED),
        ((True,), Status.TOO_FEW_SCORED),
        ((True, None, None), Status.TOO_FEW_SCORED),
        ((False, False), Status.NO_SUCCESS),
        ((True, True, None), Status.NO_FAILURE),
        ((True, True, True, True), Status.NO_FAILURE),
        ((True, False, False), Status.TOO_FEW_SUCCESSES),
        ((True, True, True, True, False), Status.TOO_MANY_SUCCESSES),
        ((True, True, False), None),
        ((True, True, True, False, None), None),
    ],
)
def test_only_mixed_groups_with_the_wanted_successes_are_eligible(
    successes: tuple[bool | None, ...], reason: Status | None
) -> None:
    assert eligible(outcomes(*successes), min_success=2, max_success=3) is reason


def test_one_success_and_one_failure_are_enough() -> None:
    assert eligible(outcomes(True, False), 1, 3) is None


@given(
    n=st.integers(0, 12),
    invalid=st.sets(st.integers(0, 11)),
    longest=st.integers(1, 6),
)
def test_segments_are_exactly_the_short_nonterminal_ranges_of_valid_turns(
    n: int, invalid: set[int], longest: int
) -> None:
    segments = valid_segments(trajectory(0, [f"s{i}" for i in range(n)], True, invalid), longest)
    expected = [
        (start, end)
        for start in range(n)
        for end in range(start + 1, n)
        if end - start <= longest and invalid.isdisjoint(range(start, end))
    ]
    assert segments == expected


def test_a_trajectory_of_one_turn_has_no_segment() -> None:
    assert valid_segments(trajectory(0, "a", True), 4) == []
