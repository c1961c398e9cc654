"""`plan`: would `prover-chain` do with few continuations what `prover` does with many?

The chain cannot be simulated: it depends on what the episodes have in common. So it is tried on the
stored continuations. A few of every state, drawn at random, are kept; the gains that prover-chain
makes of those are compared with the counts of the others. The counts' own variance is known without
bias, and what is left is the chain's squared error:

    mean over segments of (g_chain - g_held)^2 - s_before^2 / n_before - s_after^2 / n_after

with s^2 the sample variance of the n held outcomes of a side. The error of `prover` with as many
continuations is the root mean of its variance, s_before^2 / k_before + s_after^2 / k_after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from prover_cli.credit import CreditTables
from prover_cli.credit.prover_chain import ProVerChain
from prover_cli.shards.run import Stage
from prover_cli.stages.compare_statistics import Reals, interval, per_group

SIZES = ((1, 1), (1, 2), (2, 2), (4, 4), (8, 8))
"""Continuations before and after."""
REPEATS = 10
"""Draws of the continuations that are kept."""
BOOTSTRAPS = 1000
_HELD = 2
"""Fewest continuations of a state that are held out: their variance is to be known."""
_SIDES = ("before", "after")
_SQUARED = (
    (pl.col("chain_gain") - pl.col("mean_after") + pl.col("mean_before")) ** 2
    - pl.col("variance_before") / pl.col("n_before")
    - pl.col("variance_after") / pl.col("n_after")
)


@dataclass(frozen=True)
class ChainOption:
    """Both estimators with the same continuations; errors are root mean squares of the gain's."""

    k_before: int
    k_after: int
    token_share: float | None
    """Tokens over the rollout's; null when those are unknown."""
    prover_error: float
    chain_error: float | None
    """Null where too few continuations are stored to hold some out."""
    chain_interval: list[float] | None
    """95 %, over resampled groups; null also for a single group."""


def stored_tables(rollout: Stage, verified: Stage) -> CreditTables:
    """What prover-chain reads of a run: scored continuations, and the segments between states."""
    return CreditTables(
        rollout.read("trajectories"),
        rollout.read("turns", columns=("traj_id", "turn", "group_id", "state_key")),
        continuations=verified.read("continuations").filter(pl.col("success").is_not_null()),
        estimates=verified.read("estimates").filter(pl.col("success_before").is_not_null()),
    )


def chain_options(tables: CreditTables, rollout_tokens: float, seed: int) -> Iterator[ChainOption]:
    """An option for every size; none without a segment that has two outcomes on both sides."""
    assert tables.continuations is not None and tables.estimates is not None
    outcomes = _outcomes(tables.estimates, tables.continuations)
    if outcomes.is_empty():
        return
    measurable = tables.estimates.join(outcomes, on="proposal_id", how="semi")
    random = np.random.default_rng(seed)
    few = replace(tables, estimates=measurable)
    for size in SIZES:
        yield _option(few, outcomes, size, rollout_tokens, random)


def _option(
    tables: CreditTables,
    outcomes: pl.DataFrame,
    size: tuple[int, int],
    rollout_tokens: float,
    random: np.random.Generator,
) -> ChainOption:
    (k_before, k_after), c = size, pl.col
    tokens = k_before * c("tokens_before") + k_after * c("tokens_after")
    variance = c("variance_before") / k_before + c("variance_after") / k_after
    cost, own = outcomes.select(cost=tokens.sum(), own=variance.mean().sqrt()).row(0)
    error, bounds = _chain_error(tables, size, random)
    return ChainOption(
        *size,
        token_share=cost / rollout_tokens if rollout_tokens else None,
        prover_error=own,
        chain_error=error,
        chain_interval=bounds,
    )


def _outcomes(estimates: pl.DataFrame, scored: pl.DataFrame) -> pl.DataFrame:
    """Per segment and side: n, mean and sample variance of the outcomes, mean tokens; segments
    with two outcomes on both sides."""
    states = (
        scored.group_by("state_id")
        .agg(
            pl.len().alias("n"),
            pl.col("success").cast(pl.Float64).mean().alias("mean"),
            pl.col("success").cast(pl.Float64).var().alias("variance"),
            pl.col("n_action_tokens").mean().alias("tokens"),
        )
        .filter(pl.col("n") >= _HELD)
    )
    found = estimates.select("proposal_id", "group_id", "state_before", "state_after")
    for side in _SIDES:
        ours = states.rename({name: f"{name}_{side}" for name in states.columns})
        found = found.join(ours, left_on=f"state_{side}", right_on=f"state_id_{side}")
    return found.sort("proposal_id")


def _chain_error(
    tables: CreditTables, size: tuple[int, int], random: np.random.Generator
) -> tuple[float | None, list[float] | None]:
    """The chain's error with `size` continuations, and its interval over groups."""
    draws = list(_repeats(tables, size, random))
    if not draws:
        return None, None
    measured = pl.concat(draws)
    names, group = np.unique(measured["group_id"].to_numpy().astype(str), return_inverse=True)
    total = per_group(measured["squared"].to_numpy(), group, len(names))
    count = per_group(np.ones(len(group)), group, len(names))

    def error(weights: Reals) -> float:
        return float(np.sqrt(max(float(weights @ total / (weights @ count)), 0.0)))

    return error(np.ones(len(names))), interval(error, len(names), BOOTSTRAPS, 0)


def _repeats(
    tables: CreditTables, size: tuple[int, int], random: np.random.Generator
) -> Iterator[pl.DataFrame]:
    """The squared error of every segment in each draw, less what is the held counts' own; no draw
    where nothing is left to hold out."""
    assert tables.continuations is not None and tables.estimates is not None
    needed = pl.concat(
        tables.estimates.select(state_id=f"state_{side}", needed=pl.lit(k))
        for side, k in zip(_SIDES, size, strict=True)
    )
    needed = needed.group_by("state_id").agg(pl.col("needed").max())
    rows = tables.continuations.join(needed, on="state_id", maintain_order="left")
    method = ProVerChain()
    for _ in range(REPEATS):
        mixed = rows.with_columns(place=random.random(rows.height)).with_columns(
            pl.col("place").rank("ordinal").over("state_id")
        )
        held = _outcomes(tables.estimates, mixed.filter(pl.col("place") > pl.col("needed")))
        if held.is_empty():
            return
        few = replace(tables, continuations=mixed.filter(pl.col("place") <= pl.col("needed")))
        gains = method.fitted(method.statistics(few)).gains(few)
        yield held.join(gains, on="proposal_id").select("group_id", squared=_SQUARED)


def recommended(found: Sequence[ChainOption], budget: float) -> ChainOption | None:
    """The measured option with the most continuations that fit `budget`.

    Errors of neighbouring sizes differ by less than they are known to, and more continuations are
    never worse in expectation, so the least error would be a matter of luck.
    """
    fits = [
        option
        for option in found
        if option.chain_error is not None
        and option.token_share is not None
        and option.token_share <= budget
    ]
    return max(fits, key=lambda option: option.k_before + option.k_after, default=None)
