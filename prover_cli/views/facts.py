"""What a run says about its groups, as plain JSON values: the content of `prover show`.

The views for people are drawn from these values and nothing else, so both forms of the command
say the same. Stages that were not run, or whose shard is still owed, leave None behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from prover_cli.errors import UsageError
from prover_cli.judges.base import GroupView, TrajectoryView
from prover_cli.shards.run import Run, Stage
from prover_cli.stages.judge import groups

Facts = dict[str, Any]
Verdicts = tuple[pl.DataFrame | None, pl.DataFrame | None]
"""The proposals and the estimates of one shard."""

_JUDGED = ("judge", "verify", "advantage")
_SEGMENT = ("traj_id", "start_turn", "end_turn")
_PROPOSAL = (
    "proposal_id",
    "status",
    *_SEGMENT,
    "failure_mode",
    "rationale",
    "contrast_traj_ids",
    "judge",
    "judge_model",
)
_ESTIMATE = (
    "status",
    "value_before",
    "value_after",
    "n_before",
    "n_after",
    "success_before",
    "success_after",
    "gain",
    "std_error",
    "ci_low",
    "ci_high",
    "p_positive",
)
_ADVANTAGE = ("estimator", "turn", "base", "local", "advantage", "reason")


@dataclass(frozen=True)
class GroupReader:
    """Groups of a run with what a set of stages says about them.

    `variant` takes `judge@variant`, `verify@variant` and `advantage@variant` instead of the
    stages without a variant.
    """

    run: Run
    variant: str | None = None

    def __post_init__(self) -> None:
        if self.variant is None or any(self._stage(kind).exists() for kind in _JUDGED):
            return
        raise UsageError(
            f"{self.run.path} has no stage of a variant {self.variant!r}",
            hint=f"see which there are: prover status {self.run.path}",
        )

    def overview(self) -> list[Facts]:
        """One entry per group, in order of ids."""
        entries = []
        for index in self._shards():
            verdicts = self._verdicts(index)
            for group in groups(self.run.stage("rollout"), index):
                entries.append(_entry(group) | _segment(*_judged(group.group_id, verdicts)))
        return sorted(entries, key=lambda entry: str(entry["group_id"]))

    def group(self, prefix: str) -> Facts:
        """One group in full; `UsageError` when `prefix` does not name exactly one."""
        index, group = self._find(prefix)
        proposal, estimate = _judged(group.group_id, self._verdicts(index))
        chosen = None if proposal is None else proposal["traj_id"]
        return {
            **_entry(group),
            "policy_id": self._policy_id(),
            "proposal": proposal,
            "estimate": estimate,
            "trajectories": [_trajectory(t, proposal) for t in group.trajectories],
            "advantages": None if chosen is None else self._advantages(chosen, index),
        }

    def trajectory(self, traj_id: str) -> Facts:
        """One trajectory in full; the group's part of `traj_id` may be a prefix."""
        prefix, _, sample = traj_id.rpartition(".")
        index, group = self._find(prefix)
        found = [t for t in group.trajectories if t.traj_id == f"{group.group_id}.{sample}"]
        if not found:
            samples = ", ".join(str(t.sample) for t in group.trajectories)
            raise UsageError(
                f"group {group.group_id} has no trajectory {sample!r}; it has {samples}",
                hint=f"prover show {self.run.path} {group.group_id}",
            )
        proposal, _ = _judged(group.group_id, self._verdicts(index))
        return {
            "group_id": group.group_id,
            "task_id": group.task_id,
            "instruction": group.instruction,
            "policy_id": self._policy_id(),
            **_trajectory(found[0], proposal, in_full=True),
            "advantages": self._advantages(found[0].traj_id, index),
        }

    def _find(self, prefix: str) -> tuple[int, GroupView]:
        rollout = self.run.stage("rollout")
        ids: dict[str, int] = {}
        for index in self._shards():
            column = rollout.read("trajectories", index)["group_id"].unique()
            ids |= {str(name): index for name in column if str(name).startswith(prefix)}
        names = [prefix] if prefix in ids else sorted(ids)
        if len(names) != 1:
            some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            what = f"several groups: {some}" if names else "no group"
            raise UsageError(
                f"{prefix!r} names {what} of {self.run.path}",
                hint=f"list the groups: prover show {self.run.path}",
            )
        index = ids[names[0]]
        return index, next(g for g in groups(rollout, index) if g.group_id == names[0])

    def _shards(self) -> list[int]:
        return sorted(self.run.stage("rollout").manifest().shards)

    def _policy_id(self) -> str | None:
        policy = self.run.stage("rollout").manifest().policy
        return None if policy is None else policy.policy_id

    def _stage(self, kind: str) -> Stage:
        return self.run.stage(kind if self.variant is None else f"{kind}@{self.variant}")

    def _rows(self, kind: str, table: str, index: int) -> pl.DataFrame | None:
        """Rows of one shard; None where the stage has none yet."""
        stage = self._stage(kind)
        if not stage.exists() or index not in stage.manifest().shards:
            return None
        return stage.read(table, index)

    def _verdicts(self, index: int) -> Verdicts:
        return self._rows("judge", "proposals", index), self._rows("verify", "estimates", index)

    def _advantages(self, traj_id: str, index: int) -> list[Facts] | None:
        rows = self._rows("advantage", "advantages", index)
        if rows is None:
            return None
        return [{key: row[key] for key in _ADVANTAGE} for row in _of(rows, "traj_id", traj_id)]


