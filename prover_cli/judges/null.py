"""Judges that do not look: what a proposal is worth when it is made blindly.

They choose in the shortest successful trajectory, as every judge does, so that a comparison with
them measures the choice of the turns alone. Draws depend on the seed and the group's id only, not
on the order in which groups are judged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from prover_cli.ids import derive_seed
from prover_cli.judges.base import GroupView, Proposal, ProposalStatus
from prover_cli.judges.segments import valid_segments


@dataclass(frozen=True)
class RandomJudge:
    """A valid segment, all equally likely."""

    seed: int
    max_segment: int
    name: str = "random"

    async def propose(self, group: GroupView) -> Proposal:
        return _draw(self.name, self.seed, group, self.max_segment)


@dataclass(frozen=True)
class UniformJudge:
    """A single valid turn, all equally likely."""

    seed: int
    max_segment: int
    name: str = "uniform"

    async def propose(self, group: GroupView) -> Proposal:
        return _draw(self.name, self.seed, group, 1)


@dataclass(frozen=True)
class LastJudge:
    """The last single turn that is valid and not the end of the trajectory."""

    seed: int
    max_segment: int
    name: str = "last"

    async def propose(self, group: GroupView) -> Proposal:
        return _proposal(self.name, group, _segments(group, 1)[-1:])


def _draw(name: str, seed: int, group: GroupView, max_segment: int) -> Proposal:
    segments = _segments(group, max_segment)
    draws = random.Random(derive_seed("judge", name, seed, group.group_id))
    return _proposal(name, group, [draws.choice(segments)] if segments else [])


def _segments(group: GroupView, max_segment: int) -> list[tuple[int, int]]:
    chosen = group.shortest_success
    return [] if chosen is None else valid_segments(chosen, max_segment)


def _proposal(name: str, group: GroupView, found: list[tuple[int, int]]) -> Proposal:
    chosen = group.shortest_success
    if chosen is None:
        return Proposal(group.group_id, ProposalStatus.NO_SUCCESS, name)
    if not found:
        return Proposal(group.group_id, ProposalStatus.NO_VALID_SEGMENT, name)
    start, end = found[0]
    return Proposal(group.group_id, ProposalStatus.OK, name, chosen.traj_id, start, end)
