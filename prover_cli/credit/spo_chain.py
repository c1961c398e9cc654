"""SPO-chain (arXiv 2505.23564; AIFrameResearch/SPO), cut every `interval` turns.

    A[t] = V(end of the segment) - V(start of the segment)     for all turns of the segment

Segments begin at turns 0, interval, 2 interval, ...; the value after the last one is the outcome.
Over the segments of a trajectory the advantages sum to its outcome minus V(s[0]). The paper cuts
where tokens are uncertain, which the agent's turns stand in for here, and zeroes tokens more likely
than 0.9: `prob_mask=0.9` does that by `token_advantages` (needs logprobs of turns). Values come
from `prover verify --proposer every:N` with the same number. Needs: trajectories (n_turns), turns,
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import polars as pl

from prover_cli.credit.base import CreditTables
from prover_cli.credit.frames import ROW, require
from prover_cli.credit.group_relative import Outcome
from prover_cli.credit.vineppo import differences, valued
from prover_cli.errors import UsageError


@dataclass(frozen=True)
class SPOChain:
    """One advantage per segment, given to all of its turns."""

    interval: int = 1
    prob_mask: float | None = None
    outcome: Outcome = "success"
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns", "values"})

    def __post_init__(self) -> None:
        if self.interval < 1:
            raise UsageError(f"interval={self.interval} is not a number of turns")
        if self.prob_mask is not None and not 0 < self.prob_mask < 1:
            raise UsageError(f"prob_mask={self.prob_mask} is not a probability between 0 and 1")

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        rows = valued(tables, self.outcome).with_columns(
            (pl.col("turn") // self.interval).alias("segment")
        )
        starts = rows.filter(pl.col("turn") % self.interval == 0).sort("traj_id", "turn")
        final = pl.col("segment") == pl.col("segment").max().over("traj_id")
        after = pl.when(final).then("outcome").otherwise(pl.col("mean").shift(-1).over("traj_id"))
        per_segment = starts.select(
            "traj_id", "segment", (after - pl.col("mean")).alias("difference")
        )
        joined = rows.join(per_segment, on=["traj_id", "segment"], how="left")
        return self._masked(differences(joined), tables.turns)

    def _masked(self, rows: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
        if self.prob_mask is None:
            return rows
        logprobs = require(turns, "turns", "traj_id", "turn", "logprobs")
        open_ = pl.element() <= log(self.prob_mask)
        kept = pl.col("logprobs").list.eval(open_.cast(pl.Float64))
        per_token = (kept * pl.col("advantage")).cast(pl.List(pl.Float32))
        joined = rows.join(
            logprobs.select("traj_id", "turn", "logprobs"), on=["traj_id", "turn"], how="left"
        )
        known = pl.col("advantage").is_not_null()
        return joined.with_columns(pl.when(known).then(per_token).alias("token_advantages")).select(
            ROW
        )
