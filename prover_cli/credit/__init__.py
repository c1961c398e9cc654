"""Credit methods: `compute(estimator, ...)` gives the advantages table of any set of tables.

A caller that has a run in shards uses the three steps that `compute` is made of: `registry.make`
builds a method, `prepare` lets it see all shards where it needs numbers of the whole run, and
`credit` gives the rows of one shard.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from prover_cli.credit import registry
from prover_cli.credit.base import CreditTables, Estimator, Method, RunScoped
from prover_cli.credit.frames import ROW, written_by
from prover_cli.errors import UsageError
from prover_cli.order import in_order

__all__ = ["CreditTables", "RunScoped", "compute", "credit", "prepare", "registry"]


def compute(
    estimator: str,
    *,
    trajectories: pl.DataFrame,
    turns: pl.DataFrame,
    proposals: pl.DataFrame | None = None,
    continuations: pl.DataFrame | None = None,
    values: pl.DataFrame | None = None,
    estimates: pl.DataFrame | None = None,
    scores: pl.DataFrame | None = None,
    **knobs: Any,
) -> pl.DataFrame:
    """The advantages table of one estimator, sorted by trajectory and turn.

    Frames have the columns of `shards.schema` (those the estimator reads suffice) and hold whole
    groups; they are the whole run for an estimator that is run-scoped. Raises `UsageError` for an
    unknown estimator or knob, a table it needs and was not given, or duplicated keys.
    """
    method = registry.make(estimator, **knobs)
    tables = CreditTables(trajectories, turns, proposals, continuations, values, estimates, scores)
    return credit(estimator, prepare(estimator, method, [tables]), tables)


def prepare(name: str, method: Method, shards: Iterable[CreditTables]) -> Estimator:
    """The estimator for each shard of a run; `shards` is only read for a run-scoped method.

    Raises `UsageError` for a table that the method needs and a shard has not, and for a run-scoped
    method without any shard.
    """
    if not isinstance(method, RunScoped):
        return method
    parts = []
    for tables in shards:
        _check(name, method, tables)
        parts.append(method.statistics(tables))
    if not parts:
        raise UsageError(f"estimator {name} needs the whole run, and there is no shard")
    return method.fitted(pl.concat(parts))


def credit(name: str, estimator: Estimator, tables: CreditTables) -> pl.DataFrame:
    """The advantages table of whole groups under the estimator's name, sorted by trajectory and
    turn; `UsageError` for a table that it needs and was not given."""
    _check(name, estimator, tables)
    rows = estimator.advantages(tables).with_columns(pl.lit(name).alias("estimator"))
    return in_order(rows.select("estimator", *ROW))


def _check(name: str, method: Method, tables: CreditTables) -> None:
    missing = sorted(table for table in method.needs if getattr(tables, table) is None)
    if missing:
        raise UsageError(
            f"estimator {name} needs the tables {', '.join(missing)}", hint=written_by(missing)
        )
