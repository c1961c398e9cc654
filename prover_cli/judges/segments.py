"""The segments of a trajectory that a judge may propose."""

from __future__ import annotations

from prover_cli.judges.base import GroupView, Proposal, TrajectoryView


def fault(group: GroupView, proposal: Proposal, max_segment: int) -> str | None:
    """What is wrong with a proposed segment, or None; nothing is ever clamped or corrected."""
    chosen = next((t for t in group.trajectories if t.traj_id == proposal.traj_id), None)
    if chosen is None:
        return f"trajectory {proposal.traj_id!r} is not in the group"
    segment = (proposal.start_turn, proposal.end_turn)
    if segment not in valid_segments(chosen, max_segment):
        return f"[{segment[0]}, {segment[1]}) is not a valid segment of {proposal.traj_id}"
    return None


def valid_segments(trajectory: TrajectoryView, max_segment: int) -> list[tuple[int, int]]:
    """All half-open `(start, end)` ranges that may be proposed, by start and then by end.

    A segment has 1 to `max_segment` turns, never holds the last turn of the trajectory (there must
    be a state to continue from) and never a turn whose action was invalid.
    """
    last = len(trajectory.turns) - 1
    segments = []
    for start in range(last):
        for end in range(start + 1, min(start + max_segment, last) + 1):
            if not trajectory.turns[end - 1].action_valid:
                break
            segments.append((start, end))
    return segments
