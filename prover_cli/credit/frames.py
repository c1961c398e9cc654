"""Small steps that many credit methods share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import polars as pl

from prover_cli.credit.base import Reason
from prover_cli.errors import UsageError

EQUAL = 1e-8
"""Numbers that differ by less are equal: the residue of sums is not a signal."""

ROW = (
    "traj_id",
    "turn",
    "group_id",
    "base",
    "local",
    "advantage",
    "token_advantages",
    "reason",
)

_STAGE = {
    "trajectories": "prover rollout",
    "turns": "prover rollout",
    "proposals": "prover judge RUN",
    "continuations": "prover verify RUN",
    "estimates": "prover verify RUN",
    "values": "prover verify RUN --proposer all-turns",
    "scores": "prover score RUN",
}


def written_by(tables: Sequence[str]) -> str:
    """The commands that write these tables, each once."""
    return "; ".join(dict.fromkeys(_STAGE[name] for name in tables))


def require(frame: pl.DataFrame | None, table: str, *columns: str) -> pl.DataFrame:
    """The frame, or `UsageError` naming the table and columns that are missing."""
    if frame is None:
        raise UsageError(f"the table {table} is missing", hint=written_by([table]))
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise UsageError(
            f"table {table} has no column {', '.join(missing)}",
            hint=f"{written_by([table])} (or add the column to the frame)",
        )
    return frame


def text(reason: Reason) -> pl.Expr:
    return pl.lit(str(reason))


def with_local(
    rows: pl.DataFrame, local: pl.Expr, reason: Reason, otherwise: pl.Expr | None = None
) -> pl.DataFrame:
    """Rows whose advantage is `base + local` where both are known, and stays `base` elsewhere.

    `otherwise` is the reason of rows that have a base and no local part; the default keeps it.
    """
    rows = rows.with_columns(pl.when(pl.col("base").is_not_null()).then(local).alias("local"))
    known = pl.col("local").is_not_null()
    kept = pl.when(pl.col("base").is_not_null()).then(
        pl.col("reason") if otherwise is None else otherwise
    )
    return rows.with_columns(
        pl.when(known).then(pl.col("base") + pl.col("local")).otherwise("base").alias("advantage"),
        pl.when(known).then(text(reason)).otherwise(kept.otherwise("reason")).alias("reason"),
    ).select(ROW)


def scaled(rows: pl.DataFrame, weight: pl.Expr, missing: Reason) -> pl.DataFrame:
    """Rows whose advantage is `base * weight`; `missing` is the reason where there is no weight.

    Groups without a signal keep their 0 and their reason.
    """
    signal = pl.col("reason") == str(Reason.BASE)
    rows = rows.with_columns(pl.when(signal).then(weight).alias("_weight"))
    known = pl.col("_weight").is_not_null()
    advantage = pl.when(known).then(pl.col("base") * pl.col("_weight")).otherwise("base")
    return rows.with_columns(
        advantage.alias("advantage"),
        pl.when(known).then(advantage - pl.col("base")).alias("local"),
        pl.when(known)
        .then(text(Reason.LOCAL))
        .when(signal)
        .then(text(missing))
        .otherwise("reason")
        .alias("reason"),
    ).select(ROW)


def purely_local(rows: pl.DataFrame, amount: pl.Expr, reason: pl.Expr) -> pl.DataFrame:
    """Rows of a method without a trajectory-level part: `amount` is local part and advantage."""
    return rows.select(
        "traj_id",
        "turn",
        "group_id",
        pl.lit(None, pl.Float64).alias("base"),
        amount.alias("local"),
        amount.alias("advantage"),
        pl.lit(None, pl.List(pl.Float32)).alias("token_advantages"),
        reason.alias("reason"),
    )


def left_out(rows: pl.DataFrame, which: pl.Expr, reason: Reason) -> pl.DataFrame:
    """Rows of which those with a base that are `which` have no advantage."""
    out = which & pl.col("base").is_not_null()
    return rows.with_columns(
        *(pl.when(~out).then(name).alias(name) for name in ("base", "local", "advantage")),
        pl.when(out).then(text(reason)).otherwise("reason").alias("reason"),
    ).select(ROW)


def normalised(
    x: pl.Expr,
    over: Sequence[str],
    norm: Literal["mean", "std"],
    ddof: int = 1,
    eps: float = 1e-6,
) -> pl.Expr:
    """`x` less its mean over the rows of a set, divided by their deviation for `std`.

    Exactly 0 where a set has one value, or equal values; nulls are in no set.
    """
    spread = x.max().over(over) - x.min().over(over)
    centred = x - x.mean().over(over)
    if norm == "std":
        centred = centred / (x.std(ddof=ddof).over(over) + eps)
    return pl.when(x.is_null()).then(None).when(spread < EQUAL).then(0.0).otherwise(centred)
