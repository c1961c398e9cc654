"""Panels: ordered, hashed lists of tasks."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
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


class LazyTasks(Sequence[Task]):
    """Tasks that are made when they are asked for, so that a split of millions opens at once."""

    def __init__(self, indices: Sequence[int], make: Callable[[int], Task]) -> None:
        self._indices, self._make = indices, make

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: Any) -> Any:
        chosen = self._indices[index]
        return LazyTasks(chosen, self._make) if isinstance(index, slice) else self._make(chosen)


@dataclass(frozen=True)
class Panel(Sequence[Task]):
    """An ordered list of tasks with a hash of its content and order."""

    items: Sequence[Task]
    note: str | None = None
    """A fact about the split that a report should repeat, such as how it was cut."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """How many rows of the data are no tasks, by reason."""

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
        return self if n is None else replace(self, items=self.items[:n])

    def draw(self, n: int | None, seed: int, without: Collection[str] = ()) -> Panel:
        """`n` distinct tasks in seeded random order (all when None), for training.

        Tasks whose ids are in `without` are passed over; the order of the others stays. There may
        be fewer than `n`.
        """
        order = random.Random(seed).sample(range(len(self)), len(self))
        allowed = (task for i in order if (task := self.items[i]).task_id not in without)
        return replace(self, items=tuple(islice(allowed, n)))
