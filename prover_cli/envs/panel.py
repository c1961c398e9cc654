"""Panels: ordered, hashed lists of tasks."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prover_cli.envs.base import Task
from prover_cli.ids import digest

SPLITS = ("train", "valid", "test", "all")


def make_task(
    env: str,
    split: str,
    index: int,
    instruction: str,
    payload: Mapping[str, Any],
    fingerprint: str,
) -> Task:
    """A task whose id is the hash of what the agent is asked, how it is scored, and the assets."""
    task_id = digest([env, instruction, payload, fingerprint])
    return Task(task_id, env, split, index, instruction, payload)


@dataclass(frozen=True)
class Panel(Sequence[Task]):
    """An ordered list of tasks with a hash of its content and order."""

    items: tuple[Task, ...]
    note: str | None = None
    """A fact about the split that a report should repeat, such as how it was cut."""

    @property
    def panel_hash(self) -> str:
        return digest([task.task_id for task in self.items])

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[Task]:
        return iter(self.items)

    def head(self, n: int | None) -> Panel:
        """The first `n` tasks (all when None): the same tasks in every run, for evaluation."""
        return self if n is None else Panel(self.items[:n], self.note)

    def draw(self, n: int | None, seed: int) -> Panel:
        """`n` distinct tasks in seeded random order (all when None), for training."""
        order = random.Random(seed).sample(self.items, len(self.items))
        return Panel(tuple(order[:n]), self.note)
