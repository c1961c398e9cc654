"""What a turn is scored in: its recorded context, or one that also shows a successful sibling.

The published methods do not say how the sibling is shown; this is our choice. The sibling is the
shortest other success of the group (the smaller sample of equal ones). Its observations and actions
stand in one user message before everything else:

    Another attempt at this task succeeded. It went like this:

    Observation: <what it saw>
    Action: <what it did>
    ...

The recorded ids follow as they were sampled. Observations are cut to 400, 200, 100, 50 or 0
characters, the most that the context has room for. Turns that even the last does not fit in have no
hindsight. Turns of the sibling without an action are not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import polars as pl

from prover_cli.envs.base import Message
from prover_cli.tokens.mask import TrainingSequence, TurnTokens, sequences
from prover_cli.tokens.render import ChatRenderer

CUTS = (400, 200, 100, 50, 0)
"""Characters of an observation that are shown."""
OPENING = "Another attempt at this task succeeded. It went like this:"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Scored:
    """A sequence to score and the numbers of its turns among the shard's rows, in order."""

    sequence: TrainingSequence
    rows: Sequence[int]
    shown: str | None = None
    """The sibling in front of it."""


def recorded(turns: Sequence[Row]) -> list[Scored]:
    """The sequences of a shard's turns, which are sorted by trajectory and turn."""
    found: list[Scored] = []
    for start, end in _trajectories(turns):
        cuts = [i for i in range(start, end) if i == start or turns[i]["context_reset"]]
        parts = sequences(_tokens(row) for row in turns[start:end])
        for first, last, part in zip(cuts, [*cuts[1:], end], parts, strict=True):
            found.append(Scored(part, range(first, last)))
    return [one for one in found if one.sequence.n_policy]


def with_sibling(
    own: Sequence[Scored],
    turns: Sequence[Row],
    trajectories: pl.DataFrame,
    renderer: ChatRenderer,
    longest: int | None,
) -> list[Scored]:
    """The same sequences behind the sibling they are shown; those without one are left out."""
    siblings = shown_siblings(trajectories)
    shows = _Shows(turns, renderer)
    found = []
    for one in own:
        sibling = siblings.get(turns[one.rows[0]]["traj_id"])
        if sibling is not None and (made := shows.before(one, sibling, longest)) is not None:
            found.append(made)
    return found


def shown_siblings(trajectories: pl.DataFrame) -> dict[str, str]:
    """The sibling that each trajectory is shown: the shortest success of its group but itself."""
    won = trajectories.filter(pl.col("success")).sort("group_id", "n_turns", "sample")
    best: dict[str, list[str]] = {}
    for group_id, traj_id in won.select("group_id", "traj_id").iter_rows():
        best.setdefault(group_id, []).append(traj_id)
    pairs = trajectories.select("traj_id", "group_id").iter_rows()
    return {
        traj_id: next(other for other in others if other != traj_id)
        for traj_id, group_id in pairs
        if set(others := best.get(group_id, [])) - {traj_id}
    }


def demonstration(turns: Sequence[Row], cut: int) -> str:
    """The text that shows a trajectory, its observations cut to `cut` characters."""
    lines = [OPENING, ""]
    for row in turns:
        if row["action"]:
            if seen := row["observation"][:cut].strip():
                lines.append(f"Observation: {seen}")
            lines.append(f"Action: {row['action']}")
    return "\n".join(lines)


class _Shows:
    """The demonstrations of a shard's trajectories, as ids."""

    def __init__(self, turns: Sequence[Row], renderer: ChatRenderer) -> None:
        self._turns = turns
        self._renderer = renderer
        self._spans = {turns[start]["traj_id"]: (start, end) for start, end in _trajectories(turns)}
        self._ids: dict[tuple[str, int], list[int]] = {}

    def before(self, one: Scored, sibling: str, longest: int | None) -> Scored | None:
        """The sequence behind the sibling; None where not even its first turn has room."""
        bos = self._renderer.bos_id
        for cut in CUTS:
            prefix = self._shown(sibling, cut)
            # A context has one BOS, at its very beginning.
            skip = int(bos is not None and prefix[0] == bos == one.sequence.ids[0])
            room = None if longest is None else longest - len(prefix) + skip
            if room is None or len(one.sequence.ids) <= room:
                return _behind(prefix, skip, one, one.rows, sibling, len(one.sequence.ids))
        assert room is not None
        fitting = one.rows[: self._n_fitting(one.rows, room)]
        n = sum(_length(self._turns[i]) for i in fitting)
        return _behind(prefix, skip, one, fitting, sibling, n) if fitting else None

    def _n_fitting(self, rows: Sequence[int], room: int) -> int:
        """How many of the turns, from the first, have at most `room` ids together."""
        lengths = (_length(self._turns[i]) for i in rows)
        return sum(total <= room for total in accumulate(lengths))

    def _shown(self, sibling: str, cut: int) -> list[int]:
        if (sibling, cut) not in self._ids:
            start, end = self._spans[sibling]
            text = demonstration(self._turns[start:end], cut)
            self._ids[sibling, cut] = self._renderer.told([Message("user", text)])
        return self._ids[sibling, cut]


def _behind(
    prefix: Sequence[int], skip: int, one: Scored, rows: Sequence[int], sibling: str, n: int
) -> Scored:
    """The first `n` ids of a sequence without its first `skip`, behind a prefix."""
    own, before = one.sequence, len(prefix)
    moved = TrainingSequence(
        [*prefix, *own.ids[skip:n]],
        [False] * before + own.mask[skip:n],
        [0.0] * before + own.logprobs[skip:n],
        [0.0] * before + own.advantages[skip:n],
    )
    return Scored(moved, rows, sibling)


def _trajectories(turns: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """First row and one past the last of each trajectory."""
    starts = [
        i for i, row in enumerate(turns) if not i or row["traj_id"] != turns[i - 1]["traj_id"]
    ]
    return zip(starts, [*starts[1:], len(turns)], strict=True)


def _length(row: Row) -> int:
    return len(row["prompt_ids"]) + len(row["action_ids"])


def _tokens(row: Row) -> TurnTokens:
    n = len(row["action_ids"])
    return TurnTokens(
        row["context_reset"], row["prompt_ids"], row["action_ids"], row["logprobs"], [0.0] * n
    )
