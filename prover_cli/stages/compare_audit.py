"""`compare estimators --reference`: how close each credit method comes to sampled values.

The reference is a method that is computed from many continuations at every turn (`verify
--proposer all-turns --k 64`). Every other one is scored against it on the turns where both say
something; a null is not a zero. Turns where the reference is 0 have no sign to agree with. The
reference is itself an estimate: `noise` is the error that the true values would have against it,
and with `decided` the turns are left out where it is within its standard error. Intervals are 95 %
bootstraps over groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from prover_cli.errors import NothingToDoError, UsageError
from prover_cli.shards.run import Run
from prover_cli.stages.compare_cost import spent, warn_shared
from prover_cli.stages.compare_sources import (
    Credits,
    Flags,
    Named,
    made,
    named,
    read_credits,
    stages_of,
)
from prover_cli.stages.compare_statistics import (
    Ints,
    Ranks,
    Reals,
    Statistic,
    interval,
    pearson,
    per_group,
    spearman,
)

Facts = dict[str, Any]


@dataclass(frozen=True)
class Audit:
    """What to score, against what, and how."""

    estimators: str
    """`NAME[:STAGE],...`"""
    reference: str
    knobs: Mapping[str, Any]
    source: str = "verify"
    """The verification of methods without a stage of their own."""
    reference_source: str = "verify"
    decided: bool = False
    draws: int = 1000
    seed: int = 0


def run(path: Path, audit: Audit) -> Facts:
    """Facts about the reference and about each method beside it.

    Raises `UsageError` for an unknown method or knob and for `decided` with a reference whose
    error is not known, `ShardError` naming the stage to run, `NothingToDoError` when the reference
    says nothing.
    """
    run_ = Run(path)
    methods = named(audit.estimators, audit.source)
    reference = Named(audit.reference, audit.reference_source, " reference")
    credits = read_credits(run_, [*methods, reference], audit.knobs, None, reference)
    target = credits.amounts[reference.label]
    kept = ~np.isnan(target)
    if not kept.any():
        raise NothingToDoError(
            f"the reference {reference.name} of {reference.source} has no advantage at any turn",
            hint=f"prover verify {path} --proposer all-turns --k 64 --seed 1 --as audit",
        )
    if audit.decided:
        kept &= _decided(credits, reference, target)
    by_name = made([*methods, reference], audit.knobs)
    stages = {m: stages_of(run_, [m], by_name)[m.source] for m in (*methods, reference)}
    return {
        "run": str(path),
        "groups": len(credits.group_ids),
        "decided_only": audit.decided,
        "draws": audit.draws,
        "reference": {
            **_about(credits, reference, target, kept),
            **spent(run_, stages[reference]),
        },
        "estimators": [
            {
                "estimator": method.label,
                **_scored(credits, credits.amounts[method.label], target, kept, audit),
                **spent(run_, stages[method]),
            }
            for method in methods
        ],
        "warnings": warn_shared(stages, reference),
    }


def _scored(credits: Credits, estimate: Reals, target: Reals, kept: Flags, audit: Audit) -> Facts:
    """How much of the reference a method covers, and how it scores there."""
    turns = Turns.of(credits, estimate, target, kept)
    return {
        "turns": len(turns.estimate),
        "coverage": len(turns.estimate) / max(1, int(kept.sum())),
        **score(turns, audit.draws, audit.seed),
    }


def _decided(credits: Credits, reference: Named, target: Reals) -> Flags:
    if credits.error is None:
        raise UsageError(
            f"--decided needs the standard error of the reference, and {reference.name} has none",
            hint="--reference vineppo has one",
        )
    # A comparison with an unknown error is false: such a turn is not decided.
    return np.abs(target) > credits.error


def _about(credits: Credits, reference: Named, target: Reals, kept: Flags) -> Facts:
    values = target[kept]
    facts: Facts = {
        "estimator": reference.name,
        "source": reference.source,
        "turns": int((~np.isnan(target)).sum()),
        "compared_turns": int(kept.sum()),
        "zero_share": float((values == 0).mean()) if len(values) else None,
        "rms": _rms(values),
        "decided_share": None,
        "noise": None,
    }
    if credits.error is None:
        return facts
    known = ~np.isnan(target)
    errors = credits.error[kept]
    return facts | {
        "decided_share": float((np.abs(target) > credits.error)[known].mean()),
        "noise": _rms(errors[~np.isnan(errors)]),
    }


def _rms(values: Reals) -> float | None:
    return float(np.sqrt((values**2).mean())) if len(values) else None


@dataclass(frozen=True)
class Turns:
    """The turns where a method and the reference both say something."""

    estimate: Reals
    target: Reals
    group: Ints
    trajectory: Ints
    n_groups: int

    @staticmethod
    def of(credits: Credits, estimate: Reals, target: Reals, kept: Flags) -> Turns:
        both = kept & ~np.isnan(estimate)
        return Turns(
            estimate[both],
            target[both],
            credits.group[both],
            credits.trajectory[both],
            len(credits.group_ids),
        )


def score(turns: Turns, draws: int, seed: int) -> Facts:
    """Signs, ranks and errors, each with its interval (null where there is none)."""
    dense = replace(turns, **_renumbered(turns))
    facts: Facts = {}
    for name, statistic in {**_signs(dense), **_ranks(dense), **_errors(dense)}.items():
        facts[name] = statistic(np.ones(dense.n_groups))
        facts[f"{name}_interval"] = interval(statistic, dense.n_groups, draws, seed)
    return facts | {"trajectories": len(_within(dense)[0])}


def _renumbered(turns: Turns) -> dict[str, Any]:
    """Groups without a turn are not resampled."""
    present, group = np.unique(turns.group, return_inverse=True)
    return {"group": group.astype(np.int64), "n_groups": len(present)}


def _signs(turns: Turns) -> dict[str, Statistic]:
    says, signed = turns.estimate != 0, turns.target != 0
    agrees = says & signed & (np.sign(turns.estimate) == np.sign(turns.target))
    return {
        "sign_agreement": _quotient(_sums(turns, agrees), _sums(turns, says & signed)),
        "silent_share": _quotient(_sums(turns, ~says & signed), _sums(turns, signed)),
    }


def _ranks(turns: Turns) -> dict[str, Statistic]:
    one, other = Ranks.of(turns.estimate), Ranks.of(turns.target)

    def overall(weights: Reals) -> float | None:
        w = weights[turns.group]
        return pearson(one(w), other(w), w) if len(w) else None

    rho, group, ordered = _within(turns)
    columns = (rho, np.ones(len(rho)), ordered.astype(np.float64))
    total, n, n_ordered = (per_group(column, group, turns.n_groups) for column in columns)
    return {
        "rank_correlation": overall,
        "rank_correlation_within": _quotient(total, n),
        "ordered_share": _quotient(n_ordered, n),
        "rank_correlation_ordered": _quotient(total, n_ordered),
    }


def _within(turns: Turns) -> tuple[Reals, Ints, Flags]:
    """Of each trajectory in which the reference differs between turns: the rank correlation (0
    where the method does not), its group, and whether the method does."""
    order = np.argsort(turns.trajectory, kind="stable")
    starts = np.flatnonzero(np.diff(turns.trajectory[order], prepend=-1))
    rho, group, ordered = [], [], []
    for rows in np.split(order, starts[1:]):
        x, y = turns.estimate[rows], turns.target[rows]
        if len(rows) < 2 or np.ptp(y) == 0:
            continue
        found = spearman(x, y)
        rho.append(found or 0.0)
        group.append(turns.group[rows[0]])
        ordered.append(found is not None)
    return np.array(rho), np.array(group, dtype=np.int64), np.array(ordered, dtype=bool)


def _errors(turns: Turns) -> dict[str, Statistic]:
    a, r = turns.estimate, turns.target
    aa, ar, rr, n = (_sums(turns, x) for x in (a * a, a * r, r * r, np.ones(len(a))))
    factor = _quotient(ar, aa)

    def error(w: Reals, c: float) -> float | None:
        total = float(w @ rr) - 2 * c * float(w @ ar) + c * c * float(w @ aa)
        return float(np.sqrt(max(0.0, total) / float(w @ n))) if w @ n > 0 else None

    return {
        "factor": factor,
        "scaled_rmse": lambda w: error(w, factor(w) or 0.0),
        "rmse": lambda w: error(w, 1.0),
    }


def _quotient(part: Reals, whole: Reals) -> Statistic:
    """The quotient of two sums over groups; None where the second is 0."""

    def of(w: Reals) -> float | None:
        total = float(w @ whole)
        return float(w @ part) / total if total > 0 else None

    return of


def _sums(turns: Turns, values: Reals | Flags) -> Reals:
    return per_group(values.astype(np.float64), turns.group, turns.n_groups)
