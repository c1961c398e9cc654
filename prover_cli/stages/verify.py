"""`verify`: continuations before and after each proposed segment, and what they say about it.

For every proposal the states before its first turn and after its last are re-entered and K
continuations are sampled from each with the policy that made the group, at its temperature and
with the turns that were left. The recorded suffix is never one of them. Values come from observed
outcomes alone; a continuation that the infrastructure failed has none and is not counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.config import RolloutConfig, VerifyConfig, as_json, identity
from prover_cli.engines.base import Engine
from prover_cli.engines.select import open_engine
from prover_cli.errors import UsageError
from prover_cli.ids import derive_seed
from prover_cli.shards.manifest import PolicyEntry
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.writer import StagePlan, StageWriter, open_stage
from prover_cli.stages.concurrent import run_shards
from prover_cli.stages.episode import StopReason, play
from prover_cli.stages.grading import Grader, open_grader
from prover_cli.stages.report import Reporter, Summary
from prover_cli.stages.states import (
    Boundary,
    ShardStates,
    StateWork,
    continuation_row,
    estimate_row,
    plan_states,
    recorded_tasks,
    value_rows,
    values_of,
)
from prover_cli.stages.verify_summary import summarise
from prover_cli.stages.world import World, reopen


def run(
    config: VerifyConfig,
    path: Path,
    mode: Mode,
    reporter: Reporter,
    variant: str | None = None,
    slice_: str = "0/1",
) -> Summary:
    """Verify the proposals of `config.source` and write `continuations`, `values`, `estimates`.

    The summary's exit code is 4 when there was no segment to verify.
    """
    run_ = Run(path)
    rollout = run_.stage("rollout").require_fresh()
    rollout_settings, world, policy = reopen(rollout)
    inputs = {"rollout": rollout.output_digest}
    if config.proposer == "judge":
        inputs[config.source] = run_.stage(config.source).require_fresh().output_digest
    elif config.proposer != "all-turns":
        raise UsageError(f"--proposer is judge or all-turns, not {config.proposer!r}")
    stage = Stage(path, "verify" if variant is None else f"verify@{variant}")
    plan = StagePlan(
        stage=stage,
        config=as_json(config),
        identity=identity(config),
        n_shards=rollout.n_shards,
        inputs=inputs,
        policy=policy,
        environment=rollout.environment,
        slice_=slice_,
    )
    with open_stage(plan, mode) as writer:
        for note in writer.notes:
            reporter.note(note)
        did_nothing = writer.already_complete
        if writer.owed:
            work = _Work(config, run_, rollout_settings, world, policy, reporter)
            asyncio.run(work.sample(writer))
        if not did_nothing:
            writer.complete()
    return summarise(stage, did_nothing)


class _Work:
    """What one call of `verify` works with."""

    def __init__(
        self,
        config: VerifyConfig,
        run: Run,
        rollout: RolloutConfig,
        world: World,
        policy: PolicyEntry,
        reporter: Reporter,
    ) -> None:
        self.config = config
        self.run = run
        self.rollout = rollout
        self.world = world
        self.policy = policy
        self.reporter = reporter
        self.agent = world.agent(Path(policy.path), rollout.sampling)
        self.tasks = recorded_tasks(
            run.stage("rollout").read("tasks"), world.environment.tasks(rollout.split)
        )

    async def sample(self, writer: StageWriter) -> None:
        total = self.config.k * sum(self._n_boundaries(index) for index in writer.owed)
        if total == 0:
            for index in writer.owed:
                self._commit(writer, index, self._open(index), [])
            return
        shards: dict[int, _Shard] = {}
        engine = open_engine(self.config.engine, Path(self.policy.path))
        self.reporter.note(f"engine {engine.name}, policy {engine.policy_id}")
        grader = open_grader(self.rollout, self.world.environment)
        self.reporter.start("verifying", total, "continuations")

        def jobs(index: int) -> Sequence[Callable[[], Awaitable[dict[str, Any]]]]:
            shards[index] = self._open(index)
            return [
                partial(self._continue, engine, grader, work, k)
                for work in shards[index].states.to_sample
                for k in range(self.config.k)
            ]

        def commit(index: int, rows: list[dict[str, Any]]) -> None:
            self._commit(writer, index, shards.pop(index), rows)

        try:
            await run_shards(writer.owed, jobs, commit, self.config.engine.concurrency)
        finally:
            await engine.close()
            if grader is not None:
                await grader.close()

    def _n_boundaries(self, index: int) -> int:
        """States to continue from, at most; those that coincide are sampled once."""
        if self.config.proposer == "all-turns":
            return sum(
                1 for _ in _every_turn(self.run.stage("rollout").read("trajectories", index))
            )
        return sum(1 for _ in _proposed(self._proposals(index)))

    def _proposals(self, index: int) -> list[dict[str, Any]]:
        if self.config.proposer == "all-turns":
            return []
        return self.run.stage(self.config.source).read("proposals", index).to_dicts()

    def _open(self, index: int) -> _Shard:
        rollout = self.run.stage("rollout")
        trajectories = rollout.read("trajectories", index)
        proposals = self._proposals(index)
        states = plan_states(
            self.world,
            self.agent,
            self.tasks,
            trajectories,
            rollout.read("turns", index),
            _proposed(proposals) if self.config.proposer == "judge" else _every_turn(trajectories),
        )
        outcomes = dict(trajectories.select("traj_id", "success").iter_rows())
        return _Shard(states, proposals, outcomes)

    async def _continue(
        self, engine: Engine, grader: Grader | None, work: StateWork, k: int
    ) -> dict[str, Any]:
        assert work.state is not None
        state, environment = work.state, self.world.environment
        env_seed = derive_seed("verify-env", self.config.seed, state.state_id, k)
        sampler_seed = derive_seed("verify-sampler", self.config.seed, state.state_id, k)
        for _ in range(self.config.retries + 1):
            outcome = await play(
                engine,
                self.agent,
                work.task,
                lambda: state.begin(environment, work.task, env_seed),
                max_turns=self.world.max_turns,
                sampler_seed=sampler_seed,
                session_key=f"{state.state_id}/{k}",
                grader=grader,
            )
            if outcome.stop_reason is not StopReason.VOID:
                break
        self.reporter.advance()
        return continuation_row(
            work,
            k,
            outcome,
            policy_id=self.policy.policy_id,
            env_seed=env_seed,
            sampler_seed=sampler_seed,
        )

    def _commit(
        self, writer: StageWriter, index: int, shard: _Shard, rows: list[dict[str, Any]]
    ) -> None:
        diverged = [
            continuation_row(
                work, 0, None, policy_id=self.policy.policy_id, env_seed=0, sampler_seed=0
            )
            for work in shard.states.distinct
            if work.state is None
        ]
        values = values_of(shard.states, rows, self.config.k)
        tables = {
            "continuations": rows + diverged,
            "values": value_rows(shard.states, values),
            "estimates": [
                estimate_row(proposal, shard.states, values, shard.outcomes)
                for proposal in shard.proposals
            ],
        }
        counters = {
            "continuations": len(rows),
            "void": sum(row["reward"] is None for row in rows),
            "diverged": len(diverged),
            "prompt_tokens": sum(row["n_prompt_tokens"] for row in rows),
            "action_tokens": sum(row["n_action_tokens"] for row in rows),
        }
        writer.commit(index, tables, counters)


@dataclass(frozen=True)
class _Shard:
    states: ShardStates
    proposals: list[dict[str, Any]]
    outcomes: dict[str, bool | None]


def _proposed(proposals: Sequence[Mapping[str, Any]]) -> Iterator[Boundary]:
    for proposal in proposals:
        if proposal["status"] == "ok":
            yield proposal["traj_id"], proposal["start_turn"]
            yield proposal["traj_id"], proposal["end_turn"]


def _every_turn(trajectories: pl.DataFrame) -> Iterator[Boundary]:
    scored = trajectories.filter(pl.col("reward").is_not_null())
    for traj_id, n_turns in scored.select("traj_id", "n_turns").iter_rows():
        for turn in range(n_turns):
            yield traj_id, turn
