"""What a credit method is: tables in, one advantage per turn out.

An estimator is a frozen dataclass whose fields are its knobs. It sees whole groups and nothing of
files, models or environments, so the same data can be credited by any number of methods. Rows of
void trajectories have null advantages with the reason `void`; a group of one has null advantages
with the reason `singleton`; a group whose outcomes are all equal has exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

import polars as pl

from prover_cli.errors import UsageError
from prover_cli.shards.schema import TABLES


class Reason(StrEnum):
    BASE = "base"
    """The trajectory's advantage, nothing local."""
    SEGMENT = "segment"
    """In a verified segment: the gain was added."""
    NOT_CREDITED = "segment_not_credited"
    """In a proposed segment whose estimate did not pass the gate."""
    NO_ESTIMATE = "segment_without_estimate"
    """In a proposed segment that could not be verified."""
    ZERO_VARIANCE = "zero_variance"
    """All outcomes of the group are equal."""
    SINGLETON = "singleton"
    """Fewer than two outcomes in the group: no baseline."""
    VOID = "void"
    """The trajectory has no outcome."""


@dataclass(frozen=True)
class CreditTables:
    """The tables of whole groups (columns as in `shards.schema`); None when a stage was not run."""

    trajectories: pl.DataFrame
    turns: pl.DataFrame
    proposals: pl.DataFrame | None = None
    continuations: pl.DataFrame | None = None
    values: pl.DataFrame | None = None
    estimates: pl.DataFrame | None = None

    def __post_init__(self) -> None:
        for name in TABLES:
            frame = getattr(self, name, None)
            key = list(TABLES[name].key)
            if isinstance(frame, pl.DataFrame) and set(key) <= set(frame.columns):
                duplicates = frame.height - frame.select(key).n_unique()
                if duplicates:
                    raise UsageError(f"table {name} holds {duplicates} duplicated keys {key}")


class Estimator(Protocol):
    """A credit method."""

    needs: ClassVar[frozenset[str]]
    """Tables it cannot do without."""

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        """One row per turn: traj_id, turn, group_id, base, local, advantage, token_advantages,
        reason. `advantage` is `base` plus `local` where there is a local part."""
        ...


def broadcast(trajectory_level: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """Give every turn its trajectory's `base` and `reason`; local parts are null."""
    return (
        turns.select("traj_id", "turn", "group_id")
        .join(trajectory_level.select("traj_id", "base", "reason"), on="traj_id", how="left")
        .with_columns(
            pl.lit(None, pl.Float64).alias("local"),
            pl.col("base").alias("advantage"),
            pl.lit(None, pl.List(pl.Float32)).alias("token_advantages"),
        )
    )
