"""Groups made by hand: a trajectory is the states it visits."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from prover_cli.judges.base import GroupView, Judge, Proposal, TrajectoryView, TurnView


def trajectory(
    sample: int,
    states: Sequence[str],
    success: bool | None,
    invalid: Collection[int] = (),
    actions: Sequence[str] | None = None,
) -> TrajectoryView:
    """One turn per state; `success` None makes it void."""
    turns = tuple(
        TurnView(
            turn=turn,
            observation=f"in {state}",
            action_text="reply",
            action=actions[turn] if actions else f"go {turn}",
            action_valid=turn not in invalid,
            reward=0.0,
            done=turn == len(states) - 1,
            state_key=state,
        )
        for turn, state in enumerate(states)
    )
    reward = None if success is None else float(success)
    stop = "void" if success is None else "done"
    return TrajectoryView(f"g.{sample}", sample, reward, success, stop, turns)


def group(*trajectories: TrajectoryView, group_id: str = "g") -> GroupView:
    return GroupView(group_id, "task", "Find the key.", trajectories)


def outcomes(*successes: bool | None) -> GroupView:
    """A group with these outcomes; what its trajectories did does not matter."""
    return group(*(trajectory(i, "abc", success) for i, success in enumerate(successes)))


def propose(judge: Judge, given: GroupView) -> Proposal:
    return asyncio.run(judge.propose(given))
