"""Labels of turns for other credit methods, asked of a model in the pass of the judge.

    turns          good or bad per turn, from the whole run and its outcome      (CriticSearch)
    roles          D, E, N or R per turn, from 5 turns before and after it and without the outcome;
                   one question per turn                                         (TRIAGE)
    first_error    the first wrong turn of the whole run                         (VPPO)
    contribution   utility and validity per turn but the last, for successes only; each from the
                   turns up to it and nothing later, one question per turn       (CW-GRPO)

A trajectory with an answer that cannot be had is left out of the kind, with the reason in
`label_faults`; null is an answer. The forms are those that `credit.labels` reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from prover_cli.envs.base import Message
from prover_cli.errors import RequestFailed, UsageError
from prover_cli.ids import canonical_json
from prover_cli.judges.asker import Asker
from prover_cli.judges.base import GroupView, TrajectoryView
from prover_cli.judges.instructions import Instructions
from prover_cli.judges.parse import Fault
from prover_cli.judges.quote import mark, record
from prover_cli.judges.shown import task_record, texts_of, turn_lines
from prover_cli.judges.spending import OverBudget
from prover_cli.judges.talk import Talk, Tally, Unrepaired

KINDS = ("turns", "roles", "first_error", "contribution")
AROUND = 5
"""Turns before and after one whose role is asked for."""
_GOOD = ("good", "bad", None)
_ROLES = ("D", "E", "N", "R", None)
Read = Callable[[dict[str, Any]], Any]


def parse_kinds(given: Sequence[str]) -> tuple[str, ...]:
    """Kinds from flags, separated by commas or repeated; raises `UsageError` for an unknown one."""
    words = [word.strip().replace("-", "_") for item in given for word in item.split(",")]
    for word in words:
        if word not in KINDS:
            known = ", ".join(kind.replace("_", "-") for kind in KINDS)
            raise UsageError(f"--labels knows {known}, not {word!r}")
    return tuple(kind for kind in KINDS if kind in words)


@dataclass(frozen=True)
class Question:
    """What is asked about turns `[first, last)` of a run."""

    first: int
    last: int
    ask: str
    read: Read
    schema: str


@dataclass
class Labels:
    """What was found about a group, as it stands in `labels_json`."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: dict[str, dict[str, str]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    def as_json(self) -> dict[str, Any]:
        left_out = {"label_faults": self.faults} if self.faults else {}
        return {**self.found, **left_out, "label_replies": len(self.tally.replies)}


@dataclass(frozen=True)
class Labeller:
    """Labels every trajectory of a group that has an outcome and turns."""

    asker: Asker
    kinds: tuple[str, ...]
    seed: int
    max_repairs: int

    async def label(self, group: GroupView) -> Labels:
        """Raises `EngineDeadError` when the model is gone."""
        labels = Labels({kind: {} for kind in self.kinds})
        word = mark(texts_of(group), group.group_id, self.seed)
        async with asyncio.TaskGroup() as tasks:
            asked = [
                (kind, run, tasks.create_task(self._of_run(kind, group, run, word)))
                for kind in self.kinds
                for run in sorted(group.trajectories, key=lambda run: run.sample)
                if run.scored and run.turns and (run.success or kind != "contribution")
            ]
        for kind, run, task in asked:
            label, fault, tally = task.result()
            labels.tally.add(tally)
            if fault is None:
                labels.found[kind][run.traj_id] = label
            else:
                labels.faults.setdefault(kind, {})[run.traj_id] = fault
        return labels

    async def _of_run(
        self, kind: str, group: GroupView, run: TrajectoryView, word: str
    ) -> tuple[Any, str | None, Tally]:
        """The label of a run, or why there is none, and what it took."""
        tally, answers = Tally(), []
        for question in questions(kind, run, self.asker.source.tight):
            talk = self._talk(kind, group, run, question, word)
            try:
                answer, _ = await talk.until_valid(question.read, question.schema)
            except (Unrepaired, RequestFailed, OverBudget) as error:
                return None, str(error), tally
            finally:
                tally.add(talk.tally)
            answers.append(answer)
        return (answers if kind in ("roles", "contribution") else answers[0]), None, tally

    def _talk(
        self, kind: str, group: GroupView, run: TrajectoryView, question: Question, word: str
    ) -> Talk:
        system = Message("system", Instructions.to_label(kind))
        title = "run;" if kind in ("roles", "contribution") else f"run, {_outcome(run)};"

        def opening(limit: int) -> list[Message]:
            part = run.turns[question.first : question.last]
            lines = [line for turn in part for line in turn_lines(turn, limit)]
            parts = [task_record(group, limit, word), record(title, lines, word), question.ask]
            return [system, Message("user", "\n\n".join(parts))]

        return Talk(
            self.asker,
            opening,
            max_repairs=self.max_repairs,
            seed_parts=("labels", kind, self.seed, run.traj_id, question.last),
        )


