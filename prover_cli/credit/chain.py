"""The value of a group's states from all that was observed in the group, not from counts alone.

Recorded trajectories and continuations together make a Markov chain: a turn leads from the state
before it to that before the next one, and the last turn to success or failure. A state's *chain
value* is the chance of success in that chain within the turns that are left. Episodes that meet in
a state lend each other what came of it, so a continuation says something about every state that it
passes, and every recorded sibling about every state that it shares. It is what temporal-difference
learning converges to on fixed data (certainty equivalence; Sutton and Barto 2018, section 6.3),
with `PRIOR_TURNS` turns at every state that succeed with the group's success share.

A turn that the limit cut off leads nowhere that is known and is no turn of the chain. The policy
may see more than the state, and a known success leads through the very state that is asked about:
chain values are to be calibrated (`calibration`), not to be believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PRIOR_TURNS = 0.2
"""Turns with the group's success share that are added to those of each state."""
NOTHING = -1
"""The episode to leave out, where none is."""
_SUCCESS, _FAILURE = -1, -2


@dataclass(frozen=True)
class Episode:
    """The states before each turn, in order, and how it ended."""

    states: Sequence[str]
    success: bool
    cut: bool = False
    """It was ended by the limit of turns."""


@dataclass(frozen=True)
class Question:
    """A state, the turns that are left there, and the episode that is to be left out."""

    state: str
    turns_left: int
    without: int = NOTHING


def chain_values(
    episodes: Sequence[Episode], share: float, questions: Sequence[Question]
) -> NDArray[np.float64]:
    """The chain value of every question; `share` is the success share of the group."""
    number: dict[str, int] = {}
    for episode in episodes:
        for state in episode.states:
            number.setdefault(state, len(number))
    source, target, owner = _turns(episodes, number)
    left_out = sorted({q.without for q in questions})
    copy = {episode: i for i, episode in enumerate(left_out)}
    kept = owner[None, :] != np.array(left_out, dtype=np.int64)[:, None]
    # One more state, which nobody visits, stands for states that are not in the chain.
    n = len(number) + 1
    size = len(left_out) * n
    flat = (np.arange(len(left_out))[:, None] * n + source[None, :])[kept]
    visits = np.bincount(flat, minlength=size).reshape(-1, n) + PRIOR_TURNS
    asked = [(copy[q.without], number.get(q.state, n - 1)) for q in questions]
    found = np.zeros(len(questions))
    value: NDArray[np.float64] = np.zeros((len(left_out), n))
    for turns_left in range(1, max((q.turns_left for q in questions), default=0) + 1):
        ahead = np.where(target >= 0, value[:, target], target == _SUCCESS)[kept]
        won = np.bincount(flat, ahead, size).reshape(-1, n).astype(np.float64)
        value = (won + PRIOR_TURNS * share) / visits
        for i, question in enumerate(questions):
            if question.turns_left == turns_left:
                found[i] = value[asked[i]]
    return found


def _turns(
    episodes: Sequence[Episode], number: dict[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of every turn of the chain: the state before it, what it leads to, and its episode."""
    rows = [
        (number[state], after, i)
        for i, episode in enumerate(episodes)
        for state, after in zip(episode.states, _leads_to(episode, number), strict=False)
    ]
    source, target, owner = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return source, target, owner


def _leads_to(episode: Episode, number: dict[str, int]) -> list[int]:
    """Where each turn leads; the last one is missing where the limit cut it off."""
    following = [number[state] for state in episode.states[1:]]
    if episode.success:
        return [*following, _SUCCESS]
    return following if episode.cut else [*following, _FAILURE]
