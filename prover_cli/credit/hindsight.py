"""What a scoring pass says of a turn, from the table `scores`.

`token_logprobs` are the policy's log-probs of the turn's action ids, teacher-forced;
`hindsight_logprobs` are those under a context that also shows a successful sibling, null where the
group has none to show. One number per action id in both.
"""

from __future__ import annotations

import polars as pl

from prover_cli.credit.base import CreditTables
from prover_cli.credit.frames import require
from prover_cli.errors import UsageError
from prover_cli.order import in_order

_REALS = pl.List(pl.Float64)


def with_gaps(rows: pl.DataFrame, tables: CreditTables) -> pl.DataFrame:
    """Add `gap_sum` and `gap_mean` over the turn's tokens of hindsight minus own log-probs; null
    where there is nothing to compare. By traj_id and turn."""
    scores = require(
        tables.scores, "scores", "traj_id", "turn", "token_logprobs", "hindsight_logprobs"
    )
    own, shown = pl.col("token_logprobs").cast(_REALS), pl.col("hindsight_logprobs").cast(_REALS)
    odd = scores.filter(own.list.len() != shown.list.len())
    if odd.height:
        raise UsageError(
            f"scores of {odd['traj_id'][0]} turn {odd['turn'][0]}: token_logprobs and "
            "hindsight_logprobs have different lengths",
            hint="prover score RUN --overwrite",
        )
    n = own.list.len()
    gaps = scores.with_columns(
        pl.when(n > 0).then(shown.list.sum() - own.list.sum()).alias("gap_sum")
    ).select("traj_id", "turn", "gap_sum", (pl.col("gap_sum") / n).alias("gap_mean"))
    return in_order(rows.join(gaps, on=["traj_id", "turn"], how="left"))


def with_surprise(rows: pl.DataFrame, tables: CreditTables) -> pl.DataFrame:
    """Add `surprise`, the mean over the turn's tokens of -log p; null where there is none."""
    scores = require(tables.scores, "scores", "traj_id", "turn", "token_logprobs")
    own = pl.col("token_logprobs").cast(_REALS)
    surprise = scores.select("traj_id", "turn", (-own.list.mean()).alias("surprise"))
    return in_order(rows.join(surprise, on=["traj_id", "turn"], how="left"))


def standard(x: pl.Expr, over: str, eps: float = 1e-6) -> pl.Expr:
    """(x - mean) / (std + eps) with ddof 0, over the known values; 0 where they are equal."""
    spread = x.max().over(over) - x.min().over(over)
    z = (x - x.mean().over(over)) / (x.std(ddof=0).over(over) + eps)
    return pl.when(x.is_null()).then(None).when(spread == 0).then(0.0).otherwise(z)
