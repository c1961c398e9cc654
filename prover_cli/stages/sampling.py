"""Groups of trajectories for a panel of tasks: the work of `rollout` and of `evaluate`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prover_cli.config import RolloutConfig, as_json, identity
from prover_cli.engines.base import Engine
from prover_cli.engines.select import open_engine
from prover_cli.envs.base import Task
from prover_cli.envs.panel import Panel
from prover_cli.ids import canonical_json, derive_seed, digest, policy_id
from prover_cli.shards.manifest import PolicyEntry
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Stage
from prover_cli.shards.writer import StagePlan, StageWriter, open_stage
from prover_cli.stages.agent import Agent, Context
from prover_cli.stages.concurrent import run_shards
from prover_cli.stages.episode import Outcome, Start, StopReason, play
from prover_cli.stages.grading import Grader, open_grader
from prover_cli.stages.report import Reporter
from prover_cli.stages.world import World, environment_entry

Episode = tuple[Task, str, int, Outcome]
"""Task, group id, sample number, outcome."""


def group_id(task: Task, policy: str, seed: int) -> str:
    """The group sampled for a task by a policy with a run seed."""
    return digest([task.task_id, policy, seed], 12)


def sample_panel(
    stage: Stage,
    config: RolloutConfig,
    world: World,
    panel: Panel,
    mode: Mode,
    reporter: Reporter,
    slice_: str = "0/1",
    facts: dict[str, Any] | None = None,
) -> tuple[StageWriter, bool]:
    """Write the `tasks`, `trajectories` and `turns` shards of a panel.

    `config` is resolved (`world.resolve`). Returns the writer and whether there was nothing to do.
    """
    path = Path(config.policy)
    policy = PolicyEntry(policy_id=policy_id(path), path=str(path.resolve()))
    plan = StagePlan(
        stage=stage,
        config=as_json(config),
        identity={**identity(config), "panel": panel.panel_hash},
        n_shards=math.ceil(len(panel) / config.groups_per_shard),
        policy=policy,
        environment=environment_entry(config.env, world.environment),
        facts={"panel_hash": panel.panel_hash, "panel_note": panel.note, **(facts or {})},
        slice_=slice_,
    )
    with open_stage(plan, mode) as writer:
        for note in writer.notes:
            reporter.note(note)
        if writer.already_complete:
            return writer, True
        if writer.owed:
            asyncio.run(_sample(writer, config, world, panel, policy, reporter))
        writer.complete()
    return writer, False


async def _sample(
    writer: StageWriter,
    config: RolloutConfig,
    world: World,
    panel: Panel,
    policy: PolicyEntry,
    reporter: Reporter,
) -> None:
    engine = open_engine(config.engine, Path(config.policy))
    reporter.note(f"engine {engine.name}, policy {engine.policy_id}")
    grader = open_grader(config, world.environment)
    agent = world.agent(Path(config.policy), config.sampling)
    for note in agent.renderer.notes:
        reporter.note(note)
    size, owed = config.groups_per_shard, writer.owed
    tasks = {index: panel[index * size : (index + 1) * size] for index in owed}
    total = sum(len(part) for part in tasks.values()) * config.group_size
    reporter.start("sampling", total, "trajectories")

    def jobs(index: int) -> Sequence[Callable[[], Awaitable[Episode]]]:
        return [
            partial(_episode, engine, agent, grader, world, config, task, sample, reporter)
            for task in tasks[index]
            for sample in range(config.group_size)
        ]

    def commit(index: int, episodes: list[Episode]) -> None:
        rows, counters = _rows(episodes, config, world, policy)
        writer.commit(index, rows, counters)

    try:
        await run_shards(owed, jobs, commit, config.engine.concurrency)
    finally:
        await engine.close()
        if grader is not None:
            await grader.close()


async def _episode(
    engine: Engine,
    agent: Agent,
    grader: Grader | None,
    world: World,
    config: RolloutConfig,
    task: Task,
    sample: int,
    reporter: Reporter,
) -> Episode:
    group = group_id(task, engine.policy_id, config.seed)
    seed = env_seed(config.seed, group, sample)
    for _ in range(config.retries + 1):
        outcome = await play(
            engine,
            agent,
            task,
            lambda: Start(world.environment.start(task, seed), Context()),
            max_turns=world.max_turns,
            sampler_seed=sampler_seed(config.seed, group, sample),
            session_key=f"{group}.{sample}",
            grader=grader,
        )
        if outcome.stop_reason is not StopReason.VOID:
            break
    reporter.advance()
    return task, group, sample, outcome


def env_seed(seed: int, group: str, sample: int) -> int:
    """Seed of the environment's randomness in one episode."""
    return derive_seed("rollout-env", seed, group, sample)


def sampler_seed(seed: int, group: str, sample: int) -> int:
    """Seed of the policy's draws in one episode."""
    return derive_seed("rollout-sampler", seed, group, sample)


def _rows(
    episodes: Sequence[Episode], config: RolloutConfig, world: World, policy: PolicyEntry
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, float]]:
    tasks: dict[str, dict[str, Any]] = {}
    trajectories: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for task, group, sample, outcome in episodes:
        traj_id = f"{group}.{sample}"
        tasks.setdefault(task.task_id, task_row(task, world.environment.fingerprint))
        trajectories.append(
            {
                "traj_id": traj_id,
                "group_id": group,
                "task_id": task.task_id,
                "sample": sample,
                "policy_id": policy.policy_id,
                "env_seed": env_seed(config.seed, group, sample),
                "sampler_seed": sampler_seed(config.seed, group, sample),
                "n_turns": len(outcome.turns),
                "reward": outcome.reward,
                "success": outcome.success,
                "stop_reason": str(outcome.stop_reason),
                "error_type": outcome.error_type,
                "error_message": outcome.error_message,
                "n_prompt_tokens": outcome.n_prompt_tokens,
                "n_action_tokens": outcome.n_action_tokens,
                "seconds": outcome.seconds,
                "parent_traj_id": None,
                "parent_turn": None,
            }
        )
        turns += [{"traj_id": traj_id, "group_id": group, **turn} for turn in outcome.turns]
    counters = {
        "trajectories": len(trajectories),
        "void": sum(row["reward"] is None for row in trajectories),
        "prompt_tokens": sum(row["n_prompt_tokens"] for row in trajectories),
        "action_tokens": sum(row["n_action_tokens"] for row in trajectories),
    }
    return {"tasks": list(tasks.values()), "trajectories": trajectories, "turns": turns}, counters


def task_row(task: Task, fingerprint: str) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "env": task.env,
        "split": task.split,
        "index": task.index,
        "instruction": task.instruction,
        "payload_json": canonical_json(task.payload),
        "env_fingerprint": fingerprint,
    }
