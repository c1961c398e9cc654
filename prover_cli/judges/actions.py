"""What a judge may answer: one JSON object, a call of a tool or an end of the work.

The same objects serve every model. `schema` describes them for those that can be held to a JSON
schema, `Rules.read` checks them for all. Numbers are JSON integers; a segment is half-open, with
the same names as everywhere else; nothing is clamped or corrected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prover_cli.judges.base import TrajectoryView
from prover_cli.judges.parse import Fault
from prover_cli.judges.segments import valid_segments

MOST_FOUND = 10
"""Turns that one search may give."""
MOST_SHOWN = 10
"""Turns that one `get_segment` may give."""
_WINDOW = 5
"""Turns that a tight schema lets a model ask for at once; all ranges would be too many to list."""
Text = Annotated[str, Field(min_length=1)]


class _Action(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    tool: ClassVar[str]


class Search(_Action):
    tool: ClassVar[str] = "search_trajectory"
    query: Text
    k: Annotated[int, Field(ge=1, le=MOST_FOUND)]


class GetSegment(_Action):
    tool: ClassVar[str] = "get_segment"
    traj_id: str
    start_turn: int
    end_turn: int


class Compare(_Action):
    tool: ClassVar[str] = "compare"
    traj_id: str
    turn: int


class Submit(_Action):
    tool: ClassVar[str] = "submit"
    traj_id: str | None = None
    """Of a success; needed where several are shown."""
    start_turn: int
    end_turn: int
    failure_mode: Text
    rationale: Text
    confidence: Annotated[float, Field(ge=0, le=1)]


class Abstain(_Action):
    tool: ClassVar[str] = "abstain"
    reason: Text


Action = Search | GetSegment | Compare | Submit | Abstain
_TOOLS: Mapping[str, type[Action]] = {
    kind.tool: kind for kind in (Search, GetSegment, Compare, Submit, Abstain)
}
ENDS = (Submit.tool, Abstain.tool)


@dataclass(frozen=True)
class Rules:
    """What is allowed in one group. Runs are known by the short ids they are shown under."""

    successes: Mapping[str, TrajectoryView]
    failures: Mapping[str, TrajectoryView]
    max_segment: int

    def read(self, value: Mapping[str, Any], may_call: bool = True) -> Action:
        """The action that an object stands for; `Fault` for anything that is not allowed.

        Keys that the action does not have are ignored. `may_call` says whether tools are left.
        """
        action = _action(value)
        if not may_call and action.tool not in ENDS:
            raise Fault(f"there are no tool calls left: {' or '.join(ENDS)} now")
        if isinstance(action, GetSegment):
            self._check_range(action)
        elif isinstance(action, Compare):
            n = len(self._run(action.traj_id).turns)
            if not 0 <= action.turn < n:
                raise Fault(f"turn {action.turn} does not exist: {_has(action.traj_id, n)}")
        elif isinstance(action, Submit):
            self._check_segment(action)
        return action

    def chosen(self, action: Submit) -> str:
        """The short id of the run that a segment belongs to."""
        return action.traj_id if action.traj_id is not None else next(iter(self.successes))

    def _run(self, short: str) -> TrajectoryView:
        runs = {**self.successes, **self.failures}
        if short not in runs:
            raise Fault(f"there is no run {json.dumps(short)}; runs: {', '.join(runs)}")
        return runs[short]

    def _check_range(self, asked: GetSegment) -> None:
        n = len(self._run(asked.traj_id).turns)
        _check_order(asked.start_turn, asked.end_turn)
        if asked.start_turn < 0 or asked.end_turn > n:
            raise Fault(
                f"turns {asked.start_turn} to {asked.end_turn - 1} do not all exist: "
                f"{_has(asked.traj_id, n)}, so end_turn is at most {n}"
            )
        if asked.end_turn - asked.start_turn > MOST_SHOWN:
            raise Fault(f"at most {MOST_SHOWN} turns are shown at once")

    def _check_segment(self, chosen: Submit) -> None:
        if chosen.traj_id is None and len(self.successes) > 1:
            raise Fault(f"which run? traj_id is one of {', '.join(self.successes)}")
        short = self.chosen(chosen)
        run = self._run(short)
        if short not in self.successes:
            shown = ", ".join(self.successes)
            raise Fault(f"{short} failed; a segment belongs to a successful run: {shown}")
        start, end, last = chosen.start_turn, chosen.end_turn, len(run.turns) - 1
        _check_order(start, end)
        if start < 0 or end > last + 1:
            raise Fault(f"turns {start} to {end - 1} do not all exist: {_has(short, last + 1)}")
        if end > last:
            raise Fault(
                f"turn {last} is the last of {short} and in no segment: end_turn is at most {last}"
            )
        if end - start > self.max_segment:
            raise Fault(
                f"start_turn {start} to end_turn {end} are {end - start} turns; a segment has at "
                f"most {self.max_segment}"
            )
        if (start, end) not in valid_segments(run, self.max_segment):
            bad = next(t.turn for t in run.turns[start:end] if not t.action_valid)
            raise Fault(f"the action of turn {bad} was malformed or refused: it is in no segment")


def _action(value: Mapping[str, Any]) -> Action:
    name = value.get("tool")
    if "tool" not in value:
        raise Fault(f'the object has no key "tool"; it is one of {", ".join(_TOOLS)}')
    if not isinstance(name, str) or name not in _TOOLS:
        raise Fault(f"there is no tool {_short(name)}; it is one of {', '.join(_TOOLS)}")
    given = {key: item for key, item in value.items() if item is not None}
    try:
        return _TOOLS[name].model_validate(given)
    except ValidationError as error:
        raise Fault(f"{name}: {'; '.join(map(_said, error.errors()[:3]))}") from None


def _said(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"{where} is missing"
    return f"{where} is {_short(error['input'])}: {error['msg'].lower()}"


def _check_order(start: int, end: int) -> None:
    if start >= end:
        raise Fault(
            f"start_turn {start} and end_turn {end} hold no turn: end_turn is the first turn after "
            f"the range, so turn {start} alone is start_turn {start}, end_turn {start + 1}"
        )


def _has(short: str, n: int) -> str:
    return f"{short} has turns 0 to {n - 1}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."


def schema(rules: Rules, *, tight: bool, may_call: bool) -> str:
    """A JSON schema of the actions that are allowed now.

    A tight one names the group's runs and turns, so that whatever satisfies it is valid. The other
    is the same for all groups, as servers want it that prepare each schema once: one object with
    every key, null where the tool has none. Keys keep their order, in which they are written.
    """
    return json.dumps(_tight(rules, may_call) if tight else _loose(may_call))


def _loose(may_call: bool) -> dict[str, Any]:
    tools = list(_TOOLS) if may_call else list(ENDS)
    integers = ("k", "turn") if may_call else ()
    texts = ("query",) if may_call else ()
    properties: dict[str, Any] = {
        "thought": {"type": "string"},
        "tool": {"type": "string", "enum": tools},
        **{name: {"type": ["string", "null"]} for name in texts},
        **{name: {"type": ["integer", "null"]} for name in integers},
        "traj_id": {"type": ["string", "null"]},
        "start_turn": {"type": ["integer", "null"]},
        "end_turn": {"type": ["integer", "null"]},
        "failure_mode": {"type": ["string", "null"]},
        "rationale": {"type": ["string", "null"]},
        "confidence": {"type": ["number", "null"]},
        "reason": {"type": ["string", "null"]},
    }
    return _object(properties)


def _tight(rules: Rules, may_call: bool) -> dict[str, Any]:
    runs = {**rules.successes, **rules.failures}
    found: list[dict[str, Any]] = []
    if may_call:
        found.append(_call(Search, query=_text(80), k=_among(range(1, 6))))
        for short, run in runs.items():
            n = len(run.turns)
            if n == 0:
                continue
            found.append(_call(Compare, traj_id=_among([short]), turn=_among(range(n))))
            found += [
                _call(
                    GetSegment,
                    traj_id=_among([short]),
                    start_turn=_among([start]),
                    end_turn=_among([min(start + _WINDOW, n)]),
                )
                for start in range(0, n, _WINDOW)
            ]
    for short, run in rules.successes.items():
        ends: dict[int, list[int]] = {}
        for start, end in valid_segments(run, rules.max_segment):
            ends.setdefault(start, []).append(end)
        found += [
            _call(
                Submit,
                traj_id=_among([short]),
                start_turn=_among([start]),
                end_turn=_among(possible),
                failure_mode=_text(200),
                rationale=_text(200),
                confidence=_among([i / 10 for i in range(11)]),
            )
            for start, possible in ends.items()
        ]
    return {"anyOf": [*found, _call(Abstain, reason=_text(200))]}


def _call(kind: type[Action], **arguments: Any) -> dict[str, Any]:
    thought = _text(200, least=0)
    return _object({"thought": thought, "tool": _among([kind.tool]), **arguments})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _among(values: Any) -> dict[str, Any]:
    return {"enum": list(values)}


def _text(most: int, least: int = 1) -> dict[str, Any]:
    return {"type": "string", "minLength": least, "maxLength": most}
