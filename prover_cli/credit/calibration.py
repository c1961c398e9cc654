"""From chain values to success rates: a logistic regression on a run's own continuations.

    rate = sigmoid(a + b side + c logit(v))      side: 0 before a segment, 1 after it

`v` is a chain value, kept within [0.02, 0.98]. Every continuation is one observation, with the
value that the chain would have without it, so that the regression sees outcomes the value has not
seen. `a`, `b` and `c` are ridge (MAP) estimates, drawn towards 0, 0 and 1: without continuations,
chain values are taken as they are. Where they say little, c is small and rates are near the run's
means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PRIOR = np.array([0.0, 0.0, 1.0])
_STEPS = 50


@dataclass(frozen=True)
class Calibration:
    """The coefficients of a run."""

    intercept: float
    side: float
    slope: float

    @classmethod
    def fit(cls, values: Floats, after: Ints, success: Ints) -> Calibration:
        """One element per continuation: the chain value of its state without it, whether that
        state is behind a segment, and its outcome."""
        return cls(*map(float, _regression(_features(values, after), success)))

    def rate(self, values: Floats, after: Ints) -> Floats:
        """The success rate that chain values stand for."""
        coefficients = np.array([self.intercept, self.side, self.slope])
        return _sigmoid(_features(values, after) @ coefficients)


def _features(values: Floats, after: Ints) -> Floats:
    v = np.clip(values, 0.02, 0.98)
    return np.stack([np.ones(len(v)), after.astype(np.float64), np.log(v / (1 - v))], axis=1)


def _sigmoid(x: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-x))
    return found


def _regression(x: Floats, success: Ints) -> Floats:
    """Newton's method on a strictly concave posterior; halved steps keep it climbing."""

    def height(c: Floats) -> float:
        at = x @ c
        return float((success * at - np.logaddexp(0.0, at)).sum() - ((c - _PRIOR) ** 2).sum() / 2)

    c = _PRIOR
    for _ in range(_STEPS):
        p = _sigmoid(x @ c)
        slope = x.T @ (success - p) - (c - _PRIOR)
        step = np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]) + np.eye(3), slope)
        while height(c + step) < height(c) - 1e-12:
            step = step / 2
        c = c + step
        if np.abs(step).max() < 1e-10:
            break
    return c
