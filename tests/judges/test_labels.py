"""Labels have the forms that credit methods read, and a judge sees no more than the method says."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from prover_cli.credit import labels as read_by
from prover_cli.envs.base import Message
from prover_cli.errors import EngineDeadError, RequestFailed, UsageError
from prover_cli.judges.base import GroupView
from prover_cli.judges.labels import KINDS, Labeller, Labels, parse_kinds, questions
from tests.judges.groups import group, trajectory
from tests.judges.model import Script, ScriptedChat, asker, key_group


def ask(
    kinds: Sequence[str], script: Script, view: GroupView | None = None, **changes: Any
) -> tuple[Labels, ScriptedChat]:
    chat = ScriptedChat(script)
    labeller = Labeller(asker(chat), tuple(kinds), 0, changes.get("max_repairs", 1))
    return asyncio.run(labeller.label(view or key_group())), chat


def sensible(messages: Sequence[Message]) -> Any:
    """What a good judge answers to any question."""
    asked = messages[-1].content.splitlines()[-1]
    numbers = [int(n) for n in re.findall(r"\d+", asked)]
    if "Label all" in asked:
        return {"labels": ["good", "bad", None][: numbers[0]] + ["good"] * (numbers[0] - 3)}
    if "first wrong" in asked:
        return {"first_error": 1}
    if "Which role" in asked:
        return {"role": "DENR"[numbers[0] % 4]}
    return {"utility": 0.5, "validity": 1}


def table(labels: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame({"proposal_id": ["p"], "labels_json": [json.dumps(labels)]})


def test_credit_methods_read_every_kind() -> None:
    labels, _ = ask(KINDS, sensible)
    proposals = table(labels.as_json())
    turns = read_by.turn_labels(proposals, "turns", "good bad")
    lengths = dict(turns.group_by("traj_id").len().iter_rows())
    assert lengths == {"g.0": 6, "g.1": 7, "g.2": 4, "g.3": 3, "g.4": 3}
    assert read_by.turn_labels(proposals, "roles", "D E N R").height == 23
    assert dict(read_by.first_errors(proposals).iter_rows()) == {f"g.{i}": 1 for i in range(5)}
    contributed = read_by.contributions(proposals)
    assert dict(contributed.group_by("traj_id").len().iter_rows()) == {"g.0": 5, "g.1": 6}
    assert labels.faults == {}


def test_void_and_empty_trajectories_are_not_asked_about() -> None:
    view = group(trajectory(0, "abc", True), trajectory(1, "ab", None), trajectory(2, "", False))
    labels, _ = ask(["turns"], sensible, view)
    assert list(labels.found["turns"]) == ["g.0"]


def test_a_contribution_is_judged_from_the_prefix_alone() -> None:
    _, chat = ask(["contribution"], sensible)
    for asked in chat.asked:
        turn = int(asked.last.splitlines()[-1].split()[2])
        seen = {int(n) for n in re.findall(r"^turn (\d+)", asked.last, re.MULTILINE)}
        assert seen == set(range(turn + 1))
        assert "succeeded" not in asked.text
    assert len(chat.asked) == 5 + 6


def test_a_role_is_judged_from_five_turns_around_without_the_outcome() -> None:
    view = group(trajectory(0, [f"s{i}" for i in range(20)], True), trajectory(1, "ab", False))
    _, chat = ask(["roles"], sensible, view)
    for asked in chat.asked:
        turn = int(asked.last.splitlines()[-1].split()[-1].rstrip("?"))
        seen = {int(n) for n in re.findall(r"^turn (\d+)", asked.last, re.MULTILINE)}
        assert all(abs(turn - other) <= 5 for other in seen) and turn in seen
        assert "succeeded" not in asked.text and "failed (" not in asked.text
    assert len(chat.asked) == 22


def test_whole_runs_are_shown_with_their_outcome() -> None:
    _, chat = ask(["turns", "first_error"], sensible)
    assert sum("run, succeeded;" in asked.last for asked in chat.asked) == 4
    assert sum("run, failed (done);" in asked.last for asked in chat.asked) == 6


@pytest.mark.parametrize(
    ("kind", "reply", "fault"),
    [
        ("turns", {"labels": ["good"] * 5}, "5 labels for 6 turns"),
        ("turns", {"labels": ["good"] * 7}, "7 labels for 6 turns"),
        ("turns", {"labels": ["fine"] * 6}, 'label 0 is "fine"'),
        ("turns", {"labels": [["good"]] * 6}, r'label 0 is \["good"\]'),
        ("turns", {"labels": "good"}, 'needs a list "labels"'),
        ("first_error", {"first_error": 6}, "first_error is 6, not a turn from 0 to 5"),
        ("first_error", {"first_error": "2"}, 'first_error is "2"'),
        ("first_error", {"first_error": True}, "first_error is true"),
        ("first_error", {}, "no key"),
        ("roles", {"role": "X"}, 'role is "X"'),
        ("roles", {}, "no key"),
        ("contribution", {"utility": 2, "validity": 1}, "utility is 2"),
        ("contribution", {"utility": "1", "validity": 1}, 'utility is "1"'),
        ("contribution", {"utility": 0.5, "validity": 0.5}, "validity is 0.5"),
        ("contribution", {"utility": 0.5}, "validity is null"),
    ],
)
def test_a_label_of_another_form_is_given_back_and_then_left_out(
    kind: str, reply: dict[str, Any], fault: str
) -> None:
    view = group(trajectory(0, "abcdef", True))
    labels, chat = ask([kind], [reply] * 9, view)
    assert len(chat.asked) == 2 and re.search(fault, chat.asked[1].last)
    assert labels.found[kind] == {} and re.search(fault, labels.faults[kind]["g.0"])
    assert labels.as_json()["label_faults"][kind]


def test_a_trajectory_with_one_missing_answer_is_left_out_of_the_kind() -> None:
    def sometimes(messages: Sequence[Message]) -> Any:
        if "turn 2" in messages[-1].content.splitlines()[-1]:
            return RequestFailed("busy")
        return sensible(messages)

    labels, _ = ask(["roles"], sometimes)
    assert labels.found["roles"] == {} and len(labels.faults["roles"]) == 5
    short = group(trajectory(0, "ab", True), trajectory(1, "abc", False))
    labels, _ = ask(["roles"], sometimes, short)
    assert list(labels.found["roles"]) == ["g.0"] and list(labels.faults["roles"]) == ["g.1"]


def test_an_outage_is_no_label() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        ask(["turns"], lambda messages: EngineDeadError("gone"))
    assert isinstance(caught.value.exceptions[0], EngineDeadError)


def test_kinds_are_named_as_flags() -> None:
    assert parse_kinds(["first-error,turns", "roles"]) == ("turns", "roles", "first_error")
    assert parse_kinds([]) == ()
    with pytest.raises(UsageError, match="knows turns, roles, first-error, contribution"):
        parse_kinds(["good"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tight", [False, True])
def test_schemas_are_objects_that_strict_servers_take(kind: str, tight: bool) -> None:
    for question in questions(kind, trajectory(0, "abcd", True), tight):
        schema = json.loads(question.schema)
        assert schema["type"] == "object" and schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
