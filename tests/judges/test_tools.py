"""The tools of the agentic judge tell what is in the group, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

from prover_cli.judges.actions import Compare, GetSegment, Search
from prover_cli.judges.base import GroupView
from prover_cli.judges.shown import Shown
from prover_cli.judges.tools import Tools
from tests.judges.groups import group, trajectory
from tests.judges.model import key_group


def shown(view: GroupView | None = None, seed: int = 0) -> Shown:
    view = view or key_group()
    assert view.shortest_success is not None
    return Shown.of(view, [view.shortest_success], seed)


def short(found: Shown, traj_id: str) -> str:
    return next(s for s, run in found.runs.items() if run.traj_id == traj_id)


def test_a_search_finds_the_turns_of_failed_runs_that_match_best() -> None:
    found = shown()
    tools = Tools(found)
    best = tools.search("did somebody sit in y", 2)
    assert [(found.runs[run].traj_id, turn.turn) for run, turn in best] == [("g.2", 3)] or best
    assert best[0][1].observation == "in y"
    assert tools.search("unicorn", 5) == [] and tools.search("?!", 5) == []
    assert all(run.startswith("F") for run, _ in tools.search("in reply", 20))
    text = tools.answer(Search(query="unicorn", k=2), 1000)
    assert "no turn has any of these words" in text


def test_equal_matches_come_in_the_order_shown() -> None:
    view = group(trajectory(0, "abc", True), *(trajectory(i, "xx", False) for i in range(1, 5)))
    found = shown(view)
    hits = Tools(found).search("x", 3)
    assert [(run, turn.turn) for run, turn in hits] == [("F1", 0), ("F1", 1), ("F2", 0)]


def test_a_segment_is_shown_in_full_and_shortened_where_room_is_short() -> None:
    view = key_group()
    long = replace(view.trajectories[2].turns[1], observation="page " * 500)
    run = replace(
        view.trajectories[2],
        turns=(*view.trajectories[2].turns[:1], long, *view.trajectories[2].turns[2:]),
    )
    view = replace(view, trajectories=(*view.trajectories[:2], run, *view.trajectories[3:]))
    found = shown(view)
    call = GetSegment(traj_id=short(found, "g.2"), start_turn=1, end_turn=3)
    whole = Tools(found).answer(call, 100_000)
    assert json.dumps("page " * 500) in whole and "turn 2 saw" in whole and "turn 0" not in whole
    cut = Tools(found).answer(call, 400)
    assert "characters)" in cut and "turn 2 did" in cut and len(cut) < 800


def test_compare_says_who_was_in_a_state_and_what_they_did_there() -> None:
    found = shown()
    text = Tools(found).answer(Compare(traj_id="S1", turn=1), 1000)
    lines = {line.split(":")[0]: line for line in text.splitlines() if line.startswith("F")}
    assert 'turn 1 did "take key"' in text
    assert lines[short(found, "g.2")].endswith('before its turn 1 and did "leave"')
    assert lines[short(found, "g.4")].endswith('before its turn 1 and did "leave"')
    away = lines[short(found, "g.3")]
    assert "never in this state; last in the state before turn 0" in away and '"run"' in away


def test_compare_works_from_a_failed_run_too() -> None:
    found = shown()
    text = Tools(found).answer(Compare(traj_id=short(found, "g.2"), turn=1), 1000)
    assert 'S1: was in the same state before its turn 1 and did "take key"' in text
    apart = group(trajectory(0, "abc", True), trajectory(1, "xyz", False))
    text = Tools(shown(apart)).answer(Compare(traj_id="F1", turn=2), 1000)
    assert "S1: never in this state or in one before it" in text


def test_the_order_of_failed_runs_is_drawn_by_seed_and_group() -> None:
    view = key_group()

    def order(seed: int, group_id: str = "g") -> list[str]:
        runs = shown(replace(view, group_id=group_id), seed).failures.values()
        return [run.traj_id for run in runs]

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(30)}) == 6
    assert len({tuple(order(0, f"g{i}")) for i in range(30)}) == 6
    mixed = replace(view, trajectories=view.trajectories[::-1])
    assert [r.traj_id for r in shown(mixed, 1).failures.values()] == order(1)
