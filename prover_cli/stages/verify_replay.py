"""`verify --check-replay`: every recorded trajectory played again, and a certificate of it.

No engine is asked. At every turn the observation, the state behind it and the prompt must be the
recorded ones, and a session restored from the environment's snapshot must show the same page; every
action must give the recorded reward and end the episode where it ended. The certificate says how
many trajectories passed, per task, and names the first thing that differed in the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.envs.base import Environment, Task
from prover_cli.shards.manifest import Manifest
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.store import write_json
from prover_cli.stages.agent import Agent
from prover_cli.stages.replay import Mismatch, Moment, check_page, check_prompt, replay, take
from prover_cli.stages.report import Reporter, Summary
from prover_cli.stages.rollout import percent
from prover_cli.stages.states import recorded_tasks
from prover_cli.stages.verify_quarantine import CERTIFICATE
from prover_cli.stages.world import reopen

Facts = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """Whether one trajectory was reproduced; `turn` and `what` name the first difference."""

    traj_id: str
    task_id: str
    n_turns: int
    turn: int | None = None
    what: str | None = None

    @property
    def reproduced(self) -> bool:
        return self.what is None


def check_replay(path: Path, reporter: Reporter) -> Summary:
    """Replay every trajectory of a run and write `replay.json` beside its stages."""
    run = Run(path)
    rollout = run.stage("rollout")
    manifest = rollout.require_fresh()
    trajectories = sum(entry.files["trajectories"].rows for entry in manifest.shards.values())
    reporter.start("replaying", trajectories, "trajectories")
    checks = []
    for check in _checks(rollout, manifest):
        checks.append(check)
        reporter.advance()
    facts = certificate(manifest, checks)
    write_json(path / CERTIFICATE, facts)
    return _summary(path, facts)


def _checks(rollout: Stage, manifest: Manifest) -> Iterator[Check]:
    """One per trajectory that has turns."""
    settings, world, policy = reopen(manifest)
    agent = world.agent(Path(policy.path), settings.sampling)
    offered = world.environment.tasks(settings.split)
    tasks = recorded_tasks(rollout.read("tasks"), offered)
    for index in sorted(manifest.shards):
        turns = rollout.read("turns", index).partition_by("traj_id", as_dict=True)
        for row in rollout.read("trajectories", index).iter_rows(named=True):
            if row["n_turns"] == 0:
                continue
            of_it = turns[(row["traj_id"],)].sort("turn").to_dicts()
            task = tasks.get(row["task_id"])
            place = (row["traj_id"], row["task_id"], row["n_turns"])
            if task is None:
                yield Check(*place, 0, "task")
                continue
            exact = settings.grader == "rule"
            yield check_trajectory(
                world.environment, agent, task, row["env_seed"], of_it, place, exact
            )


def check_trajectory(
    environment: Environment,
    agent: Agent,
    task: Task,
    env_seed: int,
    turns: Sequence[Mapping[str, Any]],
    place: tuple[str, str, int],
    last_reward: bool = True,
) -> Check:
    """Play one trajectory again to its end. `last_reward`: the last reward is the environment's
    own, not a grader's."""
    if (recall := getattr(environment, "recall", None)) is not None:
        recall(task, turns)
    before = 0.0
    try:
        for moment in replay(environment, task, env_seed, turns):
            _check_moment(environment, agent, task, moment, turns, before)
            before = moment.reward_so_far
        number = len(turns) - 1
        reward = take(moment.session, turns[number], number).reward
        if (last_reward or not turns[number]["done"]) and not _same(reward, turns[number]):
            raise Mismatch(number, "reward")
    except Mismatch as mismatch:
        return Check(*place, mismatch.turn, mismatch.what)
    return Check(*place)


def _check_moment(
    environment: Environment,
    agent: Agent,
    task: Task,
    moment: Moment,
    turns: Sequence[Mapping[str, Any]],
    before: float,
) -> None:
    number = moment.number
    if number and not _same(moment.reward_so_far - before, turns[number - 1]):
        raise Mismatch(number - 1, "reward")
    check_prompt(agent, task, moment)
    restored = environment.restore(task, moment.session.snapshot())
    try:
        check_page(restored.observe(), turns[number], number)
    except Mismatch:
        raise Mismatch(number, "snapshot") from None


def _same(reward: float, turn: Mapping[str, Any]) -> bool:
    return isclose(reward, turn["reward"], rel_tol=1e-9, abs_tol=1e-9)


def certificate(manifest: Manifest, checks: Sequence[Check]) -> Facts:
    """What the replays say, as JSON values: overall, per task, and what is quarantined."""
    environment, policy = manifest.environment, manifest.policy
    assert environment is not None and policy is not None
    by_task: dict[str, list[Check]] = {}
    for check in checks:
        by_task.setdefault(check.task_id, []).append(check)
    tasks = {task_id: _of_task(found) for task_id, found in sorted(by_task.items())}
    return {
        "rollout": manifest.output_digest,
        "environment": environment.name,
        "env_fingerprint": environment.fingerprint,
        "policy_id": policy.policy_id,
        **_rate(checks),
        "turns": sum(check.n_turns for check in checks),
        "differences": _differences(checks),
        "tasks": tasks,
        "quarantine": [task_id for task_id, facts in tasks.items() if facts["replay_rate"] < 1],
    }


def _rate(checks: Sequence[Check]) -> Facts:
    reproduced = sum(check.reproduced for check in checks)
    rate = reproduced / len(checks) if checks else None
    return {"trajectories": len(checks), "reproduced": reproduced, "replay_rate": rate}


def _of_task(checks: Sequence[Check]) -> Facts:
    first = next((check for check in checks if not check.reproduced), None)
    difference = first and {"traj_id": first.traj_id, "turn": first.turn, "what": first.what}
    return {**_rate(checks), "first_difference": difference}


def _differences(checks: Sequence[Check]) -> dict[str, int]:
    """How many trajectories first differ in what."""
    names = pl.Series([check.what for check in checks if check.what], dtype=pl.String)
    return {str(name): int(n) for name, n in sorted(names.value_counts().iter_rows())}


def _summary(path: Path, facts: Facts) -> Summary:
    n_bad = len(facts["quarantine"])
    warnings: tuple[str, ...] = ()
    if n_bad:
        kinds = ", ".join(f"{n} in {what}" for what, n in facts["differences"].items())
        warnings = (
            f"{n_bad} of {len(facts['tasks'])} tasks are not reproduced ({kinds}): "
            "verify leaves them out",
        )
    return Summary(
        folder=path / CERTIFICATE,
        facts={key: value for key, value in facts.items() if key != "tasks"},
        lines=(
            f"{facts['reproduced']} of {facts['trajectories']} trajectories of "
            f"{facts['environment']} reproduced ({percent(facts['replay_rate'])}), "
            f"{facts['turns']:,} turns",
        ),
        warnings=warnings,
        next_command=f"prover verify {path} --k 8",
    )
