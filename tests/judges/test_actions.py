"""Only what exists and is allowed is an action; nothing is clamped or corrected."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from prover_cli.judges.actions import Abstain, Compare, GetSegment, Rules, Search, Submit, schema
from prover_cli.judges.parse import Fault
from prover_cli.judges.segments import valid_segments
from tests.judges.groups import trajectory
from tests.judges.model import submit

WON = trajectory(0, "abcdef", True, invalid={3})
LONGER = trajectory(1, "abcdefg", True)
LOST = trajectory(2, "abxy", False)
RULES = Rules({"S1": WON}, {"F1": LOST}, max_segment=2)
BOTH = Rules({"S1": WON, "S2": LONGER}, {"F1": LOST}, max_segment=2)


def test_every_action_is_read() -> None:
    found = [
        RULES.read({"tool": "search_trajectory", "query": "key", "k": 3, "thought": "hm"}),
        RULES.read({"tool": "get_segment", "traj_id": "F1", "start_turn": 0, "end_turn": 4}),
        RULES.read({"tool": "compare", "traj_id": "S1", "turn": 5}),
        RULES.read(submit(1, 3)),
        RULES.read({"tool": "abstain", "reason": "nothing"}),
    ]
    assert [type(x) for x in found] == [Search, GetSegment, Compare, Submit, Abstain]


def test_keys_that_are_null_or_not_asked_for_do_not_matter() -> None:
    value = {**submit(1, 2), "query": None, "k": None, "turn": 7, "note": "x", "traj_id": None}
    action = RULES.read(value)
    assert isinstance(action, Submit) and RULES.chosen(action) == "S1"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({}, 'no key "tool"; it is one of search_trajectory'),
        ({"tool": "buy"}, 'there is no tool "buy"'),
        ({"tool": ["submit"]}, "there is no tool"),
        ({"tool": None}, "there is no tool null"),
        ({"tool": "abstain"}, "abstain: reason is missing"),
        ({"tool": "abstain", "reason": ""}, "at least 1 character"),
        ({"tool": "search_trajectory", "query": "x"}, "k is missing"),
        ({"tool": "search_trajectory", "query": "x", "k": 0}, "k is 0"),
        ({"tool": "search_trajectory", "query": "x", "k": 99}, "k is 99"),
        ({"tool": "search_trajectory", "query": 3, "k": 1}, "query is 3"),
        ({"tool": "compare", "traj_id": "F9", "turn": 0}, 'no run "F9"; runs: S1, F1'),
        ({"tool": "compare", "traj_id": "g.2", "turn": 0}, 'no run "g.2"'),
        ({"tool": "compare", "traj_id": "F1", "turn": 4}, "turn 4 does not exist: F1 has turns 0"),
        ({"tool": "compare", "traj_id": "F1", "turn": -1}, "turn -1 does not exist"),
        (
            {"tool": "get_segment", "traj_id": "F1", "start_turn": 0, "end_turn": 5},
            "end_turn is at most 4",
        ),
        (
            {"tool": "get_segment", "traj_id": "F1", "start_turn": 2, "end_turn": 2},
            "turn 2 alone is start_turn 2, end_turn 3",
        ),
    ],
)
def test_a_call_that_is_not_possible_is_refused(value: dict[str, Any], fault: str) -> None:
    with pytest.raises(Fault, match=fault):
        RULES.read(value)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"start_turn": 1, "end_turn": 1}, "turn 1 alone is start_turn 1, end_turn 2"),
        ({"start_turn": 2, "end_turn": 1}, "hold no turn"),
        ({"start_turn": -1, "end_turn": 1}, "do not all exist: S1 has turns 0 to 5"),
        ({"start_turn": 5, "end_turn": 7}, "do not all exist"),
        ({"start_turn": 6, "end_turn": 7}, "do not all exist"),
        ({"start_turn": 5, "end_turn": 6}, "turn 5 is the last of S1.*end_turn is at most 5"),
        ({"start_turn": 4, "end_turn": 6}, "turn 5 is the last of S1"),
        ({"start_turn": 0, "end_turn": 3}, "are 3 turns; a segment has at most 2"),
        ({"start_turn": 3, "end_turn": 4}, "the action of turn 3 was malformed or refused"),
        ({"start_turn": 2, "end_turn": 4}, "the action of turn 3 was malformed or refused"),
        ({"start_turn": "1"}, 'start_turn is "1": input should be a valid integer'),
        ({"end_turn": 2.0}, "end_turn is 2.0: input should be a valid integer"),
        ({"start_turn": True}, "start_turn is true"),
        ({"start_turn": [1]}, r"start_turn is \[1\]"),
        ({"start_turn": None}, "start_turn is missing"),
        ({"confidence": 1.5}, "confidence is 1.5"),
        ({"confidence": "high"}, 'confidence is "high"'),
        ({"confidence": True}, "confidence is true"),
        ({"failure_mode": ""}, "failure_mode"),
        ({"rationale": None}, "rationale is missing"),
        ({"traj_id": "F1"}, "F1 failed; a segment belongs to a successful run: S1"),
        ({"traj_id": "S2"}, 'there is no run "S2"'),
        ({"traj_id": "other.3"}, 'there is no run "other.3"'),
        ({"traj_id": 1}, "traj_id is 1"),
    ],
)
def test_a_segment_that_may_not_be_proposed_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(Fault, match=fault):
        RULES.read({**submit(1, 2), **changes})


def test_submissions_are_accepted_exactly_where_segments_are_valid() -> None:
    accepted = []
    for start, end in product(range(-2, 9), repeat=2):
        try:
            RULES.read(submit(start, end))
        except Fault:
            continue
        accepted.append((start, end))
    assert accepted == valid_segments(WON, 2)


def test_where_several_successes_are_shown_the_segment_names_one() -> None:
    with pytest.raises(Fault, match="which run"):
        BOTH.read(submit(1, 2))
    action = BOTH.read(submit(5, 6, traj_id="S2"))
    assert isinstance(action, Submit) and BOTH.chosen(action) == "S2"
    with pytest.raises(Fault, match="turn 5 is the last of S1"):
        BOTH.read(submit(5, 6, traj_id="S1"))


def test_without_tool_calls_only_an_end_is_allowed() -> None:
    with pytest.raises(Fault, match="no tool calls left: submit or abstain now"):
        RULES.read({"tool": "compare", "traj_id": "S1", "turn": 1}, may_call=False)
    assert isinstance(RULES.read(submit(1, 2), may_call=False), Submit)


# Schemas


def examples(node: dict[str, Any]) -> list[Any]:
    """All values of a tight schema, texts apart."""
    if "enum" in node:
        return list(node["enum"])
    if node["type"] == "string":
        return ["x"]
    keys = list(node["properties"])
    return [
        dict(zip(keys, values, strict=True))
        for values in product(*(examples(node["properties"][key]) for key in keys))
    ]


@pytest.mark.parametrize("may_call", [True, False])
def test_whatever_satisfies_a_tight_schema_is_allowed(may_call: bool) -> None:
    alternatives = json.loads(schema(BOTH, tight=True, may_call=may_call))["anyOf"]
    values = [value for node in alternatives for value in examples(node)]
    for value in values:
        BOTH.read(value, may_call)
    offered = {
        (value["traj_id"], value["start_turn"], value["end_turn"])
        for value in values
        if value["tool"] == "submit"
    }
    wanted = {("S1", *s) for s in valid_segments(WON, 2)}
    assert offered == wanted | {("S2", *s) for s in valid_segments(LONGER, 2)}
    tools = {value["tool"] for value in values}
    assert len(tools) == (5 if may_call else 2)


def test_the_other_schema_is_one_object_for_all_groups_that_strict_servers_take() -> None:
    loose = json.loads(schema(RULES, tight=False, may_call=True))
    assert loose == json.loads(schema(BOTH, tight=False, may_call=True))
    assert loose["required"] == list(loose["properties"])
    assert loose["additionalProperties"] is False and loose["type"] == "object"
    fields = set(submit()) | {"thought", "traj_id", "query", "k", "turn", "reason"}
    assert set(loose["properties"]) == fields
    ends = json.loads(schema(RULES, tight=False, may_call=False))
    assert ends["properties"]["tool"]["enum"] == ["submit", "abstain"]
