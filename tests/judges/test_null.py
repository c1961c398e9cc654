"""The judges that do not look are fair, repeatable and always valid."""

from __future__ import annotations

from collections import Counter

import pytest

from prover_cli.errors import UsageError
from prover_cli.judges import registry
from prover_cli.judges.base import GroupView, ProposalStatus
from prover_cli.judges.segments import valid_segments
from tests.judges.groups import group, propose, trajectory


def mixed(group_id: str = "g") -> GroupView:
    chosen = trajectory(0, "abcdefg", True, invalid={2})
    return group(
        chosen, trajectory(1, "abcdefghi", True), trajectory(2, "ab", False), group_id=group_id
    )


def segment(name: str, seed: int, view: GroupView, longest: int = 3) -> tuple[int, int]:
    proposal = propose(registry.make(name, seed=seed, max_segment=longest), view)
    assert proposal.status is ProposalStatus.OK and proposal.judge == name
    assert proposal.traj_id == "g.0"
    assert proposal.start_turn is not None and proposal.end_turn is not None
    return proposal.start_turn, proposal.end_turn


@pytest.mark.parametrize(("name", "longest"), [("random", 3), ("uniform", 1)])
def test_draws_cover_the_valid_segments_evenly(name: str, longest: int) -> None:
    view = mixed()
    assert view.shortest_success is not None
    expected = valid_segments(view.shortest_success, longest)
    counts = Counter(segment(name, seed, view) for seed in range(100 * len(expected)))
    assert set(counts) == set(expected)
    assert all(50 < count < 150 for count in counts.values())


@pytest.mark.parametrize("name", ["random", "uniform"])
def test_draws_depend_on_seed_and_group_alone(name: str) -> None:
    draws = [segment(name, seed, mixed(group)) for seed in range(9) for group in ("g", "h")]
    assert draws == [segment(name, seed, mixed(group)) for seed in range(9) for group in ("g", "h")]
    assert draws[::2] != draws[1::2]


def test_last_is_the_last_valid_turn_before_the_end() -> None:
    assert segment("last", 0, mixed()) == (5, 6)
    view = group(trajectory(0, "abcde", True, invalid={2, 3}), trajectory(1, "a", False))
    assert segment("last", 0, view) == (1, 2)


@pytest.mark.parametrize("name", registry.names())
def test_every_judge_refuses_where_nothing_is_valid(name: str) -> None:
    judge = registry.make(name, seed=0, max_segment=4)
    short = group(trajectory(0, "a", True), trajectory(1, "ab", False))
    assert propose(judge, short).status is ProposalStatus.NO_VALID_SEGMENT
    failed = group(trajectory(0, "abc", False), trajectory(1, "ab", False))
    assert propose(judge, failed).status is ProposalStatus.NO_SUCCESS


def test_an_unknown_judge_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UsageError, match="contrast, last, random, uniform"):
        registry.make("oracle", seed=0, max_segment=4)


def test_a_judge_of_another_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "theirs"

        def load(self) -> object:
            return registry._BUILT_IN["last"]

    monkeypatch.setattr(registry, "entry_points", lambda group: [Entry()])
    assert "theirs" in registry.names()
    assert propose(registry.make("theirs", seed=0, max_segment=4), mixed()).end_turn == 6
