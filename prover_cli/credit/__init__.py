"""Credit methods: `compute(estimator, ...)` gives the advantages table of any set of tables."""

from __future__ import annotations

from typing import Any

import polars as pl

from prover_cli.credit import registry
from prover_cli.credit.base import CreditTables
from prover_cli.errors import UsageError

__all__ = ["compute", "registry"]

_COLUMNS = (
    "estimator",
    "traj_id",
    "turn",
    "group_id",
    "base",
    "local",
    "advantage",
    "token_advantages",
    "reason",
)


def compute(
    estimator: str,
    *,
    trajectories: pl.DataFrame,
    turns: pl.DataFrame,
    proposals: pl.DataFrame | None = None,
    continuations: pl.DataFrame | None = None,
    values: pl.DataFrame | None = None,
    estimates: pl.DataFrame | None = None,
    **knobs: Any,
) -> pl.DataFrame:
    """The advantages table of one estimator, sorted by trajectory and turn.

    Frames have the columns of `shards.schema` (those the estimator reads suffice) and hold whole
    groups. Raises `UsageError` for an unknown estimator or knob, a table it needs and was not
    given, or duplicated keys.
    """
    method = registry.make(estimator, **knobs)
    tables = CreditTables(trajectories, turns, proposals, continuations, values, estimates)
    missing = sorted(name for name in method.needs if getattr(tables, name) is None)
    if missing:
        raise UsageError(f"estimator {estimator} needs the tables {', '.join(missing)}")
    rows = method.advantages(tables).with_columns(pl.lit(estimator).alias("estimator"))
    return rows.select(_COLUMNS).sort("traj_id", "turn")
