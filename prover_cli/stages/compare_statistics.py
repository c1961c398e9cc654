"""How two columns of advantages agree; every function takes a weight per turn.

A weight is how often a turn was drawn, so the statistics of a bootstrap sample are those of the
same arrays with other weights, ranks included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prover_cli.credit.frames import EQUAL

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Statistic = Callable[[Reals], float | None]
"""A number of a sample, given how often each group was drawn."""


@dataclass(frozen=True)
class Ranks:
    """Ranks of the values of a column; equal values share the mean of their ranks."""

    order: Ints
    start: Ints
    """Where each run of equal values begins in `order`."""
    length: Ints

    @staticmethod
    def of(values: Reals) -> Ranks:
        order = np.argsort(values, kind="stable").astype(np.int64)
        ordered = values[order]
        new = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(values)])
        start = new.astype(np.int64)
        return Ranks(order, start, np.diff(start, append=len(values)))

    def __call__(self, weights: Reals) -> Reals:
        """The rank of every value among the drawn ones, from 1."""
        drawn = np.add.reduceat(weights[self.order], self.start)
        ranks = np.empty(len(weights))
        ranks[self.order] = np.repeat(np.cumsum(drawn) - drawn + (drawn + 1) / 2, self.length)
        return ranks


def pearson(x: Reals, y: Reals, weights: Reals | None = None) -> float | None:
    """The correlation; None where it is undefined: fewer than two values, or equal ones."""
    w = np.ones(len(x)) if weights is None else weights
    total = w.sum()
    if total < 2:
        return None
    dx, dy = x - (w @ x) / total, y - (w @ y) / total
    xx, yy = w @ (dx * dx), w @ (dy * dy)
    if min(xx, yy) < total * EQUAL**2:
        return None
    return float(np.clip((w @ (dx * dy)) / np.sqrt(xx * yy), -1.0, 1.0))


def spearman(x: Reals, y: Reals) -> float | None:
    """The correlation of ranks; None where it is undefined."""
    if len(x) < 2:
        return None
    ones = np.ones(len(x))
    return pearson(Ranks.of(x)(ones), Ranks.of(y)(ones))


def interval(statistic: Statistic, n_groups: int, draws: int, seed: int) -> list[float] | None:
    """95 % percentile interval of a statistic over resampled groups.

    None with fewer than two groups, or where half of the samples have no value.
    """
    if n_groups < 2:
        return None
    random = np.random.default_rng(seed)
    even = np.full(n_groups, 1 / n_groups)
    sampled = (
        statistic(random.multinomial(n_groups, even).astype(np.float64)) for _ in range(draws)
    )
    found = [value for value in sampled if value is not None]
    if 2 * len(found) <= draws:
        return None
    low, high = np.percentile(found, [2.5, 97.5])
    return [float(low), float(high)]


def per_group(values: Reals, group: Ints, n_groups: int) -> Reals:
    """The sum of a column in every group, shape (n_groups,)."""
    return np.bincount(group, weights=values, minlength=n_groups).astype(np.float64)
