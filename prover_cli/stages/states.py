"""The states that a shard's verification needs, each of them re-entered once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from prover_cli.envs.base import Task
from prover_cli.errors import TaskMismatchError
from prover_cli.ids import digest
from prover_cli.stages.agent import Agent
from prover_cli.stages.replay import Diverged, State, reenter
from prover_cli.stages.world import World

Boundary = tuple[str, int]
"""A trajectory and a turn: the state before that turn."""


@dataclass(frozen=True)
class StateWork:
    """One state to continue from. `state` is None when the replay diverged at `diverged_turn`."""

    state_id: str
    group_id: str
    traj_id: str
    turn: int
    task: Task
    turns_left: int
    state: State | None
    diverged_turn: int | None = None


@dataclass
class ShardStates:
    """The states of one shard: every boundary asked for, and each distinct state once."""

    at: dict[Boundary, StateWork] = field(default_factory=dict)

    @property
    def distinct(self) -> list[StateWork]:
        first: dict[str, StateWork] = {}
        for work in self.at.values():
            first.setdefault(work.state_id, work)
        return list(first.values())

    @property
    def to_sample(self) -> list[StateWork]:
        return [work for work in self.distinct if work.state is not None]


def plan_states(
    world: World,
    agent: Agent,
    tasks: Mapping[str, Task],
    trajectories: pl.DataFrame,
    turns: pl.DataFrame,
    boundaries: Iterable[Boundary],
    setting: str = "",
) -> ShardStates:
    """Re-enter every boundary state that was recorded; terminal boundaries need none.

    `setting` is that of `reenter`. Raises `TaskMismatchError` when the environment no longer
    offers a task.
    """
    rows = {row["traj_id"]: row for row in trajectories.iter_rows(named=True)}
    wanted: dict[str, set[int]] = {}
    for traj_id, turn in boundaries:
        if turn < rows[traj_id]["n_turns"]:
            wanted.setdefault(traj_id, set()).add(turn)
    recorded = turns.filter(pl.col("traj_id").is_in(list(wanted))).partition_by(
        "traj_id", as_dict=True, maintain_order=True
    )
    plan = ShardStates()
    for traj_id in sorted(wanted):
        row = rows[traj_id]
        task = tasks.get(row["task_id"])
        if task is None:
            raise TaskMismatchError(
                f"the environment offers no task {row['task_id']} any more (group "
                f"{row['group_id']})",
                hint="its content changed: sample again with prover rollout --overwrite",
            )
        of_trajectory = recorded[(traj_id,)].sort("turn").to_dicts()
        if (recall := getattr(world.environment, "recall", None)) is not None:
            recall(task, of_trajectory)
        found = reenter(
            world.environment,
            agent,
            task,
            row["env_seed"],
            of_trajectory,
            wanted[traj_id],
            world.max_turns,
            setting,
        )
        for turn, state in sorted(found.items()):
            plan.at[traj_id, turn] = _work(state, row, turn, task, world.max_turns - turn)
    return plan


def _work(
    state: State | Diverged, row: Mapping[str, Any], turn: int, task: Task, turns_left: int
) -> StateWork:
    place = (row["group_id"], row["traj_id"], turn, task, turns_left)
    if isinstance(state, Diverged):
        return StateWork(digest(["diverged", row["traj_id"], turn]), *place, None, state.turn)
    return StateWork(state.state_id, *place, state)


def recorded_tasks(tasks: pl.DataFrame, offered: Sequence[Task]) -> dict[str, Task]:
    """The tasks of a rollout as the environment offers them now, by id.

    They are looked up by index, in a split of millions too; only where the environment's order is
    another one is the whole split gone through.
    """
    found: dict[str, Task] = {}
    for task_id, index in tasks.select("task_id", "index").iter_rows():
        place = bisect_left(offered, index, key=lambda task: task.index)
        if place < len(offered) and offered[place].task_id == task_id:
            found[task_id] = offered[place]
    missing = set(tasks["task_id"]) - set(found)
    if missing:
        found |= {task.task_id: task for task in offered if task.task_id in missing}
    return found
