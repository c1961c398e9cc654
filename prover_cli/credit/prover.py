"""ProVer (arXiv 2609.36178): the verified gain of a proposed segment, added to its turns.

    A[t] = A_group + lambda * reward_scale * gate(gain)    for turns t of the proposed segment
    A[t] = A_group                                         elsewhere

`gain` is the success rate of K continuations after the segment minus that of K before it. The
paper's gate is `positive`: add the gain when it is greater than zero, with lambda 1 on the
mean-centred group advantage. Bonuses of several segments at a turn add up. On estimates of random
proposals (`prover judge --judge random --as random`) the same formula is the paper's ablation.
Needs: trajectories, turns, estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import require, text
from prover_cli.credit.group_relative import GroupRelative, Norm, Outcome


@dataclass(frozen=True)
class ProVer:
    """The group advantage plus gated, verified gains."""

    lambda_: float = 1.0
    gate: Literal["positive", "margin", "ci", "posterior", "shrink"] = "positive"
    """positive: gain > 0; margin: gain > `margin`; ci: the 95 % interval lies above 0;
    posterior: P(gain > 0) > `posterior`; shrink: gain > 0, and the bonus is the difference of
    Beta(1,1) posterior means instead of the gain."""
    margin: float = 0.125
    posterior: float = 0.9
    sign: Literal["positive", "both"] = "positive"
    """both: negative gains that pass the mirrored gate are added too."""
    reward_scale: float = 1.0
    norm: Norm = "mean"
    outcome: Outcome = "reward"
    ddof: int = 1
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "estimates"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative(self.norm, self.outcome, self.ddof).advantages(tables)
        return credit_segments(rows, self.bonuses(tables.estimates))

    def bonuses(self, estimates: pl.DataFrame | None) -> pl.DataFrame:
        """One row per proposed segment: its turns, whether it has an estimate, and its `bonus`
        (null when the gate is not passed)."""
        gain = pl.col("gain")
        amount = self._shrunk_gain() if self.gate == "shrink" else gain
        passed = self._passes(gain)
        return segments(estimates, "estimates").select(
            "traj_id",
            "start_turn",
            "end_turn",
            gain.is_not_null().alias("has_estimate"),
            pl.when(passed).then(amount * self.lambda_ * self.reward_scale).alias("bonus"),
        )

    def _passes(self, gain: pl.Expr) -> pl.Expr:
        match self.gate:
            case "positive" | "shrink":
                up, down = gain > 0, gain < 0
            case "margin":
                up, down = gain > self.margin, gain < -self.margin
            case "ci":
                up, down = pl.col("ci_low") > 0, pl.col("ci_high") < 0
            case "posterior":
                probability = pl.col("p_positive")
                up, down = probability > self.posterior, probability < 1 - self.posterior
        return up | down if self.sign == "both" else up & (gain > 0)

    @staticmethod
    def _shrunk_gain() -> pl.Expr:
        after = (pl.col("success_after") + 1) / (pl.col("n_after") + 2)
        before = (pl.col("success_before") + 1) / (pl.col("n_before") + 2)
        return after - before


def segments(frame: pl.DataFrame | None, table: str) -> pl.DataFrame:
    """The rows of a table that name a segment."""
    rows = require(frame, table, "traj_id", "start_turn", "end_turn")
    return rows.filter(pl.all_horizontal(pl.col("traj_id", "start_turn", "end_turn").is_not_null()))


def credit_segments(rows: pl.DataFrame, bonuses: pl.DataFrame) -> pl.DataFrame:
    """Add `bonus` to the turns of each segment, where the group has a signal.

    `bonuses` has traj_id, start_turn, end_turn, has_estimate and bonus (null: not credited).
    """
    inside = pl.col("turn").is_between("start_turn", "end_turn", closed="left")
    credit = (
        rows.join(bonuses, on="traj_id", how="inner")
        .filter(inside & (pl.col("reason") == str(Reason.BASE)))
        .sort("traj_id", "turn", "start_turn", "end_turn", "bonus")
        .group_by("traj_id", "turn")
        .agg(
            pl.col("bonus").sum(),
            pl.col("bonus").count().alias("n_credited"),
            pl.col("has_estimate").any(),
        )
    )
    credited = pl.col("n_credited") > 0
    return (
        rows.join(credit, on=["traj_id", "turn"], how="left")
        .with_columns(
            pl.when(credited).then("bonus").alias("local"),
            pl.when(credited)
            .then(pl.col("base") + pl.col("bonus"))
            .otherwise("base")
            .alias("advantage"),
            pl.when(credited)
            .then(text(Reason.SEGMENT))
            .when(pl.col("has_estimate"))
            .then(text(Reason.NOT_CREDITED))
            .when(pl.col("has_estimate").not_())
            .then(text(Reason.NO_ESTIMATE))
            .otherwise("reason")
            .alias("reason"),
        )
        .drop("bonus", "n_credited", "has_estimate")
    )
