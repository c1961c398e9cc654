"""Training sequences and their masks, from which list each id came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """The token columns of one row of the turns table, with the turn's weight."""

    context_reset: bool
    prompt_ids: Sequence[int]
    action_ids: Sequence[int]
    logprobs: Sequence[float]
    advantages: Sequence[float] | None
    """One per action id; None for a turn that is context only."""


@dataclass(slots=True)
class TrainingSequence:
    """One run of turns up to the next context reset; all lists have one entry per id.

    `mask` is True exactly for ids the policy sampled in turns that have advantages; `logprobs` (of
    the engine) and `advantages` are zero elsewhere.
    """

    ids: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)

    def append(self, turn: TurnTokens) -> None:
        n_prompt, n_action = len(turn.prompt_ids), len(turn.action_ids)
        advantages = [0.0] * n_action if turn.advantages is None else list(turn.advantages)
        if len(turn.logprobs) != n_action or len(advantages) != n_action:
            raise ValueError(
                f"a turn has {n_action} action ids but {len(turn.logprobs)} log-probs "
                f"and {len(advantages)} advantages"
            )
        trained = turn.advantages is not None
        self.ids += [*turn.prompt_ids, *turn.action_ids]
        self.mask += [False] * n_prompt + [trained] * n_action
        self.logprobs += [0.0] * n_prompt + (list(turn.logprobs) if trained else [0.0] * n_action)
        self.advantages += [0.0] * n_prompt + advantages

    @property
    def n_policy(self) -> int:
        return sum(self.mask)


def sequences(turns: Iterable[TurnTokens]) -> Iterator[TrainingSequence]:
    """Cut one trajectory's turns, in order, into training sequences."""
    current: TrainingSequence | None = None
    for turn in turns:
        if turn.context_reset or current is None:
            if current is not None:
                yield current
            current = TrainingSequence()
        current.append(turn)
    if current is not None:
        yield current
