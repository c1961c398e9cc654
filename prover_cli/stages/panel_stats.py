"""Statistics of evaluations: success per task, intervals over tasks, pass@k, paired differences.

Tasks are the unit that is resampled: samples of one task are not independent of each other.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

N_BOOTSTRAP = 10_000


def per_task(trajectories: pl.DataFrame) -> pl.DataFrame:
    """Scored samples `n`, successes `c`, mean success and mean reward of every task."""
    return (
        trajectories.filter(pl.col("reward").is_not_null())
        .group_by("task_id")
        .agg(
            pl.len().alias("n"),
            pl.col("success").sum().cast(pl.Int64).alias("c"),
            pl.col("success").mean().alias("success"),
            pl.col("reward").mean().alias("reward"),
        )
        .sort("task_id")
    )


def bootstrap_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """95 % percentile interval of the mean over tasks; seeded, so it is the same every time."""
    generator = np.random.default_rng(0)
    draws = generator.integers(0, len(values), (N_BOOTSTRAP, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that k of n samples, drawn without replacement, hold one of the c successes
    (Chen et al. 2021, unbiased)."""
    return 1.0 - comb(n - c, k) / comb(n, k)


def describe_panel(trajectories: pl.DataFrame) -> dict[str, Any]:
    """Success and reward with intervals, and pass@k for k up to the samples every task has."""
    tasks = per_task(trajectories)
    if tasks.is_empty():
        return {"tasks": 0, "success_rate": None, "mean_reward": None}
    success, reward = tasks["success"].to_numpy(), tasks["reward"].to_numpy()
    smallest = int(tasks["n"].min())  # type: ignore[arg-type]
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= smallest]
    return {
        "tasks": tasks.height,
        "samples_per_task": smallest,
        "success_rate": float(success.mean()),
        "success_interval": bootstrap_interval(success),
        "mean_reward": float(reward.mean()),
        "reward_interval": bootstrap_interval(reward),
        "pass_at_k": {
            str(k): float(np.mean([pass_at_k(n, c, k) for n, c in tasks.select("n", "c").rows()]))
            for k in ks
        },
        "mean_turns": trajectories["n_turns"].mean(),
    }


def paired_difference(after: pl.DataFrame, before: pl.DataFrame) -> dict[str, Any]:
    """Difference of the mean success (and reward) on the tasks both evaluated, with intervals."""
    both = per_task(after).join(per_task(before), on="task_id", suffix="_before")
    success = (both["success"] - both["success_before"]).to_numpy()
    reward = (both["reward"] - both["reward_before"]).to_numpy()
    if not len(success):
        return {"tasks": 0, "success_difference": None, "reward_difference": None}
    return {
        "tasks": both.height,
        "success_difference": float(success.mean()),
        "success_difference_interval": bootstrap_interval(success),
        "reward_difference": float(reward.mean()),
        "reward_difference_interval": bootstrap_interval(reward),
        "tasks_better": int((success > 0).sum()),
        "tasks_worse": int((success < 0).sum()),
    }
