"""What a judge sees of a group, and what it says about it.

A judge gets one group of trajectories and proposes at most one segment: a half-open range of turns
`[start_turn, end_turn)` of one trajectory of the group. It never sees tokens, models or files. A
judge that finds nothing says why with a status; it never raises for what a policy did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn: what was seen, what was answered and what came of it."""

    turn: int
    observation: str
    action_text: str
    action: str
    action_valid: bool
    reward: float
    done: bool
    state_key: str
    """Identity of the environment's state before the action."""


@dataclass(frozen=True, slots=True)
class TrajectoryView:
    """One trajectory; `reward` and `success` are None when it is void."""

    traj_id: str
    sample: int
    reward: float | None
    success: bool | None
    stop_reason: str
    turns: tuple[TurnView, ...]

    @property
    def scored(self) -> bool:
        """Whether the trajectory has an outcome."""
        return self.reward is not None


@dataclass(frozen=True, slots=True)
class GroupView:
    """The trajectories that one policy made for one task."""

    group_id: str
    task_id: str
    instruction: str
    trajectories: tuple[TrajectoryView, ...]

    @property
    def successes(self) -> tuple[TrajectoryView, ...]:
        """Scored trajectories that solved the task."""
        return tuple(t for t in self.trajectories if t.scored and t.success)

    @property
    def failures(self) -> tuple[TrajectoryView, ...]:
        """Scored trajectories that did not; void ones are neither."""
        return tuple(t for t in self.trajectories if t.scored and not t.success)

    @property
    def shortest_success(self) -> TrajectoryView | None:
        """The success with the fewest turns, the first sample of those; None without success."""
        return min(self.successes, key=lambda t: (len(t.turns), t.sample), default=None)


class ProposalStatus(StrEnum):
    OK = "ok"
    """There is a segment."""
    TOO_FEW_SCORED = "too_few_scored"
    """Fewer than two trajectories have an outcome."""
    NO_SUCCESS = "no_success"
    """Every scored trajectory failed."""
    NO_FAILURE = "no_failure"
    """Every scored trajectory succeeded."""
    TOO_FEW_SUCCESSES = "too_few_successes"
    """Some succeeded, but fewer than asked for."""
    TOO_MANY_SUCCESSES = "too_many_successes"
    """Some failed, but more succeeded than asked for."""
    NO_VALID_SEGMENT = "no_valid_segment"
    """The chosen trajectory has no nonterminal run of valid actions."""
    NO_CONTRAST = "no_contrast"
    """No segment leads to a state that sets successes apart from failures."""
    INVALID_REPLY = "invalid_reply"
    """The judge answered, but not with a segment that is valid."""
    NO_REPLY = "no_reply"
    """The judge could not be reached, or the group does not fit into its context."""
    ABSTAINED = "abstained"
    """The judge looked and proposes nothing."""
    OVER_BUDGET = "over_budget"
    """The judge's budget was spent before it had answered."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A judge's answer for one group; the segment's fields are None unless the status is ok."""

    group_id: str
    status: ProposalStatus
    judge: str
    traj_id: str | None = None
    start_turn: int | None = None
    end_turn: int | None = None
    """One past the segment's last turn."""
    failure_mode: str | None = None
    rationale: str | None = None
    contrast_traj_ids: tuple[str, ...] = ()
    judge_model: str | None = None
    prompt_hash: str | None = None
    attempts: int = 0
    tool_calls: int = 0
    raw_text: str | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)
    """JSON values: per-turn labels and whatever else the judge has to say."""
    n_prompt_tokens: int = 0
    n_output_tokens: int = 0
    seconds: float = 0.0


class Judge(Protocol):
    """Proposes a segment for an eligible group."""

    @property
    def name(self) -> str: ...

    async def propose(self, group: GroupView) -> Proposal:
        """One proposal, or a status that says why there is none."""
        ...
