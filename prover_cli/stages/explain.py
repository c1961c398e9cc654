"""`explain`: one advantage walked back to the numbers that it was made of, and where they lie.

Nothing is taken from the advantage table but the row itself. The numbers beside it come from the
tables that the advantage stage read, and the row is computed again from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.credit import CreditTables, credit, prepare, registry
from prover_cli.credit.base import Estimator, Method
from prover_cli.credit.prover_chain import Calibrated
from prover_cli.errors import UsageError
from prover_cli.ids import derive_seed
from prover_cli.shards.run import Run, Stage
from prover_cli.stages.advantage import ShardReader
from prover_cli.stages.explain_evidence import (
    estimates_of,
    files_of,
    proposals_of,
    siblings_of,
    states_of,
)
from prover_cli.stages.explain_formula import REASONS, formula

SAME = 1e-9
"""A recomputed advantage that differs by less is the stored one."""
Facts = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """Which number is asked for."""

    trajectory: str
    """Its id, or the beginning of it; `GROUP.SAMPLE` with the beginning of the group's id too."""
    turn: int
    estimator: str | None = None
    """None takes the only one that the stage holds, or `prover`."""
    source: str = "advantage"
    full: bool = False
    """Keep the judge's raw replies and lists of token advantages whole."""


@dataclass(frozen=True)
class Place:
    """One row of the advantage table, and what belongs to it."""

    stage: Stage
    sources: Mapping[str, Stage]
    """The stages that the advantage stage read, by kind."""
    judge: Stage | None
    """The judge that it read, or whose proposals were verified."""
    index: int
    """The shard."""
    name: str
    knobs: Mapping[str, Any]
    method: Method
    row: Facts
    turn: Facts
    trajectory: Facts
    group: pl.DataFrame


def run(path: Path, question: Question) -> Facts:
    """Where the advantage of one turn comes from.

    Raises `UsageError` with near matches for an unknown trajectory, turn or estimator, `ShardError`
    for a stage that is missing, unfinished or stale.
    """
    place = _locate(Run(path), question)
    estimator, tables = _prepared(place)
    verified, index, trajectory = place.sources.get("verify"), place.index, place.trajectory
    traj_id, group_id = trajectory["traj_id"], trajectory["group_id"]
    estimates = estimates_of(verified, index, group_id)
    covering = [e for e in estimates if _covers(e, traj_id, question.turn)]
    states = states_of(verified, index, traj_id, question.turn, covering)
    members = ("traj_id", "reward", "success", "n_turns", "stop_reason")
    return {
        "run": str(path),
        "traj_id": traj_id,
        "turn": question.turn,
        "group_id": group_id,
        "task_id": trajectory["task_id"],
        "instruction": _instruction(place.sources["rollout"], index, trajectory["task_id"]),
        **{key: place.turn[key] for key in ("state_key", "action", "action_valid")},
        "advantage": _number(place, _again(place, estimator, tables), question.full),
        "formula": formula(
            place.method,
            place.row,
            trajectory,
            place.group,
            _with_chain(covering, estimator, tables),
            states,
        ),
        "group": place.group.select(members).to_dicts(),
        "proposals": proposals_of(place.judge, index, question, trajectory),
        # Without a judge there may be a segment at every turn of the group.
        "estimates": covering if place.judge is None else estimates,
        "states": states,
        "siblings": siblings_of(place.sources["rollout"], index, place.turn, place.group),
        "seeds": {
            "env_seed": trajectory["env_seed"],
            "sampler_seed": trajectory["sampler_seed"],
            "turn_seed": derive_seed(trajectory["sampler_seed"], question.turn),
        },
        "policy_id": trajectory["policy_id"],
        "policy_path": _policy_path(place.stage),
        "files": files_of({**place.sources, "advantage": place.stage}, place.judge, index),
    }


def _locate(run: Run, question: Question) -> Place:
    stage = run.stage(question.source)
    if stage.kind != "advantage":
        raise UsageError(f"--from is advantage or advantage@NAME, not {question.source!r}")
    manifest = stage.require_fresh()
    sources = {run.stage(name).kind: run.stage(name) for name in manifest.inputs}
    index, traj_id = _find(run, question.trajectory)
    trajectories = sources["rollout"].read("trajectories", index)
    trajectory = trajectories.row(by_predicate=pl.col("traj_id") == traj_id, named=True)
    turn = _turn(sources["rollout"], index, traj_id, question.turn)
    name = _estimator(manifest.config["estimators"], question)
    knobs = registry.split_knobs(manifest.config["estimators"], manifest.config["knobs"])[name]
    return Place(
        stage=stage,
        sources=sources,
        judge=_judge(run, sources),
        index=index,
        name=name,
        knobs=knobs,
        method=registry.make(name, **knobs),
        row=_row(stage, index, name, traj_id, question.turn),
        turn=turn,
        trajectory=trajectory,
        group=trajectories.filter(pl.col("group_id") == trajectory["group_id"]).sort("sample"),
    )


def _number(place: Place, again: float | None, full: bool) -> Facts:
    """The stored row, and its advantage computed again."""
    row = place.row
    return {
        "estimator": place.name,
        "knobs": place.knobs,
        **{key: row[key] for key in ("base", "local", "advantage", "reason")},
        "reason_means": REASONS.get(row["reason"]),
        "token_advantages": _tokens(row["token_advantages"], full),
        "recomputed": again,
        "recomputed_is_same": _same(again, row["advantage"]),
    }


