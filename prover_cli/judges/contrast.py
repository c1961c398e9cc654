"""Judge `contrast`: the turns that lead to states from which more of the group succeeded.

No model is asked. It follows the shortest successful trajectory. The *value* of a state is the
share of successes among the other trajectories that ever visit it, drawn towards the group's own
success share as if two more had come through with that share: the fewer visits, the less they say.
The chosen trajectory does not count in its own states; as a known success it would make every state
that nobody else visits look good. A segment's rise is the value after it minus that before it, so
it is rewarded for what its own turns decide and not for what was decided earlier. The shortest
segment that keeps at least three quarters of the largest rise is proposed (of equally short ones
that with the larger rise, then the earlier): turns that add little to the decision would only
dilute its credit.

States are compared by `state_key`, so the judge is as good as states are shared: where every
trajectory makes states of its own there is no contrast to see after the first turn. The state
behind a trajectory's last turn is not recorded and counts as not visited.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from prover_cli.judges.base import GroupView, Proposal, ProposalStatus, TrajectoryView
from prover_cli.judges.segments import valid_segments

PRIOR_VISITS = 2
"""Visits with the group's success share that are added to those of each state."""
KEPT_SHARE = Fraction(3, 4)
"""A shorter segment is preferred while it keeps this share of the largest rise."""
_QUOTED_CHARACTERS = 80
T = TypeVar("T", int, str)


@dataclass(frozen=True)
class ContrastJudge:
    """The shortest segment whose turns raise the value of the state nearly most."""

    seed: int
    max_segment: int
    name: str = "contrast"

    async def propose(self, group: GroupView) -> Proposal:
        chosen = group.shortest_success
        if chosen is None or not group.failures:
            missing = ProposalStatus.NO_SUCCESS if chosen is None else ProposalStatus.NO_FAILURE
            return Proposal(group.group_id, missing, self.name)
        segments = valid_segments(chosen, self.max_segment)
        if not segments:
            return Proposal(group.group_id, ProposalStatus.NO_VALID_SEGMENT, self.name)
        visits = Visits.of(group, chosen)
        start, end = best_segment(segments, visits.values)
        labels = {
            "values": [float(value) for value in visits.values],
            "visited_by_successes": list(visits.successes),
            "visited_by_failures": list(visits.failures),
        }
        if visits.values[end] <= visits.values[start]:
            status = ProposalStatus.NO_CONTRAST
            return Proposal(group.group_id, status, self.name, labels=labels)
        missing_it = _without(group.failures, chosen.turns[end].state_key)
        return Proposal(
            group.group_id,
            ProposalStatus.OK,
            self.name,
            chosen.traj_id,
            start,
            end,
            failure_mode=_failure_mode(chosen, end, missing_it, len(group.failures)),
            rationale=_rationale(chosen, start, end, visits),
            contrast_traj_ids=tuple(failure.traj_id for failure in missing_it),
            labels=labels,
        )


@dataclass(frozen=True)
class Visits:
    """How many trajectories ever visit the state before each turn of the chosen one, itself
    included."""

    successes: tuple[int, ...]
    failures: tuple[int, ...]
    n_success: int
    n_failure: int

    @classmethod
    def of(cls, group: GroupView, chosen: TrajectoryView) -> Visits:
        keys = [turn.state_key for turn in chosen.turns]
        won, lost = ([_states(t) for t in side] for side in (group.successes, group.failures))
        return cls(
            tuple(sum(key in states for states in won) for key in keys),
            tuple(sum(key in states for states in lost) for key in keys),
            len(won),
            len(lost),
        )

    @property
    def values(self) -> tuple[Fraction, ...]:
        """Smoothed success share of the others at each state, exact so that ties are ties."""
        prior = PRIOR_VISITS * Fraction(self.n_success, self.n_success + self.n_failure)
        return tuple(
            (won - 1 + prior) / (won - 1 + lost + PRIOR_VISITS)
            for won, lost in zip(self.successes, self.failures, strict=True)
        )

    def at(self, turn: int) -> str:
        return (
            f"{self.successes[turn]} of {self.n_success} successful and "
            f"{self.failures[turn]} of {self.n_failure} failed trajectories"
        )


def best_segment(
    segments: Sequence[tuple[int, int]], values: Sequence[Fraction]
) -> tuple[int, int]:
    """The shortest segment with nearly the largest rise; ties: the larger rise, the earlier."""

    def rise(segment: tuple[int, int]) -> Fraction:
        return values[segment[1]] - values[segment[0]]

    largest = max(map(rise, segments))
    enough = KEPT_SHARE * largest if largest > 0 else largest
    return min(
        (segment for segment in segments if rise(segment) >= enough),
        key=lambda s: (s[1] - s[0], -rise(s), s[0]),
    )


def _states(trajectory: TrajectoryView) -> frozenset[str]:
    return frozenset(turn.state_key for turn in trajectory.turns)


def _without(trajectories: Sequence[TrajectoryView], key: str) -> tuple[TrajectoryView, ...]:
    return tuple(t for t in trajectories if key not in _states(t))


def _failure_mode(
    chosen: TrajectoryView, end: int, missing: Sequence[TrajectoryView], n_failure: int
) -> str:
    """Counts of the failures that miss the state after the segment, and where they part."""
    fact = f"{len(missing)} of {n_failure} failed trajectories never act in the state after turn "
    found = [_parting(chosen, end, failure) for failure in missing]
    partings = [parting for parting in found if parting is not None]
    if not partings:
        return fact + f"{end - 1}."
    turn, count = _most_common([turn for turn, _ in partings], prefer=max)
    action, n_action = _most_common([did for at, did in partings if at == turn], prefer=min)
    return fact + (
        f"{end - 1}; {count} of them left at the state before turn {turn}, "
        f"{n_action} with {_quoted(action)}."
    )


def _most_common(values: Sequence[T], prefer: Callable[[list[T]], T]) -> tuple[T, int]:
    """The most frequent value and its count, whatever the order; `prefer` breaks ties."""
    counts = Counter(values)
    most = max(counts.values())
    return prefer([value for value, count in counts.items() if count == most]), most


def _parting(chosen: TrajectoryView, end: int, failure: TrajectoryView) -> tuple[int, str] | None:
    """The last turn before `end` whose state the failure shares, and what it did there last."""
    actions = {turn.state_key: turn.action for turn in failure.turns}
    shared = [turn for turn in chosen.turns[:end] if turn.state_key in actions]
    return (shared[-1].turn, actions[shared[-1].state_key]) if shared else None


def _rationale(chosen: TrajectoryView, start: int, end: int, visits: Visits) -> str:
    actions = ", ".join(_quoted(turn.action) for turn in chosen.turns[start:end])
    turns = f"Turn {start}" if end == start + 1 else f"Turns {start} to {end - 1}"
    return (
        f"{turns} ({actions}): the state before is visited by {visits.at(start)}, "
        f"the state after by {visits.at(end)}."
    )


def _quoted(action: str) -> str:
    if len(action) > _QUOTED_CHARACTERS:
        action = action[: _QUOTED_CHARACTERS - 1] + "…"
    return json.dumps(action, ensure_ascii=False)
