"""Judge `ensemble:A,B,...`: several judges propose, the segment that most of them cover wins.

The weight of a proposed segment is the sum of its overlaps with all proposed segments, its own
included: turns in common over turns in either, 0 on another trajectory. The heaviest is taken; of
equals the shortest, then the one of the judge named first. Every vote is recorded in `votes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from prover_cli.judges.base import GroupView, Judge, Proposal, ProposalStatus
from prover_cli.judges.segments import fault

PREFIX = "ensemble:"


@dataclass(frozen=True)
class EnsembleJudge:
    """`members` have different names."""

    members: tuple[Judge, ...]
    max_segment: int
    name: str

    async def propose(self, group: GroupView) -> Proposal:
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(member.propose(group)) for member in self.members]
        votes = [task.result() for task in asked]
        valid = [vote for vote in votes if fault(group, vote, self.max_segment) is None]
        return self._combined(votes, elected(valid or votes[:1]))

    def _combined(self, votes: Sequence[Proposal], winner: Proposal) -> Proposal:
        models = [vote.judge_model for vote in votes if vote.judge_model is not None]
        hashes = [vote.prompt_hash for vote in votes if vote.prompt_hash is not None]
        texts = [vote.raw_text for vote in votes if vote.raw_text is not None]
        return replace(
            winner,
            judge=self.name,
            labels={**winner.labels, "votes": {vote.judge: _vote(vote) for vote in votes}},
            judge_model="+".join(models) or None,
            prompt_hash="+".join(hashes) or None,
            raw_text="\n".join(texts) or None,
            attempts=sum(vote.attempts for vote in votes),
            tool_calls=sum(vote.tool_calls for vote in votes),
            n_prompt_tokens=sum(vote.n_prompt_tokens for vote in votes),
            n_output_tokens=sum(vote.n_output_tokens for vote in votes),
        )


def elected(votes: Sequence[Proposal]) -> Proposal:
    """The vote that wins; the first one where none has a segment."""
    found = [vote for vote in votes if vote.status is ProposalStatus.OK]
    if not found:
        return votes[0]
    return max(
        found, key=lambda vote: (sum(overlap(vote, other) for other in found), -_length(vote))
    )


def overlap(one: Proposal, other: Proposal) -> Fraction:
    """Turns in both segments over turns in either, exact so that ties are ties."""
    if one.traj_id != other.traj_id:
        return Fraction(0)
    mine, theirs = _turns(one), _turns(other)
    return Fraction(len(mine & theirs), len(mine | theirs))


def _turns(vote: Proposal) -> frozenset[int]:
    assert vote.start_turn is not None and vote.end_turn is not None
    return frozenset(range(vote.start_turn, vote.end_turn))


def _length(vote: Proposal) -> int:
    return len(_turns(vote))


def _vote(vote: Proposal) -> dict[str, Any]:
    return {
        "status": str(vote.status),
        "traj_id": vote.traj_id,
        "start_turn": vote.start_turn,
        "end_turn": vote.end_turn,
        "rationale": vote.rationale,
    }
