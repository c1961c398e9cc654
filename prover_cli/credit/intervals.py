"""What K continuations before and after a segment say about its gain.

Counts are successes of `n` independent continuations on each side. Sources: Newcombe (1998),
method 10 (hybrid score) for the interval; independent Beta(1,1) posteriors for the probability;
`credited_by_chance` is the chance that a segment without any effect looks positive.
"""

from __future__ import annotations

from math import comb, exp, lgamma, sqrt

Z_95 = 1.959963984540054


def standard_error(k_before: int, n_before: int, k_after: int, n_after: int) -> float:
    """Plug-in standard error of `k_after/n_after - k_before/n_before`; 0 at both ends."""
    p0, p1 = k_before / n_before, k_after / n_after
    return sqrt(p0 * (1 - p0) / n_before + p1 * (1 - p1) / n_after)


def wilson(k: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson score interval of a rate."""
    p = k / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def newcombe(
    k_before: int, n_before: int, k_after: int, n_after: int, z: float = Z_95
) -> tuple[float, float]:
    """95 % interval of the gain (after minus before)."""
    p0, p1 = k_before / n_before, k_after / n_after
    low0, high0 = wilson(k_before, n_before, z)
    low1, high1 = wilson(k_after, n_after, z)
    gain = p1 - p0
    low = gain - sqrt((p1 - low1) ** 2 + (high0 - p0) ** 2)
    high = gain + sqrt((high1 - p1) ** 2 + (p0 - low0) ** 2)
    return low, high


def p_positive(k_before: int, n_before: int, k_after: int, n_after: int) -> float:
    """P(rate after > rate before) with independent Beta(1, 1) priors; exact."""
    a0, b0 = 1 + k_before, 1 + n_before - k_before
    a1, b1 = 1 + k_after, 1 + n_after - k_after
    total = sum(
        exp(_log_beta(a0 + i, b0 + b1) - _log_beta(1 + i, b1) - _log_beta(a0, b0)) / (b1 + i)
        for i in range(a1)
    )
    return min(1.0, max(0.0, total))


def credited_by_chance(p: float, n_before: int, n_after: int) -> float:
    """P(success rate after > before) when both sides succeed with probability `p`."""
    before = [_binomial(k, n_before, p) for k in range(n_before + 1)]
    after = [_binomial(k, n_after, p) for k in range(n_after + 1)]
    return sum(
        before[k0] * after[k1]
        for k0 in range(n_before + 1)
        for k1 in range(n_after + 1)
        if k1 * n_before > k0 * n_after
    )


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _binomial(k: int, n: int, p: float) -> float:
    return float(comb(n, k) * p**k * (1 - p) ** (n - k))
