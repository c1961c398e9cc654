"""Advantages of several methods side by side, computed from shards that are read one by one.

Of every shard only numbers stay: the advantage of each turn under each method, and where the turn
stands. A method is named as `NAME` or `NAME:STAGE`, where the stage is the verification that its
values and estimates come from, so one method can be compared on several of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from prover_cli.config import AdvantageConfig
from prover_cli.credit import CreditTables, credit, prepare, registry
from prover_cli.credit.base import Estimator, Method
from prover_cli.credit.vineppo import VinePPO
from prover_cli.errors import UsageError
from prover_cli.shards.run import Run, Stage
from prover_cli.stages.advantage import ShardReader, needed_stages, verified_judge
from prover_cli.stages.compare_statistics import Ints, Reals

_DECIMALS = 9
"""Advantages are rounded, so that the residue of sums makes no ranks and signs."""
Flags = npt.NDArray[np.bool_]
Sources = dict[str, Stage]


@dataclass(frozen=True)
class Named:
    """A method, and the stage that its continuations come from."""

    name: str
    source: str
    label: str
    """How it was named."""


@dataclass(frozen=True)
class Credits:
    """Every turn of a run, an entry per turn in every array."""

    trajectories: pl.DataFrame
    """traj_id, group_id, task_id, reward, success and n_turns of every trajectory."""
    group_ids: Sequence[str]
    trajectory: Ints
    """Which row of `trajectories` the turn belongs to."""
    group: Ints
    """Which of `group_ids`."""
    turn: Ints
    in_segment: Flags | None
    """Whether a judge's segment holds the turn; None when no judge was run."""
    amounts: Mapping[str, Reals]
    """Advantages by label; NaN where a method gives none."""
    local: Mapping[str, Flags]
    """By label, whether the method has a part of its own at the turn."""
    error: Reals | None
    """Standard error of the reference's advantage; NaN where it is unknown."""

    @property
    def n_turns(self) -> Ints:
        """Turns of the trajectory that the turn belongs to."""
        return self.trajectories["n_turns"].to_numpy().astype(np.int64)[self.trajectory]


def named(text: str, source: str) -> list[Named]:
    """The methods of a list separated by commas; `UsageError` for one that is named twice."""
    found = []
    for label in (part.strip() for part in text.split(",")):
        name, _, own = label.partition(":")
        found.append(Named(name, own or source, label))
    twice = sorted({one.label for one in found if [o.label for o in found].count(one.label) > 1})
    if twice:
        raise UsageError(f"--estimator names {', '.join(twice)} more than once")
    return found


def judge_of(run: Run, source: str) -> Stage | None:
    """The judge whose segments are looked at: the one that `source` verified, else `judge`."""
    verified = run.stage(source)
    stage = run.stage(verified_judge(verified) if verified.exists() else "judge")
    return stage if stage.exists() else None


def made(methods: Sequence[Named], knobs: Mapping[str, Any]) -> dict[str, Method]:
    """The methods by name; `UsageError` for an unknown one, or a knob that none has."""
    names = list(dict.fromkeys(method.name for method in methods))
    own = registry.split_knobs(names, knobs)
    return {name: registry.make(name, **own[name]) for name in names}


def stages_of(run: Run, methods: Sequence[Named], made: Mapping[str, Method]) -> dict[str, Sources]:
    """By verification, the stages that the methods on it read, by kind.

    Raises `ShardError` naming the stage to run when one is missing, unfinished or stale.
    """
    found: dict[str, Sources] = {}
    for source in dict.fromkeys(method.source for method in methods):
        own = {m.name: made[m.name] for m in methods if m.source == source}
        needed = needed_stages(AdvantageConfig(tuple(own), {}, source), own, run)
        found[source] = {"rollout": run.stage("rollout")} | {s.kind: s for s in needed}
        for stage in found[source].values():
            stage.require_fresh()
    return found


def read_credits(
    run: Run,
    methods: Sequence[Named],
    knobs: Mapping[str, Any],
    judge: Stage | None,
    reference: Named | None = None,
) -> Credits:
    """The advantages of the methods, and with a reference the standard errors of its own.

    Raises what `stages_of` and the methods raise.
    """
    by_name = made(methods, knobs)
    readers = {
        source: ShardReader(
            {m.name: by_name[m.name] for m in methods if m.source == source}, stages
        )
        for source, stages in stages_of(run, methods, by_name).items()
    }
    rollout = run.stage("rollout")
    every = range(rollout.require_fresh().n_shards)
    if judge is not None:
        judge.require_fresh()
    estimators: dict[str, Estimator] = {
        m.label: prepare(m.name, by_name[m.name], (readers[m.source].tables(i) for i in every))
        for m in methods
    }
    errors = reference is not None and isinstance(by_name[reference.name], VinePPO)
    parts = []
    for index in every:
        tables = {source: reader.tables(index) for source, reader in readers.items()}
        part = _places(rollout, judge, index)
        for method in methods:
            rows = credit(method.name, estimators[method.label], tables[method.source])
            part = _with_amounts(part, rows, method.label)
        if errors and reference is not None:
            part = _with_error(part, standard_errors(tables[reference.source]))
        parts.append(part)
    trajectories = pl.concat(rollout.read("trajectories", i, _TRAJECTORY) for i in every)
    return _credits(pl.concat(parts), trajectories, methods)


