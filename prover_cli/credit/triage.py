"""TRIAGE (arXiv 2606.32017), approximate: a bounded constant for the role of a turn.

    x[t] = A + constant of the turn's role (D, E, N or R)
    A[t] = (x - mean(x)) / sqrt(var(x) + 1e-8)      over all turns of the run

The paper's constants are not public, so they are knobs without a default: `--knob d=...` and so on.
A segment is a turn here; that the whitening spans the batch is our reading. A turn without an
opinion adds nothing to A; a trajectory that was not labelled has no advantage. Needs: trajectories,
turns, proposals (labels `roles`), of the whole run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables, Reason
from prover_cli.credit.frames import left_out, text, with_local
from prover_cli.credit.group_relative import GroupRelative, Norm, Outcome
from prover_cli.credit.labels import turn_labels
from prover_cli.credit.moments import Moments, merged, of_groups
from prover_cli.errors import UsageError


@dataclass(frozen=True)
class Triage:
    """Run-scoped: mean and deviation over the turns of the run."""

    d: float | None = None
    e: float | None = None
    n: float | None = None
    r: float | None = None
    whiten: bool = True
    norm: Norm = "std"
    outcome: Outcome = "reward"
    ddof: int = 1
    eps: float = 1e-8
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "proposals"})

    def statistics(self, tables: CreditTables) -> pl.DataFrame:
        rows = self.mixed(tables).with_columns(pl.lit(1.0).alias("weight"))
        return of_groups(rows, "advantage", "weight")

    def fitted(self, statistics: pl.DataFrame) -> Whitened:
        return Whitened(self, merged(statistics))

    def mixed(self, tables: CreditTables) -> pl.DataFrame:
        """Rows before whitening."""
        base = GroupRelative(self.norm, self.outcome, self.ddof).advantages(tables)
        labels = turn_labels(tables.proposals, "roles", "D E N R")
        constant = pl.col("label").replace_strict(self._constants(), return_dtype=pl.Float64)
        rows = base.join(labels, on=["traj_id", "turn"], how="left")
        unlabelled = pl.col("traj_id").is_in(labels["traj_id"].unique().implode()).not_()
        done = with_local(rows, constant, Reason.LOCAL, text(Reason.NO_LABEL))
        return left_out(done, unlabelled, Reason.UNLABELLED)

    def _constants(self) -> dict[str, float]:
        given = {"D": self.d, "E": self.e, "N": self.n, "R": self.r}
        missing = [name.lower() for name, value in given.items() if value is None]
        if missing:
            raise UsageError(
                f"triage has no constant for the roles {', '.join(missing)}, and none is published",
                hint=" ".join(f"--knob {name}=VALUE" for name in missing),
            )
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Whitened:
    """TRIAGE with the moments of a run."""

    method: Triage
    moments: Moments
    needs: ClassVar[frozenset[str]] = Triage.needs

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = self.method.mixed(tables)
        if not self.method.whiten:
            return rows
        whitened = self.moments.whitened(pl.col("advantage"), self.method.eps)
        return rows.with_columns(whitened.alias("advantage")).with_columns(
            (pl.col("advantage") - pl.col("base")).alias("local")
        )
