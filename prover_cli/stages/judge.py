"""`judge`: one proposed segment per eligible group, and a row with the reason for every other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.config import JudgeConfig, as_json, identity
from prover_cli.ids import canonical_json, digest
from prover_cli.judges import registry
from prover_cli.judges.base import (
    GroupView,
    Judge,
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
from prover_cli.stages.report import Reporter, Summary


def run(
    config: JudgeConfig,
    path: Path,
    mode: Mode,
    reporter: Reporter,
    variant: str | None = None,
    slice_: str = "0/1",
) -> Summary:
    """Judge every group of a rollout and write `proposals`, one row per group."""
    judge = registry.make(config.judge, seed=config.seed, max_segment=config.max_segment)
    rollout = Run(path).stage("rollout")
    manifest = rollout.require_fresh()
    stage = Stage(path, "judge" if variant is None else f"judge@{variant}")
    plan = StagePlan(
        stage=stage,
        config=as_json(config),
        identity=identity(config),
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
            reporter.start("judging", len(writer.owed), "shards")
            asyncio.run(_judge(writer, judge, config, rollout, reporter))
        if not did_nothing:
            writer.complete()
    return _summary(stage, did_nothing)


async def _judge(
    writer: StageWriter, judge: Judge, config: JudgeConfig, rollout: Stage, reporter: Reporter
) -> None:
    for index in writer.owed:
        rows = [
            proposal_row(await _propose(judge, config, group)) for group in groups(rollout, index)
        ]
        counters = {
            "groups": len(rows),
            "proposals": sum(row["status"] == "ok" for row in rows),
            "prompt_tokens": sum(row["n_prompt_tokens"] for row in rows),
            "output_tokens": sum(row["n_output_tokens"] for row in rows),
        }
        writer.commit(index, {"proposals": rows}, counters)
        reporter.advance()


async def _propose(judge: Judge, config: JudgeConfig, group: GroupView) -> Proposal:
    obstacle = eligible(group, config.min_success, config.max_success)
    if obstacle is not None:
        return Proposal(group_id=group.group_id, status=obstacle, judge=judge.name)
    began = time.perf_counter()
    proposal = await judge.propose(group)
    wrong = fault(group, proposal, config.max_segment) if proposal.status == "ok" else None
    if wrong is not None:
        proposal = replace(
            proposal,
            status=ProposalStatus.INVALID_REPLY,
            traj_id=None,
            start_turn=None,
            end_turn=None,
            labels={**proposal.labels, "invalid": wrong},
        )
    return replace(proposal, seconds=time.perf_counter() - began)


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


def _summary(stage: Stage, did_nothing: bool) -> Summary:
    proposals = stage.read("proposals")
    counts = dict(proposals["status"].value_counts(sort=True).iter_rows())
    found = proposals.filter(pl.col("status") == "ok")
    length = found.select((pl.col("end_turn") - pl.col("start_turn")).mean()).item()
    warnings: tuple[str, ...] = ()
    if found.is_empty():
        reasons = ", ".join(f"{n} {status}" for status, n in counts.items())
        warnings = (f"no group has a proposal ({reasons}): there will be nothing to verify",)
    return Summary(
        folder=stage.run,
        facts={"groups": proposals.height, "status": counts, "mean_segment_turns": length},
        lines=(
            f"{found.height} proposals for {proposals.height} groups: "
            + ", ".join(f"{n} {status}" for status, n in counts.items()),
            "segments n/a" if length is None else f"segments of {length:.2f} turns on average",
        ),
        warnings=warnings,
        did_nothing=did_nothing,
        next_command=f"prover verify {stage.run} --k 8",
    )
