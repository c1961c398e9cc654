"""A group as a judge is shown it: short ids, an order drawn by seed, and texts as data."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prover_cli.ids import derive_seed
from prover_cli.judges.base import GroupView, TrajectoryView, TurnView
from prover_cli.judges.quote import mark, quoted, record

REFUSED = " [malformed or refused]"
_LEAST_ACTION = 24
_MOST_ACTION = 160
_MOST_INSTRUCTION = 4000


@dataclass(frozen=True)
class Shown:
    """The successes that a segment may be of, and the failed runs, under the ids S1, F1 and so on.

    The order of the failed runs is drawn by seed and group, so that no position is favoured.
    """

    group: GroupView
    successes: Mapping[str, TrajectoryView]
    failures: Mapping[str, TrajectoryView]
    mark: str

    @classmethod
    def of(cls, group: GroupView, chosen: Sequence[TrajectoryView], seed: int) -> Shown:
        failed = sorted(group.failures, key=lambda run: run.sample)
        random.Random(derive_seed("judge-order", seed, group.group_id)).shuffle(failed)
        return cls(
            group,
            {f"S{i}": run for i, run in enumerate(chosen, start=1)},
            {f"F{i}": run for i, run in enumerate(failed, start=1)},
            mark(texts_of(group), group.group_id, seed),
        )

    @property
    def runs(self) -> Mapping[str, TrajectoryView]:
        return {**self.successes, **self.failures}

    def across(self, short: str) -> Mapping[str, TrajectoryView]:
        """The runs of the other outcome."""
        return self.failures if short in self.successes else self.successes

    def opening(self, limit: int) -> str:
        """Task, successes in full and previews of the failed runs.

        No turn is ever left out; of observations and replies at most `limit` characters are shown.
        """
        word = self.mark
        parts = [task_record(self.group, limit, word)]
        for short, run in self.successes.items():
            lines = [line for turn in run.turns for line in turn_lines(turn, limit)]
            title = f"{short}, succeeded, {len(run.turns)} turns; {_allowed(run)};"
            parts.append(record(title, lines, word))
        for short, run in self.failures.items():
            title = f"{short}, failed ({run.stop_reason}), {len(run.turns)} turns, actions only;"
            parts.append(record(title, self._preview(run, limit), word))
        return "\n\n".join(parts)

    def _preview(self, run: TrajectoryView, limit: int) -> Iterator[str]:
        known = {
            turn.state_key: f" (same state as {short} turn {turn.turn})"
            for short, success in reversed(list(self.successes.items()))
            for turn in reversed(success.turns)
        }
        for turn in run.turns:
            yield f"turn {turn.turn} did {action(turn, limit)}{known.get(turn.state_key, '')}"
        if run.turns:
            yield f"last page seen: {quoted(run.turns[-1].observation, min(limit, 300))}"


def task_record(group: GroupView, limit: int, word: str) -> str:
    """The instruction."""
    most = min(max(4 * limit, 400), _MOST_INSTRUCTION)
    return record("task", [quoted(group.instruction, most)], word)


def turn_lines(turn: TurnView, limit: int) -> Iterator[str]:
    """What was seen, said and done at a turn, each on one line."""
    yield f"turn {turn.turn} saw {quoted(turn.observation, limit)}"
    if turn.action_text.strip() != turn.action.strip():
        yield f"turn {turn.turn} said {quoted(turn.action_text, limit)}"
    yield f"turn {turn.turn} did {action(turn, limit)}"


def action(turn: TurnView, limit: int) -> str:
    """An action, short, and whether it was one at all."""
    most = min(max(limit, _LEAST_ACTION), _MOST_ACTION)
    return quoted(turn.action, most) + ("" if turn.action_valid else REFUSED)


def texts_of(group: GroupView) -> Iterator[str]:
    """Every text of a group that others wrote."""
    yield group.instruction
    for run in group.trajectories:
        for turn in run.turns:
            yield from (turn.observation, turn.action_text, turn.action)


def _allowed(run: TrajectoryView) -> str:
    """The turns that may be part of a segment, as ranges."""
    last = len(run.turns) - 1
    numbers = [turn.turn for turn in run.turns[:last] if turn.action_valid]
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    named = [str(a) if a == b else f"{a} to {b}" for a, b in ranges]
    return f"turns that may be in a segment: {', '.join(named)}"
