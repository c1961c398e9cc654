"""What a credit method is: tables in, one advantage per turn out.

An estimator is a frozen dataclass whose fields are its knobs. It sees whole groups and nothing of
files, models or environments, so the same data can be credited by any number of methods. Rows of
void trajectories have null advantages with the reason `void`. Where a method compares the outcomes
of a group, a group of one has null advantages with the reason `singleton`, and a group whose
outcomes are all equal has exactly 0.

Most methods need nothing beyond a group, so a shard can be credited on its own. A method that
needs a number of the whole run (whitening over the batch, keeping the best quarter of the groups)
is `RunScoped`: `statistics` says in a few numbers per group what a shard contributes, and `fitted`
turns the numbers of all shards into an estimator for each of them. Two passes, memory bounded by a
shard and a row per group.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import polars as pl

from prover_cli.errors import UsageError
from prover_cli.order import n_duplicates
from prover_cli.shards.schema import TABLES

_KEYS = {name: table.key for name, table in TABLES.items()}


class Reason(StrEnum):
    BASE = "base"
    """The trajectory's advantage, nothing local."""
    LOCAL = "local"
    """The method has a part of its own at this turn."""
    SEGMENT = "segment"
    """In a verified segment: the gain was added."""
    NOT_CREDITED = "segment_not_credited"
    """In a proposed segment whose estimate did not pass the gate."""
    NO_ESTIMATE = "segment_without_estimate"
    """In a proposed segment that could not be verified, or that has no confidence."""
    VALUE_DIFFERENCE = "value_difference"
    """The difference of the values at two states."""
    NO_VALUE = "turn_without_value"
    """A value that the method needs is missing: no advantage."""
    NO_SCORE = "turn_without_score"
    """The scoring pass has nothing on this turn: the trajectory's advantage."""
    NO_LABEL = "turn_without_label"
    """The judge has no opinion on this turn: the trajectory's advantage."""
    UNLABELLED = "unlabelled"
    """The judge did not label a trajectory whose labels the method needs: no advantage."""
    NOT_CRITICAL = "not_critical"
    """The method learns from other turns only: no advantage."""
    FILTERED = "filtered"
    """The method leaves the group, or a turn without signal, out: no advantage."""
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
    scores: pl.DataFrame | None = None
    """Per turn, what a model says of it afterwards; a method needs the columns that it reads."""

    def __post_init__(self) -> None:
        for name, key in _KEYS.items():
            frame = getattr(self, name, None)
            if isinstance(frame, pl.DataFrame) and set(key) <= set(frame.columns):
                duplicates = n_duplicates(frame, tuple(key))
                if duplicates:
                    raise UsageError(f"table {name} holds {duplicates} duplicated keys {list(key)}")


class Estimator(Protocol):
    """A credit method that needs nothing beyond a group."""

    needs: ClassVar[frozenset[str]]
    """Tables it cannot do without."""

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        """One row per turn: traj_id, turn, group_id, base, local, advantage, token_advantages,
        reason. `advantage` is `base` plus `local` where there is a local part."""
        ...


@runtime_checkable
class RunScoped(Protocol):
    """A credit method that needs numbers of the whole run."""

    needs: ClassVar[frozenset[str]]
    """Tables it cannot do without."""

    def statistics(self, tables: CreditTables) -> pl.DataFrame:
        """What these groups contribute: `group_id` and numbers, at most one row per group."""
        ...

    def fitted(self, statistics: pl.DataFrame) -> Estimator:
        """The estimator of a run, given the rows of all of its groups in any order."""
        ...


Method: TypeAlias = Estimator | RunScoped


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
