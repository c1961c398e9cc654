"""Count, mean and spread of a number over a run, gathered group by group.

Each group gives its weight, mean, sum of squared deviations, least and greatest value; they merge
by the formula of Chan et al. (1979), in the order of group ids, so that neither shards nor rows
change a bit of the result beyond the rounding inside a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, sqrt

import polars as pl

from prover_cli.credit.frames import EQUAL


@dataclass(frozen=True)
class Moments:
    """Of a whole run. `deviation` is unbiased (as verl); None with a weight of at most 1."""

    mean: float
    deviation: float | None
    equal: bool
    """All values are equal: there is nothing to tell apart."""

    def whitened(self, x: pl.Expr, eps: float) -> pl.Expr:
        """`(x - mean) / sqrt(variance + eps)`; 0 when all values are equal."""
        if self.equal or self.deviation is None:
            return pl.when(x.is_not_null()).then(0.0)
        return (x - self.mean) / sqrt(self.deviation**2 + eps)


def of_groups(frame: pl.DataFrame, value: str, weight: str) -> pl.DataFrame:
    """One row per group: `group_id`, n, mean, m2, low, high of the rows with a value."""
    x, w = pl.col(value), pl.col(weight).cast(pl.Float64)
    return (
        frame.filter(x.is_not_null() & (w > 0))
        .with_columns(((x * w).sum() / w.sum()).over("group_id").alias("_mean"))
        .group_by("group_id")
        .agg(
            w.sum().alias("n"),
            pl.col("_mean").first().alias("mean"),
            (w * (x - pl.col("_mean")) ** 2).sum().alias("m2"),
            x.min().alias("low"),
            x.max().alias("high"),
        )
    )


def merged(groups: pl.DataFrame) -> Moments:
    """The moments of all groups; mean 0 and no deviation when there are none."""
    rows = groups.sort("group_id").to_dict(as_series=False)
    n = fsum(rows["n"])
    if not n:
        return Moments(0.0, None, True)
    mean = fsum(a * b for a, b in zip(rows["n"], rows["mean"], strict=True)) / n
    m2 = fsum(
        m2 + weight * (own - mean) ** 2
        for m2, weight, own in zip(rows["m2"], rows["n"], rows["mean"], strict=True)
    )
    equal = max(rows["high"]) - min(rows["low"]) < EQUAL
    return Moments(mean, sqrt(m2 / (n - 1)) if n > 1 else None, equal)