_TRAJECTORY = ("traj_id", "group_id", "task_id", "reward", "success", "n_turns")


def _places(rollout: Stage, judge: Stage | None, index: int) -> pl.DataFrame:
    """traj_id, turn and `in_segment` (null without a judge) of every turn of a shard, in order."""
    turns = rollout.read("turns", index, ("traj_id", "turn"))
    if judge is None:
        return turns.with_columns(pl.lit(None, pl.Boolean).alias("in_segment"))
    segments = judge.read("proposals", index).filter(pl.col("status") == "ok")
    inside = pl.col("turn").is_between("start_turn", "end_turn", closed="left")
    hit = (
        turns.join(segments.select("traj_id", "start_turn", "end_turn"), on="traj_id")
        .filter(inside)
        .select("traj_id", "turn", pl.lit(True).alias("in_segment"))
        .unique()
    )
    joined = turns.join(hit, on=["traj_id", "turn"], how="left", maintain_order="left")
    return joined.with_columns(pl.col("in_segment").fill_null(False))


def _with_amounts(part: pl.DataFrame, rows: pl.DataFrame, label: str) -> pl.DataFrame:
    columns = (
        pl.col("advantage").round(_DECIMALS).alias(f"a {label}"),
        pl.col("local").is_not_null().alias(f"l {label}"),
    )
    return _beside(part, rows.select("traj_id", "turn", *columns))


def _with_error(part: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    return _beside(part, rows.select("traj_id", "turn", "error"))


def _beside(part: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    key = ["traj_id", "turn"]
    if part.select(key).equals(rows.select(key)):
        return part.hstack(rows.drop(key))
    return part.join(rows, on=key, how="left", maintain_order="left")


def standard_errors(tables: CreditTables) -> pl.DataFrame:
    """traj_id, turn and the `error` of `V(s[t+1]) - V(s[t])`; null where a value is missing.

    A rate k/n has the variance p (1 - p) / n at p = (k + 1) / (n + 2), so that 0 of n and n of n
    are not certain. The end of a trajectory is.
    """
    assert tables.values is not None
    p = (pl.col("n_success") + 1) / (pl.col("n_scored") + 2)
    variance = pl.when(pl.col("n_scored") > 0).then(p * (1 - p) / pl.col("n_scored"))
    rows = (
        tables.turns.select("traj_id", "turn")
        .sort("traj_id", "turn")
        .join(
            tables.values.select("traj_id", "turn", variance.alias("own")),
            on=["traj_id", "turn"],
            how="left",
            maintain_order="left",
        )
    )
    last = pl.col("turn") == pl.col("turn").max().over("traj_id")
    after = pl.when(last).then(0.0).otherwise(pl.col("own").shift(-1).over("traj_id"))
    return rows.select("traj_id", "turn", (pl.col("own") + after).sqrt().alias("error"))


def _credits(rows: pl.DataFrame, trajectories: pl.DataFrame, methods: Sequence[Named]) -> Credits:
    group_ids = trajectories["group_id"].unique().sort().to_list()
    codes = trajectories.with_row_index("code").join(
        pl.DataFrame({"group_id": group_ids}, {"group_id": pl.String}).with_row_index("group"),
        on="group_id",
        how="left",
    )
    placed = rows.join(
        codes.select("traj_id", "code", "group"), on="traj_id", how="left", maintain_order="left"
    )

    def whole(name: str) -> Ints:
        return placed[name].to_numpy().astype(np.int64)

    def real(name: str) -> Reals:
        # Adding 0 turns -0 into 0, which would rank below it.
        return placed[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() + 0.0

    judged = placed["in_segment"].null_count() == 0
    return Credits(
        trajectories=trajectories,
        group_ids=group_ids,
        trajectory=whole("code"),
        group=whole("group"),
        turn=whole("turn"),
        in_segment=placed["in_segment"].to_numpy().astype(bool) if judged else None,
        amounts={m.label: real(f"a {m.label}") for m in methods},
        local={m.label: placed[f"l {m.label}"].fill_null(False).to_numpy() for m in methods},
        error=real("error") if "error" in placed.columns else None,
    )
