"""Environments that tests load as `module:callable`."""

from __future__ import annotations

import random
from dataclasses import replace
from types import MappingProxyType

from prover_cli.envs.base import Message, Observation, ParsedAction, StepResult, Task
from prover_cli.envs.panel import make_task
from prover_cli.envs.toy import PlainStyle, ToyEnvironment, ToySession
from prover_cli.errors import EnvironmentFault


class DiceStyle(PlainStyle):
    """Any reply is an action: its letters are summed up and choose an admissible one."""

    name = "dice"
    max_new_tokens = 3

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", f"{task.index} {observation.text[11:20]}")]

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", observation.text[11:20])]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        offered = observation.admissible or ("",)
        return ParsedAction(offered[sum(map(ord, reply)) % len(offered)], True)


class DiceVault(ToyEnvironment):
    """A vault that a model without any training plays at random."""

    name = "dice"
    default_prompt = "dice"
    prompts: MappingProxyType[str, PlainStyle] = MappingProxyType({"dice": DiceStyle()})


class FaultySession(ToySession):
    """Breaks at its first step where its seed is odd."""

    def step(self, action: str) -> StepResult:
        if self._state.seed % 2:
            raise EnvironmentFault("the server behind the vault is gone")
        return super().step(action)


class FaultyVault(ToyEnvironment):
    """A vault whose infrastructure fails in about half of the episodes."""

    def start(self, task: Task, seed: int) -> ToySession:
        plain = super().start(task, seed)
        return FaultySession(
            plain._rooms, plain._key_room, plain._colour, plain._slip, plain._state
        )


class PricedSession(ToySession):
    """Shows a price on every page."""

    price = 0

    def observe(self) -> Observation:
        page = super().observe()
        return replace(page, text=f"{page.text} Price: {self.price}.")


class DriftingVault(ToyEnvironment):
    """Draws a price when it is built; without a `seed`, another one in every process.

    `drift` says where it shows: in what is asked (`task`) or in what is seen (`page`).
    """

    def __init__(self, *, seed: int | None = None, drift: str = "task", rooms: int = 2) -> None:
        super().__init__(rooms=rooms)
        if seed is not None:
            random.seed(seed)
        self._price, self._drift = random.randrange(10**9), drift

    def _task(self, index: int, split: str) -> Task:
        plain = super()._task(index, split)
        if self._drift == "page":
            return plain
        text = f"{plain.instruction} Pay at most {self._price}."
        return make_task(self.name, split, index, text, plain.payload, self.fingerprint)

    def start(self, task: Task, seed: int) -> ToySession:
        plain = super().start(task, seed)
        if self._drift == "task":
            return plain
        session = PricedSession(
            plain._rooms, plain._key_room, plain._colour, plain._slip, plain._state
        )
        session.price = self._price
        return session