def _judged(group_id: str, verdicts: Verdicts) -> tuple[Facts | None, Facts | None]:
    """The group's proposal, and its estimate when that is of the same segment."""
    proposals, estimates = verdicts
    found = list(_of(proposals, "group_id", group_id))
    if not found:
        return None, None
    proposal = {key: found[0][key] for key in _PROPOSAL}
    for row in _of(estimates, "proposal_id", proposal["proposal_id"]):
        if all(row[key] == proposal[key] for key in _SEGMENT):
            return proposal, {key: row[key] for key in _ESTIMATE}
    return proposal, None


def _segment(proposal: Facts | None, estimate: Facts | None) -> Facts:
    return {
        "proposal": None
        if proposal is None
        else {key: proposal[key] for key in ("status", *_SEGMENT)},
        "gain": None if estimate is None else estimate["gain"],
        "estimate_status": None if estimate is None else estimate["status"],
    }


def _of(rows: pl.DataFrame | None, column: str, value: str) -> Iterator[Mapping[str, Any]]:
    if rows is not None:
        yield from rows.filter(pl.col(column) == value).iter_rows(named=True)


def _entry(group: GroupView) -> Facts:
    return {
        "group_id": group.group_id,
        "task_id": group.task_id,
        "instruction": group.instruction,
        "successes": len(group.successes),
        "scored": len(group.successes) + len(group.failures),
        "void": sum(not t.scored for t in group.trajectories),
    }


def _trajectory(trajectory: TrajectoryView, proposal: Facts | None, in_full: bool = False) -> Facts:
    start = end = 0
    if proposal is not None and proposal["traj_id"] == trajectory.traj_id:
        start, end = proposal["start_turn"], proposal["end_turn"]
    turns = []
    for turn in trajectory.turns:
        texts = {"observation": turn.observation, "reply": turn.action_text} if in_full else {}
        turns.append(
            {
                "turn": turn.turn,
                **texts,
                "action": turn.action,
                "action_valid": turn.action_valid,
                "reward": turn.reward,
                "in_segment": start <= turn.turn < end,
            }
        )
    return {
        "traj_id": trajectory.traj_id,
        "sample": trajectory.sample,
        "outcome": _outcome(trajectory),
        "reward": trajectory.reward,
        "stop_reason": trajectory.stop_reason,
        "n_turns": len(turns),
        "turns": turns,
    }


def _outcome(trajectory: TrajectoryView) -> str:
    if not trajectory.scored:
        return "void"
    return "success" if trajectory.success else "failure"
