"""The states a shard's verification needs, and the tables that their continuations make."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import polars as pl

from prover_cli.credit.intervals import newcombe, p_positive
from prover_cli.envs.base import Task
from prover_cli.errors import TaskMismatchError
from prover_cli.ids import digest
from prover_cli.stages.agent import Agent
from prover_cli.stages.episode import Outcome, StopReason
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
        return list({work.state_id: work for work in reversed(self.at.values())}.values())[::-1]

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
) -> ShardStates:
    """Re-enter every boundary state that was recorded; terminal boundaries need none.

    Raises `TaskMismatchError` when the environment no longer offers a task.
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


def continuation_row(
    work: StateWork,
    k: int,
    outcome: Outcome | None,
    *,
    policy_id: str,
    env_seed: int,
    sampler_seed: int,
) -> dict[str, Any]:
    """One row of the continuations table; `outcome` is None for a diverged state."""
    return {
        "state_id": work.state_id,
        "k": k,
        "group_id": work.group_id,
        "traj_id": work.traj_id,
        "turn": work.turn,
        "policy_id": policy_id,
        "env_seed": env_seed,
        "sampler_seed": sampler_seed,
        "replay_ok": work.state is not None,
        "diverged_turn": work.diverged_turn,
        "reward": outcome.reward if outcome else None,
        "success": outcome.success if outcome else None,
        "stop_reason": str(outcome.stop_reason if outcome else StopReason.DIVERGED),
        "error_type": outcome.error_type if outcome else None,
        "n_turns": len(outcome.turns) if outcome else 0,
        "n_prompt_tokens": outcome.n_prompt_tokens if outcome else 0,
        "n_action_tokens": outcome.n_action_tokens if outcome else 0,
        "turns_left": work.turns_left,
        "seconds": outcome.seconds if outcome else 0.0,
    }


@dataclass(frozen=True)
class Value:
    """What is known of the success rate from a state."""

    n_requested: int
    n_scored: int
    n_success: int
    terminal: bool | None = None
    """The recorded outcome, where the state is the end of the trajectory."""

    @property
    def known(self) -> bool:
        """At least half of the continuations have an outcome."""
        return self.terminal is not None or 0 < self.n_requested <= 2 * self.n_scored

    @property
    def mean(self) -> float | None:
        if self.terminal is not None:
            return float(self.terminal)
        return self.n_success / self.n_scored if self.n_scored else None

    @property
    def std_error(self) -> float | None:
        mean = self.mean
        if mean is None or self.terminal is not None:
            return None if mean is None else 0.0
        return sqrt(mean * (1 - mean) / self.n_scored)


def values_of(
    plan: ShardStates, continuations: Sequence[Mapping[str, Any]], k: int
) -> dict[Boundary, Value]:
    """The value at every boundary; boundaries in the same state share it."""
    scored: dict[str, list[bool]] = {}
    for row in continuations:
        if row["success"] is not None:
            scored.setdefault(row["state_id"], []).append(row["success"])
    return {
        boundary: Value(k, len(scored.get(work.state_id, [])), sum(scored.get(work.state_id, [])))
        for boundary, work in plan.at.items()
    }


def value_rows(plan: ShardStates, values: Mapping[Boundary, Value]) -> list[dict[str, Any]]:
    """Rows of the values table."""
    first = {work.state_id: (work.traj_id, work.turn) for work in plan.distinct}
    return [
        {
            "traj_id": boundary[0],
            "turn": boundary[1],
            "state_id": work.state_id,
            "group_id": work.group_id,
            "source": "sampled" if first[work.state_id] == boundary else "cached",
            "n_requested": values[boundary].n_requested,
            "n_scored": values[boundary].n_scored,
            "n_success": values[boundary].n_success,
            "mean": values[boundary].mean,
            "std_error": values[boundary].std_error,
        }
        for boundary, work in plan.at.items()
    ]


def estimate_row(
    proposal: Mapping[str, Any],
    plan: ShardStates,
    values: Mapping[Boundary, Value],
    outcomes: Mapping[str, bool | None],
) -> dict[str, Any]:
    """One row of the estimates table; a proposal that cannot be verified has a status instead.

    `outcomes` gives the recorded success of a trajectory, for segments that end it.
    """
    row: dict[str, Any] = dict.fromkeys(_ESTIMATE_NULLS)
    row |= {name: proposal[name] for name in ("proposal_id", "group_id", "traj_id")}
    row |= {"start_turn": proposal["start_turn"], "end_turn": proposal["end_turn"]}
    row |= {"n_before": 0, "n_after": 0, "status": proposal["status"]}
    if proposal["status"] != "ok":
        return row
    traj_id = proposal["traj_id"]
    start, end = (traj_id, proposal["start_turn"]), (traj_id, proposal["end_turn"])
    for side, boundary in (("before", start), ("after", end)):
        work = plan.at.get(boundary)
        row[f"state_{side}"] = work.state_id if work else None
        if work is not None and work.state is None:
            row["status"] = "diverged"
    before = values[start]
    after = values.get(end) or Value(0, 0, 0, terminal=outcomes[traj_id])
    row |= {"n_before": before.n_scored, "n_after": after.n_scored}
    if row["status"] == "ok" and not (before.known and after.known):
        row["status"] = "void"
    return row | _gain(before, after) if row["status"] == "ok" else row


_ESTIMATE_NULLS = (
    "state_before",
    "state_after",
    "value_before",
    "value_after",
    "success_before",
    "success_after",
    "gain",
    "std_error",
    "ci_low",
    "ci_high",
    "p_positive",
)


def _gain(before: Value, after: Value) -> dict[str, Any]:
    v0, v1, e0, e1 = before.mean, after.mean, before.std_error, after.std_error
    assert v0 is not None and v1 is not None and e0 is not None and e1 is not None
    gain = {
        "value_before": v0,
        "value_after": v1,
        "gain": v1 - v0,
        "std_error": sqrt(e0 * e0 + e1 * e1),
    }
    if after.terminal is not None:
        return gain
    counts = (before.n_success, before.n_scored, after.n_success, after.n_scored)
    low, high = newcombe(*counts)
    return gain | {
        "success_before": before.n_success,
        "success_after": after.n_success,
        "ci_low": low,
        "ci_high": high,
        "p_positive": p_positive(*counts),
    }


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
