"""Checks of a whole run directory: every promise the tables make, verified on the files."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from prover_cli.errors import ShardError
from prover_cli.ids import text_hash
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.schema import TABLES
from prover_cli.shards.store import check_content, read_arrow
from prover_cli.temporary import PREFIX

Fault = tuple[str, str]
"""Where, and what is wrong."""


def faults(run: Run) -> Iterator[Fault]:
    """Everything wrong in a run directory; nothing when all is well."""
    for stage in run.stages():
        try:
            yield from _stage_faults(stage)
        except ShardError as error:
            yield stage.name, error.message


def _stage_faults(stage: Stage) -> Iterator[Fault]:
    manifest = stage.manifest()
    damaged = stage.damaged()
    yield from ((f"{stage.name} shard {index}", fault) for index, fault in damaged.items())
    listed = {file.name for entry in manifest.shards.values() for file in entry.files.values()}
    for path in sorted(stage.folder.iterdir()):
        if path.name.startswith(PREFIX):
            yield str(path), "left by a writer that was killed"
        elif path.suffix == ".parquet" and path.name not in listed:
            yield str(path), "is not in the manifest"
    if damaged:
        return
    for index in sorted(manifest.shards):
        for table in stage.tables():
            path = stage.folder / manifest.shards[index].files[table].name
            arrow = read_arrow(path, TABLES[table])
            if arrow.num_rows != manifest.shards[index].files[table].rows:
                yield str(path), "holds another number of rows than the manifest says"
            try:
                check_content(TABLES[table], arrow)
            except ValueError as error:
                yield str(path), str(error)
    yield from _group_faults(stage)
    yield from _relation_faults(stage)


def _group_faults(stage: Stage) -> Iterator[Fault]:
    """Groups that span shards."""
    seen: dict[str, int] = {}
    for table in stage.tables():
        if "group_id" not in TABLES[table].names:
            continue
        for index in sorted(stage.manifest().shards):
            for group in stage.read(table, index)["group_id"].unique():
                if seen.setdefault(group, index) != index:
                    yield stage.name, f"group {group} spans shards {seen[group]} and {index}"


def _relation_faults(stage: Stage) -> Iterator[Fault]:
    """Rows that contradict each other or the stage they were made from."""
    if stage.kind in ("rollout", "evaluate"):
        yield from _trajectory_faults(stage)
        return
    rollout = Stage(stage.run, "rollout")
    if not rollout.exists():
        yield stage.name, "has no rollout beside it"
        return
    known = set(rollout.read("trajectories")["traj_id"])
    for table in stage.tables():
        named = stage.read(table)["traj_id"].drop_nulls().unique()
        strangers = sorted(set(named) - known)
        if strangers:
            yield stage.name, f"{table} names unknown trajectories: {', '.join(strangers[:3])}"


def _trajectory_faults(stage: Stage) -> Iterator[Fault]:
    trajectories, turns = stage.read("trajectories"), stage.read("turns")
    counts = turns.group_by("traj_id").agg(
        pl.len().alias("rows"),
        pl.col("turn").max().alias("last"),
        pl.col("action_ids").list.len().sum().alias("tokens"),
    )
    joined = trajectories.join(counts, on="traj_id", how="full", coalesce=True)
    wrong = joined.filter(
        (pl.col("n_turns") != pl.col("rows").fill_null(0))
        | (pl.col("last") + 1 != pl.col("rows"))
        | (pl.col("n_action_tokens") != pl.col("tokens").fill_null(0))
        | pl.col("n_turns").is_null()
    )
    for traj_id in wrong["traj_id"]:
        yield stage.name, f"trajectory {traj_id}: its turns are not those it counts"
    lengths = pl.col("action_ids").list.len() != pl.col("logprobs").list.len()
    for row in turns.filter(lengths).iter_rows(named=True):
        yield stage.name, f"{row['traj_id']} turn {row['turn']}: ids and log-probs differ in number"
    null = pl.col("reward").is_null() != (pl.col("stop_reason") == "void")
    for traj_id in trajectories.filter(null)["traj_id"]:
        yield stage.name, f"trajectory {traj_id}: void and reward contradict each other"
    for row in turns.iter_rows(named=True):
        if text_hash(row["observation"]) != row["observation_hash"]:
            where = f"{row['traj_id']} turn {row['turn']}"
            yield stage.name, f"{where}: the observation does not match its hash"
