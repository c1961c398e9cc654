"""What methods that compare single turns of a group share: states, returns, the episode's term.

Two turns of a group are at the same state when `key` agrees: `observation_hash` as the papers'
anchor observations, or `state_key`, which hashes the environment's whole state (the same
observation is not always the same state). With `similarity` they are when their observations are
alike to that ratio (difflib); each turn, in the order of traj_id and turn, joins the first set
whose first observation is alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import EQUAL, normalised, require, text
from prover_cli.credit.group_relative import GroupRelative, Outcome
from prover_cli.credit.recurrence import recur
from prover_cli.order import in_order

Key = Literal["observation_hash", "state_key"]
StepNorm = Literal["mean", "std"]


def compared(rows: pl.DataFrame, turns: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Turns of trajectories with a base, with more columns of theirs, by traj_id and turn."""
    more = require(turns, "turns", "traj_id", "turn", "group_id", *columns)
    based = rows.filter(pl.col("base").is_not_null())["traj_id"].unique()
    known = pl.col("traj_id").is_in(based.implode())
    return in_order(more.select("traj_id", "turn", "group_id", *columns).filter(known))


def returns(steps: pl.DataFrame, gamma: float) -> pl.Series:
    """Discounted sum of the step rewards from a turn on; `steps` as from `compared`."""
    return recur(steps, "reward", gamma, "backward")


def similar_sets(steps: pl.DataFrame, ratio: float) -> pl.Series:
    """The number of every turn's set of alike observations within its group."""
    representatives: dict[str, list[str]] = {}
    numbers = []
    for group_id, observation in steps.select("group_id", "observation").iter_rows():
        known = representatives.setdefault(group_id, [])
        number = next((i for i, other in enumerate(known) if _alike(observation, other, ratio)), -1)
        if number < 0:
            known.append(observation)
            number = len(known) - 1
        numbers.append(number)
    return pl.Series("key", numbers, dtype=pl.Int64)


def _alike(a: str, b: str, ratio: float) -> bool:
    if a == b:
        return True
    matcher = SequenceMatcher(None, a, b)
    # The cheap ratios are upper bounds of the true one.
    return (
        matcher.real_quick_ratio() >= ratio
        and matcher.quick_ratio() >= ratio
        and matcher.ratio() >= ratio
    )


@dataclass(frozen=True)
class Episode:
    """The trajectory's term, as GiGPO and its successors have it.

    `across_steps` takes mean and deviation over turns instead of trajectories, so long ones weigh
    more, and `penalty` is taken off the outcome at turns with an invalid action; both are what the
    reference code does.
    """

    norm: StepNorm
    outcome: Outcome
    across_steps: bool = False
    penalty: float = 0.0
    ddof: int = 1
    eps: float = 1e-6

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative(self.norm, self.outcome, self.ddof, self.eps).advantages(tables)
        return self._over_turns(rows, tables) if self.across_steps else rows

    def _over_turns(self, rows: pl.DataFrame, tables: CreditTables) -> pl.DataFrame:
        turns = require(tables.turns, "turns", "action_valid")
        score = pl.col(self.outcome).cast(pl.Float64) - self.penalty * pl.col("action_valid").not_()
        scored = (
            compared(rows, turns, "action_valid")
            .join(tables.trajectories.select("traj_id", self.outcome), on="traj_id")
            .select("traj_id", "turn", "group_id", score.alias("score"))
            .select(
                "traj_id",
                "turn",
                normalised(pl.col("score"), ["group_id"], self.norm, self.ddof, self.eps).alias(
                    "base"
                ),
                (pl.col("score").max() - pl.col("score").min()).over("group_id").alias("spread"),
            )
        )
        flat = pl.col("spread") < EQUAL
        return (
            rows.drop("base", "advantage")
            .join(scored, on=["traj_id", "turn"], how="left")
            .with_columns(
                pl.col("base").alias("advantage"),
                pl.when(flat)
                .then(text(Reason.ZERO_VARIANCE))
                .when(flat.not_())
                .then(text(Reason.BASE))
                .otherwise("reason")
                .alias("reason"),
            )
        )
