"""`judge`: one proposed segment per eligible group, and a row with the reason for every other."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.config import JudgeConfig, as_json
from prover_cli.ids import canonical_json, derive_seed, digest
from prover_cli.judges.base import (
    GroupView,
    Proposal,
    ProposalStatus,
    TrajectoryView,
    TurnView,
)
from prover_cli.judges.eligibility import eligible
from prover_cli.judges.segments import fault
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.writer import StagePlan, StageWriter, open_stage
from prover_cli.stages.concurrent import SHARDS_IN_FLIGHT, run_shards
from prover_cli.stages.judge_setup import Prepared, prepare
from prover_cli.stages.judge_summary import summarise
from prover_cli.stages.report import Reporter, Summary


def run(
    config: JudgeConfig,
    path: Path,
    mode: Mode,
    reporter: Reporter,
    variant: str | None = None,
    slice_: str = "0/1",
) -> Summary:
    """Judge every group of a rollout and write `proposals`, one row per group.

    Raises `UsageError` for a judge that cannot be used, `EngineDeadError` when its model is gone;
    finished shards stay. The summary's exit code is 3 when no group was answered.
    """
    rollout = Run(path).stage("rollout")
    manifest = rollout.require_fresh()
    prepared = prepare(config, manifest)
    for note in prepared.notes:
        reporter.note(note)
    stage = Stage(path, "judge" if variant is None else f"judge@{variant}")
    plan = StagePlan(
        stage=stage,
        config=as_json(prepared.config),
        identity=prepared.identity,
        n_shards=manifest.n_shards,
        inputs={"rollout": manifest.output_digest},
        policy=manifest.policy,
        environment=manifest.environment,
        slice_=slice_,
    )
    with open_stage(plan, mode) as writer:
        for note in writer.notes:
            reporter.note(note)
        did_nothing = writer.already_complete
        if writer.owed:
            total = sum(manifest.shards[index].files["tasks"].rows for index in writer.owed)
            reporter.start("judging", total, "groups")
            asyncio.run(_Work(prepared, rollout, reporter).judge(writer))
        if not did_nothing:
            writer.complete()
    return summarise(stage, did_nothing, prepared.config.judge_price)


class _Work:
    """What one call of `judge` does."""

    def __init__(self, prepared: Prepared, rollout: Stage, reporter: Reporter) -> None:
        self._prepared, self._config = prepared, prepared.config
        self._rollout, self._reporter = rollout, reporter
        self._counted = (0, 0)

    async def judge(self, writer: StageWriter) -> None:
        """Judge the groups of every owed shard; shards are committed as they are finished."""
        spending, asker = self._prepared.spending, self._prepared.asker
        before = writer.manifest.counters
        spending.read = int(before.get("paid_prompt_tokens", 0))
        spending.written = int(before.get("paid_output_tokens", 0))
        self._counted = spending.read, spending.written

        def jobs(index: int) -> Sequence[Callable[[], Awaitable[Proposal]]]:
            found = self._in_order(list(groups(self._rollout, index)), f"groups-{index}")
            return [partial(self._of_group, group) for group in found]

        def commit(index: int, proposals: list[Proposal]) -> None:
            ordered = sorted(proposals, key=lambda proposal: proposal.group_id)
            rows = [proposal_row(proposal) for proposal in ordered]
            writer.commit(index, {"proposals": rows}, self._counters(rows))

        owed = self._in_order(writer.owed, "shards")
        concurrency, shards = self._config.engine.concurrency, SHARDS_IN_FLIGHT
        if asker is not None:  # a group is one job, so a few shards would not keep a model busy
            shards = max(shards, concurrency // self._rollout.manifest().config["groups_per_shard"])
        try:
            await run_shards(owed, jobs, commit, concurrency, shards)
        finally:
            if asker is not None:
                for note in asker.notes:
                    self._reporter.note(note)
                await asker.close()

    def _in_order(self, items: list[Any], what: str) -> list[Any]:
        """As they come; in an order drawn by seed where a budget may leave some of them out."""
        if self._prepared.spending.limited:
            random.Random(derive_seed("judge-budget", self._config.seed, what)).shuffle(items)
        return items

    def _counters(self, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
        spending = self._prepared.spending
        read, written = self._counted
        self._counted = spending.read, spending.written
        return {
            "groups": len(rows),
            "proposals": sum(row["status"] == "ok" for row in rows),
            "prompt_tokens": sum(row["n_prompt_tokens"] for row in rows),
            "output_tokens": sum(row["n_output_tokens"] for row in rows),
            "paid_prompt_tokens": spending.read - read,
            "paid_output_tokens": spending.written - written,
        }

    async def _of_group(self, group: GroupView) -> Proposal:
        began = time.perf_counter()
        proposal = await self._propose(group)
        if self._prepared.labeller is not None:
            labels = await self._prepared.labeller.label(group)
            tally, asker = labels.tally, self._prepared.labeller.asker
            raw = [] if proposal.raw_text is None else [proposal.raw_text]
            proposal = replace(
                proposal,
                labels={**proposal.labels, **labels.as_json()},
                judge_model=proposal.judge_model or asker.model,
                prompt_hash=proposal.prompt_hash or self._config.prompt_hash,
                raw_text="\n".join([*raw, *tally.replies]) or None,
                n_prompt_tokens=proposal.n_prompt_tokens + tally.n_prompt_tokens,
                n_output_tokens=proposal.n_output_tokens + tally.n_output_tokens,
            )
        self._reporter.advance()
        return replace(proposal, seconds=time.perf_counter() - began)

    async def _propose(self, group: GroupView) -> Proposal:
        config, judge = self._config, self._prepared.judge
        obstacle = eligible(group, config.min_success, config.max_success)
        if obstacle is not None:
            return Proposal(group_id=group.group_id, status=obstacle, judge=judge.name)
        proposal = await judge.propose(group)
        wrong = fault(group, proposal, config.max_segment) if proposal.status == "ok" else None
        if wrong is None:
            return proposal
        return replace(
            proposal,
            status=ProposalStatus.INVALID_REPLY,
            traj_id=None,
            start_turn=None,
            end_turn=None,
            labels={**proposal.labels, "invalid": wrong},
        )


def groups(rollout: Stage, index: int) -> Iterator[GroupView]:
    """The groups of one shard as judges see them, in order of their ids."""
    trajectories = rollout.read("trajectories", index)
    tasks = dict(rollout.read("tasks", index).select("task_id", "instruction").iter_rows())
    turns = rollout.read("turns", index).partition_by("traj_id", as_dict=True)
    for (group_id,), rows in sorted(
        trajectories.partition_by("group_id", as_dict=True).items(), key=lambda item: str(item[0])
    ):
        views = tuple(
            _trajectory_view(row, turns.get((row["traj_id"],)))
            for row in rows.sort("sample").iter_rows(named=True)
        )
        task_id = rows["task_id"][0]
        yield GroupView(str(group_id), task_id, tasks[task_id], views)


def _trajectory_view(row: dict[str, Any], turns: pl.DataFrame | None) -> TrajectoryView:
    fields = (
        "turn",
        "observation",
        "action_text",
        "action",
        "action_valid",
        "reward",
        "done",
        "state_key",
    )
    views = () if turns is None else turns.sort("turn").select(fields).iter_rows(named=True)
    return TrajectoryView(
        traj_id=row["traj_id"],
        sample=row["sample"],
        reward=row["reward"],
        success=row["success"],
        stop_reason=row["stop_reason"],
        turns=tuple(TurnView(**turn) for turn in views),
    )


def proposal_row(proposal: Proposal) -> dict[str, Any]:
    """One row of the proposals table."""
    return {
        "proposal_id": digest([proposal.group_id, proposal.judge, proposal.judge_model, 0]),
        "group_id": proposal.group_id,
        "traj_id": proposal.traj_id,
        "start_turn": proposal.start_turn,
        "end_turn": proposal.end_turn,
        "status": str(proposal.status),
        "failure_mode": proposal.failure_mode,
        "rationale": proposal.rationale,
        "contrast_traj_ids": list(proposal.contrast_traj_ids),
        "judge": proposal.judge,
        "judge_model": proposal.judge_model,
        "prompt_hash": proposal.prompt_hash,
        "attempts": proposal.attempts,
        "tool_calls": proposal.tool_calls,
        "raw_text": proposal.raw_text,
        "labels_json": canonical_json(dict(proposal.labels)),
        "n_prompt_tokens": proposal.n_prompt_tokens,
        "n_output_tokens": proposal.n_output_tokens,
        "seconds": proposal.seconds,
    }
