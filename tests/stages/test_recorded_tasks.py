"""The tasks of a rollout are found again, in any order and in splits of any size."""

from __future__ import annotations

import random

import polars as pl

from prover_cli.envs.base import Task
from prover_cli.envs.panel import LazyTasks, Panel
from prover_cli.stages.states import recorded_tasks

N = 1_000_000
CHOSEN = (0, 17, 499_999, N - 1)


def _task(index: int) -> Task:
    return Task(f"id-{index}", "toy", "train", index, "act", {})


def _table(*indices: int) -> pl.DataFrame:
    return pl.DataFrame({"task_id": [f"id-{i}" for i in indices], "index": list(indices)})


def test_few_tasks_of_a_split_of_millions_are_made() -> None:
    made: list[int] = []

    def make(index: int) -> Task:
        made.append(index)
        return _task(index)

    found = recorded_tasks(_table(*CHOSEN), Panel(LazyTasks(range(N), make)))
    assert found == {f"id-{index}": _task(index) for index in CHOSEN}
    assert len(made) < 200


def test_an_order_of_one_s_own_is_gone_through() -> None:
    order = random.Random(0).sample(range(300), 300)
    found = recorded_tasks(_table(5, 299, 0), Panel(tuple(map(_task, order))))
    assert found == {f"id-{index}": _task(index) for index in (5, 299, 0)}


def test_what_is_no_longer_offered_is_not_found() -> None:
    assert recorded_tasks(_table(3, 12), Panel(tuple(map(_task, range(10))))).keys() == {"id-3"}