def questions(kind: str, run: TrajectoryView, tight: bool = False) -> list[Question]:
    """All that is asked about a run for a kind of labels, in order of turns."""
    n = len(run.turns)
    if kind == "turns":
        items: dict[str, Any] = {"type": ["string", "null"], "enum": list(_GOOD)}
        counts = {"minItems": n, "maxItems": n} if tight else {}
        schema = _schema(labels={"type": "array", "items": items, **counts})
        ask = f"The run has {n} turns, 0 to {n - 1}. Label all of them."
        return [Question(0, n, ask, lambda value: _read_turns(value, n), schema)]
    if kind == "first_error":
        schema = _schema(first_error={"type": ["integer", "null"]})
        if tight:
            schema = _schema(first_error={"enum": [*range(n), None]})
        ask = f"The run has {n} turns, 0 to {n - 1}. Which is the first wrong one?"
        return [Question(0, n, ask, lambda value: _read_first(value, n), schema)]
    if kind == "roles":
        schema = _schema(role={"type": ["string", "null"], "enum": list(_ROLES)})
        return [
            Question(
                max(turn - AROUND, 0),
                min(turn + AROUND + 1, n),
                f"Which role has turn {turn}?",
                _read_role,
                schema,
            )
            for turn in range(n)
        ]
    utility = {"enum": [i / 10 for i in range(11)]} if tight else {"type": "number"}
    schema = _schema(utility=utility, validity={"type": "integer", "enum": [0, 1]})
    ask = "Judge turn {} only."
    return [
        Question(0, turn + 1, ask.format(turn), _read_contribution, schema) for turn in range(n - 1)
    ]


def _read_turns(value: dict[str, Any], n: int) -> list[str | None]:
    labels = value.get("labels")
    if not isinstance(labels, list):
        raise Fault('the object needs a list "labels"')
    for turn, label in enumerate(labels):
        if not (label is None or isinstance(label, str)) or label not in _GOOD:
            raise Fault(f'label {turn} is {canonical_json(label)}, not "good", "bad" or null')
    if len(labels) != n:
        raise Fault(f"there are {len(labels)} labels for {n} turns")
    return labels


def _read_first(value: dict[str, Any], n: int) -> int | None:
    if "first_error" not in value:
        raise Fault('the object has no key "first_error"')
    turn = value["first_error"]
    if turn is None:
        return None
    if not isinstance(turn, int) or isinstance(turn, bool) or not 0 <= turn < n:
        raise Fault(f"first_error is {canonical_json(turn)}, not a turn from 0 to {n - 1} or null")
    return turn


def _read_role(value: dict[str, Any]) -> str | None:
    if "role" not in value:
        raise Fault('the object has no key "role"')
    role = value["role"]
    if not (role is None or isinstance(role, str)) or role not in _ROLES:
        raise Fault(f'role is {canonical_json(role)}, not "D", "E", "N", "R" or null')
    return role


def _read_contribution(value: dict[str, Any]) -> dict[str, float | int]:
    utility, validity = value.get("utility"), value.get("validity")
    number = isinstance(utility, int | float) and not isinstance(utility, bool)
    if not number or not 0 <= float(utility or 0) <= 1:
        raise Fault(f"utility is {canonical_json(utility)}, not a number from 0 to 1")
    if isinstance(validity, bool) or not isinstance(validity, int) or validity not in (0, 1):
        raise Fault(f"validity is {canonical_json(validity)}, not 0 or 1")
    return {"utility": float(utility or 0), "validity": validity}


def _schema(**properties: Any) -> str:
    return json.dumps(
        {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    )


def _outcome(run: TrajectoryView) -> str:
    return "succeeded" if run.success else f"failed ({run.stop_reason})"
