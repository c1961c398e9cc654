"""Continuations that runs share: a folder of small Parquet files that are only ever added.

A continuation is a function of the verification's seed, the state and its number `k`; the state's
id names the policy, its sampling, the environment, the context and the turns that are left. Taking
one from the cache therefore gives the row that sampling it again would give, and a cache changes
what a verification costs and never what it finds (with an engine that is deterministic for the
same requests). Files are written under names of their own and renamed when whole, so any number of
processes may add to one folder; what two of them sampled at once is stored twice and read once.
Continuations without an outcome are not kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from prover_cli.errors import ShardError
from prover_cli.shards.run import Stage
from prover_cli.shards.schema import CONTINUATIONS, Column, Table
from prover_cli.shards.store import make_directory, read_arrow, write_table

_PLACE = ("group_id", "traj_id", "turn", "cached")
"""Columns of a continuation that belong to the run in which it was sampled."""
CACHED = replace(
    CONTINUATIONS,
    name="cached_continuations",
    key=("seed", "state_id", "k"),
    columns=(
        Column("seed", pa.int64(), "Seed of the verification."),
        *(column for column in CONTINUATIONS.columns if column.name not in _PLACE),
    ),
)
Row = dict[str, Any]


class ValueCache:
    """The continuations of one policy and seed in a folder, as they were when it was opened.

    None for a folder is an empty cache that keeps nothing.
    """

    def __init__(self, folder: Path | None, policy_id: str, seed: int) -> None:
        self._folder = None if folder is None else folder / policy_id
        self._policy_id, self._seed = policy_id, seed
        self._known = _read(self._folder, CACHED).filter(pl.col("seed") == seed)

    def find(self, state_ids: Iterable[str]) -> dict[tuple[str, int], Row]:
        """The known continuations of some states, by state and number."""
        if self._known.is_empty():
            return {}
        rows = self._known.filter(pl.col("state_id").is_in(list(state_ids))).drop("seed")
        return {(row["state_id"], row["k"]): row for row in rows.iter_rows(named=True)}

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep what was newly sampled and has an outcome."""
        new = [
            {**{name: row[name] for name in CACHED.names[1:]}, "seed": self._seed}
            for row in rows
            if row["success"] is not None and not row["cached"]
        ]
        if self._folder is None or not new:
            return
        make_directory(self._folder)
        path = self._folder / f"continuations-{secrets.token_hex(8)}.parquet"
        write_table(path, CACHED, new, {"policy_id": self._policy_id})


def keep(stage: Stage, folder: Path, seed: int) -> None:
    """Put the continuations of a finished verification into a cache folder."""
    manifest = stage.require_complete()
    assert manifest.policy is not None
    cache = ValueCache(folder, manifest.policy.policy_id, seed)
    rows = [{**row, "cached": False} for row in stage.read("continuations").iter_rows(named=True)]
    known = cache.find({row["state_id"] for row in rows})
    cache.add([row for row in rows if (row["state_id"], row["k"]) not in known])


def _read(folder: Path | None, table: Table) -> pl.DataFrame:
    """All rows of a folder, each key once."""
    paths = [] if folder is None else sorted(folder.glob("continuations-*.parquet"))
    parts = [table.arrow().empty_table()]
    for path in paths:
        try:
            parts.append(read_arrow(path, table))
        except ShardError as error:
            raise ShardError(
                f"the value cache cannot be read: {error.message}",
                hint=f"delete {path}: what it held is sampled again",
            ) from error
    frames = [frame for part in parts if isinstance(frame := pl.from_arrow(part), pl.DataFrame)]
    return pl.concat(frames).unique(list(table.key), keep="first", maintain_order=True)
