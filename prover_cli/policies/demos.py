"""Demonstrations of any environment in the compact prompt style, by an expert that errs.

An expert that is always right would leave a policy that copied it nothing to learn. How one errs is
said in the module of its environment. Demonstrations are played in worlds of their own: no task of
the environment's splits is ever shown.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from prover_cli.envs.base import Environment, Message, Observation, PastTurn, Session, Task

STYLE = "compact"
"""The prompt style that starting policies read."""
UNTAUGHT = "untaught"
"""Kind of a decision that rests on what the expert was not shown; a copy of it could only guess."""
FIRST_SEED = 1000
"""Seed of the first world; the environments' own are small."""


@dataclass(frozen=True, slots=True)
class Demo:
    """One turn: what the policy is shown, what it should reply, and the kind of decision."""

    messages: tuple[Message, ...]
    reply: str
    kind: str


@dataclass(frozen=True, slots=True)
class Choice:
    """An action and the kind of decision it is; kinds are trained in fixed proportions."""

    action: str
    kind: str


class Player(Protocol):
    """Plays one episode, with the errors of that episode."""

    def choose(self, session: Any) -> Choice: ...


class Demonstrations(Protocol):
    """What an environment's module has to say. Its dataclass fields are the chances of errors."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def world(self, seed: int) -> Environment: ...

    def player(self, environment: Any, task: Task, generator: random.Random) -> Player: ...

    def reply(self, action: str, observation: Observation) -> str:
        """An action as a policy of the compact style should write it."""
        ...


def play(source: Demonstrations, n_worlds: int, seed: int) -> Iterator[Demo]:
    """Demonstrations of every task of `n_worlds` worlds."""
    for number in range(n_worlds):
        environment = source.world(FIRST_SEED + number)
        for task in environment.tasks("all"):
            generator = random.Random(f"{seed}/{task.task_id}")
            player = source.player(environment, task, generator)
            yield from episode(source, player, environment, task)


def episode(
    source: Demonstrations, player: Player, environment: Environment, task: Task
) -> Iterator[Demo]:
    """One episode, turn by turn, less what is untaught; the action taken is the one that the reply
    is read as."""
    session: Session = environment.start(task, 0)
    style = environment.prompts[STYLE]
    assert style.history, "the style quotes the last turns"
    past: list[PastTurn] = []
    for _ in range(environment.max_turns):
        observation = session.observe()
        choice = player.choose(session)
        reply = source.reply(choice.action, observation)
        shown = style.window(task, past[-style.history :], observation)
        if choice.kind != UNTAUGHT:
            yield Demo(tuple(shown), reply, choice.kind)
        action = style.parse(reply, observation).action
        past.append(PastTurn(observation.text, reply, action))
        if session.step(action).done:
            return
