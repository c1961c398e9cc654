"""`contrast` finds the turns after which outcomes part, and says so when there are none."""

from __future__ import annotations

import random
from dataclasses import replace

from prover_cli.ids import canonical_json
from prover_cli.judges.base import GroupView, ProposalStatus
from prover_cli.judges.contrast import ContrastJudge
from prover_cli.judges.segments import valid_segments
from tests.judges.groups import group, propose, trajectory

JUDGE = ContrastJudge(seed=0, max_segment=4)


def key_group() -> GroupView:
    """Everybody walks a, b, c; who then takes the key gets to d and succeeds."""
    return group(
        trajectory(0, "abcdef", True, actions=["w", "w", "take[key]", "w", "w", "open"]),
        trajectory(1, "abxcdef", True),
        trajectory(2, "abcz", False, actions=["w", "w", "leave", "w"]),
        trajectory(3, "abcy", False, actions=["w", "w", "leave", "w"]),
        trajectory(4, "abczz", False, actions=["w", "w", "sit", "w", "w"]),
        trajectory(5, "q", None),
    )


def test_the_turn_that_decides_is_found() -> None:
    proposal = propose(JUDGE, key_group())
    assert proposal.status is ProposalStatus.OK
    assert (proposal.traj_id, proposal.start_turn, proposal.end_turn) == ("g.0", 2, 3)
    assert proposal.contrast_traj_ids == ("g.2", "g.3", "g.4")
    assert proposal.labels["values"] == [0.3, 0.3, 0.3, 0.6, 0.6, 0.6]
    assert proposal.labels["visited_by_failures"] == [3, 3, 3, 0, 0, 0]
    canonical_json(dict(proposal.labels))


def test_the_reasons_are_counts_that_can_be_checked() -> None:
    proposal = propose(JUDGE, key_group())
    assert proposal.failure_mode == (
        "3 of 3 failed trajectories never act in the state after turn 2; 3 of them left at the "
        'state before turn 2, 2 with "leave".'
    )
    assert proposal.rationale == (
        'Turn 2 ("take[key]"): the state before is visited by 2 of 2 successful and 3 of 3 failed '
        "trajectories, the state after by 2 of 2 successful and 0 of 3 failed trajectories."
    )


def test_two_deciding_turns_make_one_segment_when_it_may_be_long_enough() -> None:
    view = group(
        trajectory(0, "abcde", True),
        trajectory(1, "aq", False),
        trajectory(2, "abcq", False),
    )
    ends = [(propose(ContrastJudge(0, n), view)) for n in (1, 2, 3)]
    assert [(p.start_turn, p.end_turn) for p in ends] == [(2, 3), (2, 3), (0, 3)]


def test_what_was_decided_earlier_is_not_rewarded_again() -> None:
    view = group(trajectory(0, "abcdef", True, invalid={0}), trajectory(1, "aq", False))
    proposal = propose(JUDGE, view)
    assert proposal.status is ProposalStatus.NO_CONTRAST
    assert proposal.traj_id is None and proposal.start_turn is None
    assert proposal.labels["values"] == [1 / 3, *[0.5] * 5]


def test_no_contrast_where_all_pass_the_same_states() -> None:
    view = group(trajectory(0, "abcd", True), trajectory(1, "abcd", False))
    assert propose(JUDGE, view).status is ProposalStatus.NO_CONTRAST


def test_no_segment_where_every_action_before_the_last_was_invalid() -> None:
    for chosen in (trajectory(0, "abc", True, invalid={0, 1}), trajectory(0, "a", True)):
        view = group(chosen, trajectory(1, "abcd", False))
        assert propose(JUDGE, view).status is ProposalStatus.NO_VALID_SEGMENT


def test_void_trajectories_count_on_neither_side() -> None:
    view = key_group()
    void = trajectory(9, "abcdef", None)
    assert propose(JUDGE, replace(view, trajectories=(*view.trajectories, void))) == propose(
        JUDGE, view
    )


def test_the_order_of_trajectories_does_not_matter() -> None:
    view = key_group()
    want = replace(propose(JUDGE, view), contrast_traj_ids=())
    for seed in range(10):
        mixed = random.Random(seed).sample(view.trajectories, len(view.trajectories))
        proposal = propose(JUDGE, replace(view, trajectories=tuple(mixed)))
        assert replace(proposal, contrast_traj_ids=()) == want


def test_a_turn_that_adds_little_is_left_out() -> None:
    failures = [trajectory(i, "abq", False) for i in range(1, 5)]
    view = group(trajectory(0, "abcde", True), *failures, trajectory(5, "aq", False))
    proposal = propose(ContrastJudge(0, 4), view)
    assert (proposal.start_turn, proposal.end_turn) == (1, 2)
    assert proposal.labels["values"] == [1 / 21, 1 / 18, 1 / 6, 1 / 6, 1 / 6]


def test_proposals_on_random_walks_are_valid_and_shortest() -> None:
    draws = random.Random(0)
    for _ in range(200):
        walks = [["start", *draws.choices("abcd", k=draws.randrange(1, 7))] for _ in range(6)]
        invalid = {turn for turn in range(7) if draws.random() < 0.2}
        view = group(*(trajectory(i, walk, i < 2, invalid) for i, walk in enumerate(walks)))
        proposal, chosen = propose(JUDGE, view), view.shortest_success
        assert chosen is not None
        segments = valid_segments(chosen, 4)
        values = proposal.labels.get("values", [])
        scores = {s: round(values[s[1]] - values[s[0]], 9) for s in segments}
        if proposal.status is ProposalStatus.OK:
            assert proposal.start_turn is not None and proposal.end_turn is not None
            found = (proposal.start_turn, proposal.end_turn)
            enough = 0.75 * max(scores.values())
            good = [s for s in segments if scores[s] >= enough - 1e-9]
            assert found == min(good, key=lambda s: (s[1] - s[0], -scores[s], s[0]))
            assert scores[found] > 0
        else:
            assert all(score <= 0 for score in scores.values())


def test_a_state_that_nobody_else_visits_is_worth_what_the_group_is() -> None:
    """The success that is followed is no evidence for its own states."""
    view = group(trajectory(0, "axyz", True), trajectory(1, "aq", False), trajectory(2, "r", False))
    values = propose(JUDGE, view).labels["values"]
    assert values[1:] == [1 / 3] * 3 and values[0] < 1 / 3


def test_more_visits_say_more() -> None:
    def value_of_b(n: int) -> float:
        others = [trajectory(i, "ab", True) for i in range(1, n + 1)]
        failures = [trajectory(n + 1 + i, "aq", False) for i in range(n + 1)]
        chosen = trajectory(0, "ab", True, actions=["w", "w"])
        return float(propose(JUDGE, group(chosen, *others, *failures)).labels["values"][1])

    found = [value_of_b(n) for n in (0, 1, 2, 4)]
    assert found == sorted(found) and found[0] == 0.5 and found[-1] < 1.0


def test_long_actions_are_quoted_in_short() -> None:
    view = group(trajectory(0, "ab", True, actions=["x" * 500, "end"]), trajectory(1, "aq", False))
    rationale = propose(JUDGE, view).rationale
    assert rationale is not None and "x…" in rationale and len(rationale) < 300