def _policy_path(stage: Stage) -> str | None:
    policy = stage.manifest().policy
    return None if policy is None else policy.path


def _find(run: Run, wanted: str) -> tuple[int, str]:
    """The shard and id of the trajectory that `wanted` names."""
    rollout = run.stage("rollout")
    ids: dict[str, int] = {}
    for index in sorted(rollout.require_complete().shards):
        names = rollout.read("trajectories", index, ("traj_id",))["traj_id"]
        ids |= {str(name): index for name in names}
    group, dot, sample = wanted.rpartition(".")
    if wanted in ids:
        return ids[wanted], wanted
    found = sorted(name for name in ids if name.startswith(wanted))
    if not found and dot:
        found = sorted(
            name for name in ids if name.startswith(group) and name.rpartition(".")[2] == sample
        )
    if len(found) == 1:
        return ids[found[0]], found[0]
    if found:
        some = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
        raise UsageError(f"{wanted!r} names several trajectories of {run.path}: {some}")
    near = get_close_matches(wanted, sorted(ids), n=3, cutoff=0.5)
    raise UsageError(
        f"{run.path} has no trajectory {wanted!r}"
        + (f"; near it: {', '.join(near)}" if near else ""),
        hint=f"list the groups: prover show {run.path}",
    )


def _turn(rollout: Stage, index: int, traj_id: str, turn: int) -> Facts:
    rows = rollout.read("turns", index).filter(pl.col("traj_id") == traj_id)
    found = rows.filter(pl.col("turn") == turn)
    if found.is_empty():
        held = [int(number) for number in rows["turn"].sort()]
        known = f"its turns are {held[0]} to {held[-1]}" if held else "it has none"
        raise UsageError(f"trajectory {traj_id} has no turn {turn}; {known}")
    return found.row(0, named=True)


def _estimator(held: list[str], question: Question) -> str:
    wanted = question.estimator
    if wanted is None and len(held) > 1 and "prover" not in held:
        raise UsageError(
            f"{question.source} holds {', '.join(held)}", hint="name one of them: --estimator NAME"
        )
    name = wanted or (held[0] if len(held) == 1 else "prover")
    if name not in held:
        near = get_close_matches(name, held, n=3, cutoff=0.5)
        raise UsageError(
            f"{question.source} holds no estimator {name!r}; it holds {', '.join(held)}"
            + (f" (near it: {', '.join(near)})" if near else "")
        )
    return name


def _row(stage: Stage, index: int, name: str, traj_id: str, turn: int) -> Facts:
    key = (pl.col("estimator") == name) & (pl.col("traj_id") == traj_id) & (pl.col("turn") == turn)
    return stage.read("advantages", index).row(by_predicate=key, named=True)


def _instruction(rollout: Stage, index: int, task_id: str) -> str:
    tasks = rollout.read("tasks", index)
    return str(tasks.row(by_predicate=pl.col("task_id") == task_id, named=True)["instruction"])


def _covers(estimate: Facts, traj_id: str, turn: int) -> bool:
    return (
        estimate["traj_id"] == traj_id
        and estimate["start_turn"] is not None
        and estimate["start_turn"] <= turn < estimate["end_turn"]
    )


def _judge(run: Run, sources: Mapping[str, Stage]) -> Stage | None:
    """The judge behind the advantage: one that it read, or whose proposals were verified."""
    if "judge" in sources:
        return sources["judge"]
    verified = sources.get("verify")
    inputs = {} if verified is None else verified.manifest().inputs
    return next((run.stage(n) for n in inputs if n.partition("@")[0] == "judge"), None)


def _prepared(place: Place) -> tuple[Estimator, CreditTables]:
    """The estimator, which has seen the run where it needs it, and the tables of the shard."""
    reader = ShardReader({place.name: place.method}, place.sources)
    every = range(place.sources["rollout"].manifest().n_shards)
    estimator = prepare(place.name, place.method, (reader.tables(i) for i in every))
    return estimator, reader.tables(place.index)


def _again(place: Place, estimator: Estimator, tables: CreditTables) -> float | None:
    """The advantage computed from the tables."""
    rows = credit(place.name, estimator, tables)
    key = (pl.col("traj_id") == place.row["traj_id"]) & (pl.col("turn") == place.row["turn"])
    value = rows.row(by_predicate=key, named=True)["advantage"]
    return None if value is None else float(value)


def _with_chain(estimates: list[Facts], estimator: Estimator, tables: CreditTables) -> list[Facts]:
    """Estimates with what prover-chain makes of them, where it is the estimator."""
    if not isinstance(estimator, Calibrated):
        return estimates
    gains = {row["proposal_id"]: row for row in estimator.gains(tables).iter_rows(named=True)}
    fitted = asdict(estimator.calibration)
    return [one | gains.get(one["proposal_id"], {}) | fitted for one in estimates]


def _same(again: float | None, stored: float | None) -> bool:
    if again is None or stored is None:
        return again is stored
    return abs(again - stored) < SAME


def _tokens(values: list[float] | None, full: bool) -> Facts | None:
    """What the method says of single tokens."""
    if not values:
        return None
    facts: Facts = {"n": len(values), "min": min(values), "max": max(values)}
    facts["mean"] = sum(values) / len(values)
    return facts | ({"values": values} if full else {})
