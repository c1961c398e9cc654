"""Several judges vote for a segment."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from prover_cli.errors import UsageError
from prover_cli.judges import registry
from prover_cli.judges.base import GroupView, Proposal, ProposalStatus
from prover_cli.judges.ensemble import EnsembleJudge
from tests.judges.groups import propose
from tests.judges.model import ScriptedChat, judge, key_group, submit


@dataclass(frozen=True)
class Fixed:
    name: str
    segment: tuple[int, int] | None
    traj_id: str = "g.0"

    async def propose(self, group: GroupView) -> Proposal:
        if self.segment is None:
            return Proposal(group.group_id, ProposalStatus.NO_CONTRAST, self.name)
        return Proposal(
            group.group_id, ProposalStatus.OK, self.name, self.traj_id, *self.segment, attempts=2
        )


def vote(*members: Fixed) -> Proposal:
    return propose(EnsembleJudge(members, 4, "ensemble:x"), key_group())


def test_the_segment_with_the_most_overlap_wins() -> None:
    proposal = vote(Fixed("a", (4, 5)), Fixed("b", (0, 2)), Fixed("c", (1, 2)), Fixed("d", (1, 3)))
    assert (proposal.start_turn, proposal.end_turn) == (1, 2)
    assert proposal.judge == "ensemble:x" and proposal.attempts == 8
    votes = proposal.labels["votes"]
    assert list(votes) == ["a", "b", "c", "d"]
    assert votes["a"]["start_turn"] == 4 and votes["a"]["status"] == "ok"


def test_of_equals_the_shortest_wins_and_then_the_first_judge() -> None:
    assert vote(Fixed("a", (0, 2)), Fixed("b", (4, 5))).start_turn == 4
    assert vote(Fixed("a", (4, 5)), Fixed("b", (1, 2))).start_turn == 4
    assert vote(Fixed("b", (1, 2)), Fixed("a", (4, 5))).start_turn == 1


def test_the_same_turns_of_another_trajectory_do_not_count() -> None:
    proposal = vote(Fixed("a", (1, 2), "g.1"), Fixed("b", (1, 2)), Fixed("c", (0, 2)))
    assert proposal.traj_id == "g.0"


def test_a_judge_that_answers_is_enough_and_an_invalid_vote_counts_for_nothing() -> None:
    proposal = vote(Fixed("a", None), Fixed("b", (3, 4)), Fixed("c", (5, 6)), Fixed("d", (1, 2)))
    assert (proposal.start_turn, proposal.end_turn) == (1, 2)
    assert vote(Fixed("a", None), Fixed("b", (3, 4))).status is ProposalStatus.NO_CONTRAST


def test_a_model_votes_with_judges_that_ask_none() -> None:
    chat = ScriptedChat([submit(1, 2)])
    made = registry.make(
        "ensemble:contrast, agentic,last", seed=0, max_segment=4, agentic=lambda: judge(chat)
    )
    proposal = propose(made, key_group())
    assert proposal.judge == "ensemble:contrast,agentic,last"
    assert set(proposal.labels["votes"]) == {"contrast", "agentic", "last"}
    assert (proposal.judge_model, proposal.attempts) == ("scripted-model", 1)
    assert proposal.prompt_hash is not None and proposal.raw_text is not None


@pytest.mark.parametrize("name", ["ensemble:contrast", "ensemble:", "ensemble:last,last"])
def test_an_ensemble_has_two_different_judges(name: str) -> None:
    with pytest.raises(UsageError, match="two or more different judges"):
        registry.make(name, seed=0, max_segment=4)


def test_an_unknown_member_is_named() -> None:
    with pytest.raises(UsageError, match="'oracle'"):
        registry.make("ensemble:last,oracle", seed=0, max_segment=4)
