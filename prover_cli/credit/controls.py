"""Controls for ProVer: what of its effect is verification, what is only extra positive mass.

    prover-judge-only   A[t] = A_group + lambda * reward_scale * s   in the proposed segment
                        s is `bonus` or the judge's confidence; nothing is verified (the paper's
                        ablation, arXiv 2609.36178; needs trajectories, turns, proposals)
    constant            A[t] = A_group + b   in every proposed segment, verified or not
                        b is the same everywhere (ours; needs trajectories, turns, estimates, of
                        the whole run)

The b of `constant` is the sum over all turns of ProVer's bonuses, with the same knobs, divided by
the number of proposed turns: over the run the positive mass is the same to the last turn. It is one
number for the run, because a number per group would let the verification through. `bonus` sets it
by hand. A segment counts where its group has a signal, turn by turn, overlaps added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import ClassVar, Literal

import polars as pl

from prover_cli.credit.base import CreditTables
from prover_cli.credit.group_relative import GroupRelative, Norm, Outcome
from prover_cli.credit.labels import confidences
from prover_cli.credit.prover import ProVer, credit_segments, segments


@dataclass(frozen=True)
class JudgeOnly:
    """Proposals without verification."""

    lambda_: float = 1.0
    score: Literal["constant", "confidence"] = "constant"
    """confidence: the judge's own number (labels `confidence`) instead of `bonus`."""
    bonus: float = 0.25
    """Ours: the paper's constant is not public. The paper's example of a gain is 0.25."""
    reward_scale: float = 1.0
    norm: Norm = "mean"
    outcome: Outcome = "reward"
    ddof: int = 1
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "proposals"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = GroupRelative(self.norm, self.outcome, self.ddof).advantages(tables)
        proposed = segments(tables.proposals, "proposals")
        if self.score == "confidence":
            proposed = proposed.join(confidences(tables.proposals), on="traj_id", how="left")
        else:
            proposed = proposed.with_columns(pl.lit(self.bonus).alias("label"))
        bonuses = proposed.select(
            "traj_id",
            "start_turn",
            "end_turn",
            pl.col("label").is_not_null().alias("has_estimate"),
            (pl.col("label") * self.lambda_ * self.reward_scale).alias("bonus"),
        )
        return credit_segments(rows, bonuses)


@dataclass(frozen=True)
class Constant:
    """Run-scoped: ProVer's positive mass, the same at every proposed turn."""

    bonus: float | None = None
    """None takes it from the run."""
    lambda_: float = 1.0
    gate: Literal["positive", "margin", "ci", "posterior", "shrink"] = "positive"
    margin: float = 0.125
    posterior: float = 0.9
    reward_scale: float = 1.0
    norm: Norm = "mean"
    outcome: Outcome = "reward"
    ddof: int = 1
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "estimates"})

    def statistics(self, tables: CreditTables) -> pl.DataFrame:
        prover = self._prover()
        verified = prover.advantages(tables)
        proposed = EvenBonus(1.0, prover).advantages(tables)
        mass = verified.group_by("group_id").agg(pl.col("local").sum().alias("mass"))
        turns = proposed.group_by("group_id").agg(pl.col("local").sum().alias("n_turns"))
        return mass.join(turns, on="group_id")

    def fitted(self, statistics: pl.DataFrame) -> EvenBonus:
        if self.bonus is not None:
            return EvenBonus(self.bonus, self._prover())
        rows = statistics.sort("group_id")
        n_turns = fsum(rows["n_turns"])
        return EvenBonus(fsum(rows["mass"]) / n_turns if n_turns else 0.0, self._prover())

    def _prover(self) -> ProVer:
        return ProVer(
            self.lambda_,
            self.gate,
            self.margin,
            self.posterior,
            "positive",
            self.reward_scale,
            self.norm,
            self.outcome,
            self.ddof,
        )


@dataclass(frozen=True)
class EvenBonus:
    """The same bonus at every proposed turn."""

    bonus: float
    prover: ProVer
    needs: ClassVar[frozenset[str]] = Constant.needs

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        base = GroupRelative(self.prover.norm, self.prover.outcome, self.prover.ddof)
        bonuses = segments(tables.estimates, "estimates").select(
            "traj_id",
            "start_turn",
            "end_turn",
            pl.lit(True).alias("has_estimate"),
            pl.lit(self.bonus).alias("bonus"),
        )
        return credit_segments(base.advantages(tables), bonuses)
