"""The tools of the agentic judge. They read the group and nothing else."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from prover_cli.judges.actions import Compare, GetSegment, Search
from prover_cli.judges.base import TrajectoryView, TurnView
from prover_cli.judges.quote import record
from prover_cli.judges.shown import Shown, action, turn_lines

_WORD = re.compile(r"\w+")
_K1, _B = 1.2, 0.75
_LEAST_TEXT, _MOST_TEXT = 40, 4000


class Tools:
    """Answers the calls of one conversation with records of data."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def answer(self, call: Search | GetSegment | Compare, room: int) -> str:
        """The result of a call in about `room` characters; turns are shortened, not left out."""
        if isinstance(call, Search):
            title = f"turns of failed runs, best first ({call.k} at most);"
            turns = self.search(call.query, call.k)
            return record(title, self._found(turns, room), self._shown.mark)
        if isinstance(call, GetSegment):
            run = self._shown.runs[call.traj_id]
            part = run.turns[call.start_turn : call.end_turn]
            limit = _share(room, 2 * len(part))
            title = f"{call.traj_id}, turns {call.start_turn} to {call.end_turn - 1};"
            lines_of = (line for turn in part for line in turn_lines(turn, limit))
            return record(title, lines_of, self._shown.mark)
        title = f"{call.traj_id} turn {call.turn} and the runs of the other outcome;"
        return record(title, self._compared(call), self._shown.mark)

    def search(self, query: str, k: int) -> list[tuple[str, TurnView]]:
        """The turns of failed runs with the highest BM25 scores, in the order shown for equals."""
        words = set(_words(query))
        scored = [
            (self._score(words, counts), number)
            for number, (_, _, counts) in enumerate(self._turns)
        ]
        best = sorted((-score, number) for score, number in scored if score > 0)[:k]
        return [self._turns[number][:2] for _, number in best]

    @cached_property
    def _turns(self) -> list[tuple[str, TurnView, Counter[str]]]:
        return [
            (short, turn, Counter(_words(_all_of(turn))))
            for short, run in self._shown.failures.items()
            for turn in run.turns
        ]

    @cached_property
    def _n_with(self) -> Mapping[str, int]:
        return Counter(word for _, _, counts in self._turns for word in counts)

    @cached_property
    def _mean_length(self) -> float:
        return sum(counts.total() for *_, counts in self._turns) / max(len(self._turns), 1)

    def _score(self, words: set[str], counts: Counter[str]) -> float:
        n, score = len(self._turns), 0.0
        norm = _K1 * (1 - _B + _B * counts.total() / max(self._mean_length, 1.0))
        for word in sorted(words & counts.keys()):
            rare = math.log(1 + (n - self._n_with[word] + 0.5) / (self._n_with[word] + 0.5))
            score += rare * counts[word] * (_K1 + 1) / (counts[word] + norm)
        return score

    def _found(self, turns: list[tuple[str, TurnView]], room: int) -> Iterator[str]:
        limit = _share(room, 2 * len(turns))
        for short, turn in turns:
            yield from (f"{short} {line}" for line in turn_lines(turn, limit))
        if not turns:
            yield "no turn has any of these words"

    def _compared(self, call: Compare) -> Iterator[str]:
        """For each run of the other outcome: whether it was in this state, and what it did."""
        run = self._shown.runs[call.traj_id]
        yield f"{call.traj_id} turn {call.turn} did {action(run.turns[call.turn], _MOST_TEXT)}"
        for short, other in self._shown.across(call.traj_id).items():
            yield f"{short}: {_meeting(run, call.turn, other)}"


def _meeting(run: TrajectoryView, turn: int, other: TrajectoryView) -> str:
    there = _last_in(other, run.turns[turn].state_key)
    if there is not None:
        return f"was in the same state before its turn {there.turn} and did {action(there, 160)}"
    for before in reversed(run.turns[:turn]):
        there = _last_in(other, before.state_key)
        if there is not None:
            return (
                f"never in this state; last in the state before turn {before.turn}, at its turn "
                f"{there.turn}, and did {action(there, 160)}"
            )
    return "never in this state or in one before it"


def _all_of(turn: TurnView) -> str:
    said = turn.action_text
    did = "" if turn.action in said else turn.action
    return f"{turn.observation} {said} {did}"


def _last_in(run: TrajectoryView, state_key: str) -> TurnView | None:
    return next((turn for turn in reversed(run.turns) if turn.state_key == state_key), None)


def _share(room: int, n: int) -> int:
    return min(max(room // max(n, 1), _LEAST_TEXT), _MOST_TEXT)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
