"""`compare estimators`: what each credit method would say of the same turns, side by side.

Everything is computed from shards; no advantage stage is needed. Means are over turns. Null
advantages are in no comparison: a pair of methods is compared on the turns where both say
something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from prover_cli.shards.run import Run
from prover_cli.stages.compare_sources import Credits, Flags, Named, judge_of, named, read_credits
from prover_cli.stages.compare_statistics import Ints, Reals, pearson, spearman

FIFTHS = 5
TOP = 10
"""Turns listed that a method raises most."""
Facts = dict[str, Any]


def run(
    path: Path, estimators: str, knobs: Mapping[str, Any], source: str, per_task: bool
) -> Facts:
    """Facts about each method, each pair and, where asked for, each task.

    `estimators` is a list `NAME[:STAGE],...`; the first one is what the others are compared with.
    Raises `UsageError` for an unknown method or knob, `ShardError` naming the stage to run.
    """
    run_ = Run(path)
    methods = named(estimators, source)
    judge = judge_of(run_, source)
    credits = read_credits(run_, methods, knobs, judge)
    return {
        "run": str(path),
        "source": source,
        "segments_of": None if judge is None else judge.name,
        "turns": len(credits.turn),
        "trajectories": credits.trajectories.height,
        "groups": len(credits.group_ids),
        "segment_turn_share": _mean(credits.in_segment),
        "position_turn_shares": shares(np.ones(len(credits.turn)), fifth(credits)),
        "estimators": [describe(credits, m, methods[0]) for m in methods],
        "pairs": [pair(credits, one, other) for one, other in combinations(methods, 2)],
        "tasks": tasks(credits, methods) if per_task else None,
    }


def describe(credits: Credits, method: Named, first: Named) -> Facts:
    """How one method spreads its credit, and which turns it raises over the first method."""
    amount = credits.amounts[method.label]
    given = ~np.isnan(amount)
    size = np.where(given, np.abs(amount), 0.0)
    raised = _difference(amount, credits.amounts[first.label])
    return {
        "estimator": method.label,
        "assigned": int(given.sum()),
        "unassigned": int((~given).sum()),
        "positive": int((amount > 0).sum()),
        "negative": int((amount < 0).sum()),
        "zero": int((amount == 0).sum()),
        "local": int(credits.local[method.label].sum()),
        "mean_size": float(size[given].mean()) if given.any() else None,
        "segment_credit_share": _share_inside(size, credits.in_segment),
        "position_credit_shares": shares(size, fifth(credits)),
        "raised": int((raised > 0).sum()),
        "lowered": int((raised < 0).sum()),
        "most_raised": _most_raised(credits, method, first, raised),
    }


def pair(credits: Credits, one: Named, other: Named) -> Facts:
    """How far two methods agree, on the turns where both say something."""
    x, y, both = _defined(credits, one, other)
    signs = np.sign(x) * np.sign(y)
    return {
        "estimators": [one.label, other.label],
        "turns": int(both.sum()),
        "sign_flips": int((signs < 0).sum()),
        "sign_flip_share": float((signs < 0).mean()) if len(x) else None,
        "one_is_zero": int(((x == 0) != (y == 0)).sum()),
        "pearson": pearson(x, y),
        "spearman": spearman(x, y),
    }


def tasks(credits: Credits, methods: Sequence[Named]) -> list[Facts]:
    """The same per task, in order of task ids; pairs are with the first method."""
    trajectories = credits.trajectories
    of_turn = trajectories["task_id"].to_numpy()[credits.trajectory]
    found = []
    for task_id, rows in sorted(trajectories.partition_by("task_id", as_dict=True).items()):
        here = of_turn == task_id[0]
        part = _only(credits, here)
        found.append(
            {
                "task_id": task_id[0],
                "successes": int(rows["success"].sum()),
                "scored": int(rows["reward"].count()),
                "turns": int(here.sum()),
                "estimators": [_task(part, method, methods[0]) for method in methods],
            }
        )
    return found


def _task(part: Credits, method: Named, first: Named) -> Facts:
    whole = pair(part, first, method)
    size = np.nan_to_num(np.abs(part.amounts[method.label]))
    return {
        "estimator": method.label,
        "credit": float(size.sum()),
        "segment_credit_share": _share_inside(size, part.in_segment),
        **{name: whole[name] for name in ("sign_flips", "pearson", "spearman")},
    }


def _only(credits: Credits, here: Flags) -> Credits:
    """A part of the turns."""
    inside = credits.in_segment
    return Credits(
        trajectories=credits.trajectories,
        group_ids=credits.group_ids,
        trajectory=credits.trajectory[here],
        group=credits.group[here],
        turn=credits.turn[here],
        in_segment=None if inside is None else inside[here],
        amounts={label: amount[here] for label, amount in credits.amounts.items()},
        local={label: flags[here] for label, flags in credits.local.items()},
        error=None if credits.error is None else credits.error[here],
    )


def fifth(credits: Credits) -> Ints:
    """Which fifth of its trajectory a turn is in, 0 to 4."""
    return credits.turn * FIFTHS // credits.n_turns


def shares(size: Reals, where: Ints) -> list[float] | None:
    """The share of the total in each fifth; None when there is nothing."""
    total = size.sum()
    if total == 0:
        return None
    return [float(x) for x in np.bincount(where, weights=size, minlength=FIFTHS) / total]


def _defined(credits: Credits, one: Named, other: Named) -> tuple[Reals, Reals, Flags]:
    x, y = credits.amounts[one.label], credits.amounts[other.label]
    both = ~(np.isnan(x) | np.isnan(y))
    return x[both], y[both], both


def _difference(amount: Reals, first: Reals) -> Reals:
    """`amount - first`, 0 where either is unknown or where they are equal."""
    difference = np.nan_to_num(amount - first)
    return np.where(np.abs(difference) < 1e-8, 0.0, difference)


def _most_raised(
    credits: Credits, method: Named, first: Named, raised: Reals
) -> list[dict[str, Any]]:
    order = np.argsort(-raised, kind="stable")[:TOP]
    ids = credits.trajectories["traj_id"]
    return [
        {
            "traj_id": ids[int(credits.trajectory[i])],
            "turn": int(credits.turn[i]),
            "advantage": float(credits.amounts[method.label][i]),
            "first": float(credits.amounts[first.label][i]),
        }
        for i in order
        if raised[i] > 0
    ]


def _share_inside(size: Reals, inside: Flags | None) -> float | None:
    total = size.sum()
    return None if inside is None or total == 0 else float(size[inside].sum() / total)


def _mean(flags: Flags | None) -> float | None:
    return None if flags is None or not len(flags) else float(flags.mean())
