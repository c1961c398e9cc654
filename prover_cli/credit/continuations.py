"""Continuations as training data: each is worth its reward less the mean from its state.

Continuations of one state are independent samples of one policy from one state, so they make up a
group of their own. What they are worth says nothing of the segment that they verified: a verified
gain compares two states, this compares the futures of one. (An extension; ProVer's paper does not
train on continuations.)
"""

from __future__ import annotations

import polars as pl


def continuation_advantages(continuations: pl.DataFrame) -> pl.DataFrame:
    """Rows of the table continuation_advantages, for continuations that were sampled.

    `continuations` has the columns of its table. The advantage is null for a void continuation and
    for one that no other has an outcome beside.
    """
    reward = pl.col("reward")
    compared = reward.is_not_null().sum().over("state_id") > 1
    return continuations.filter(pl.col("replay_ok")).select(
        "state_id",
        "k",
        "group_id",
        "traj_id",
        "turn",
        pl.when(compared).then(reward - reward.mean().over("state_id")).alias("advantage"),
    )
