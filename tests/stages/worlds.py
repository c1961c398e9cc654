"""Environments that tests load as `module:callable`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from prover_cli.envs.base import Message, Observation, ParsedAction, PromptStyle, Task
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
    prompts: Mapping[str, PromptStyle] = MappingProxyType({"dice": DiceStyle()})


class FaultySession(ToySession):
    """Breaks at its first step where its seed is odd."""

    def step(self, action: str) -> Any:
        if self._state.seed % 2:
            raise EnvironmentFault("the server behind the vault is gone")
        return super().step(action)


class FaultyVault(ToyEnvironment):
    """A vault whose infrastructure fails in about half of the episodes."""

    def start(self, task: Task, seed: int) -> ToySession:
        session = super().start(task, seed)
        session.__class__ = FaultySession
        return session


class DriftingVault(ToyEnvironment):
    """Draws a price when it is built; without a `seed`, another one in every process.

    `drift` says where it shows: in what the agent is asked (`task`) or sees (`page`).
    """

    def __init__(self, *, seed: int | None = None, drift: str = "task", **options: Any) -> None:
        super().__init__(**options)
        if seed is not None:
            random.seed(seed)
        self.price, self.drift = random.randrange(10**9), drift

    def _task(self, index: int, split: str) -> Task:
        task = super()._task(index, split)
        if self.drift == "page":
            return task
        text = f"{task.instruction} Pay at most {self.price}."
        return replace(task, instruction=text, task_id=f"{task.task_id}-{self.price}")

    def start(self, task: Task, seed: int) -> ToySession:
        session = super().start(task, seed)
        if self.drift == "page":
            session._colour = f"{session._colour} ({self.price})"
        return session
