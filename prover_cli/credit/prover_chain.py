"""ProVer with few continuations: each says something of every state that it passes (ours).

    A[t] = A_group + lambda * reward_scale * max(g, 0)    for turns t of the proposed segment
    g    = rate after - rate before

The paper's gain is the difference of two counts: of a continuation only the outcome is used, for
one state, and all of the counts' noise is in the credit. Here the rates are those of the Markov
chain that all of the group's recorded trajectories and continuations make (`chain`), calibrated on
all continuations of the run (`calibration`). A continuation is still what says what a segment is
worth, and fewer of them say it as well, where episodes of a group meet in the same states. The end
of a trajectory has its recorded outcome.

Needs: trajectories (success, stop_reason), turns (state_key), continuations, estimates, of the
whole run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from prover_cli.credit.base import CreditTables
from prover_cli.credit.calibration import Calibration
from prover_cli.credit.chain import NOTHING, Episode, Question, chain_values
from prover_cli.credit.frames import require, written_by
from prover_cli.credit.group_relative import Norm, Outcome
from prover_cli.credit.prover import ProVer
from prover_cli.errors import UsageError

_SIDES = ("before", "after")
_OBSERVED: dict[str, Any] = {
    "group_id": pl.String,
    "value": pl.List(pl.Float64),
    "after": pl.List(pl.Int64),
    "success": pl.List(pl.Int64),
}
_GAINS: dict[str, Any] = {
    "proposal_id": pl.String,
    "chain_before": pl.Float64,
    "chain_after": pl.Float64,
    "rate_before": pl.Float64,
    "rate_after": pl.Float64,
    "chain_gain": pl.Float64,
}
Row = dict[str, Any]


@dataclass(frozen=True)
class ProVerChain:
    """Run-scoped: every continuation's outcome, beside the chain value of its state."""

    lambda_: float = 1.0
    sign: Literal["positive", "both"] = "positive"
    """both: negative gains are added too."""
    reward_scale: float = 1.0
    norm: Norm = "mean"
    outcome: Outcome = "reward"
    ddof: int = 1
    needs: ClassVar[frozenset[str]] = frozenset(
        {"trajectories", "turns", "continuations", "estimates"}
    )

    def statistics(self, tables: CreditTables) -> pl.DataFrame:
        """Per group, its continuations: the value of their state without them, and outcomes."""
        rows = [{"group_id": group.group_id, **group.observed()} for group in _groups(tables)]
        return pl.DataFrame(rows, schema=_OBSERVED)

    def fitted(self, statistics: pl.DataFrame) -> Calibrated:
        seen = statistics.sort("group_id").select("value", "after", "success")
        seen = seen.explode("value", "after", "success").drop_nulls()
        calibration = Calibration.fit(*(column.to_numpy() for column in seen))
        return Calibrated(self.prover, calibration)

    @property
    def prover(self) -> ProVer:
        """What credits the gains."""
        return ProVer(**asdict(self))


@dataclass(frozen=True)
class Calibrated:
    """ProVer with other gains: those of a chain that was calibrated on the run."""

    prover: ProVer
    calibration: Calibration
    needs: ClassVar[frozenset[str]] = ProVerChain.needs

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        estimates = (
            require(tables.estimates, "estimates", "proposal_id")
            .join(self.gains(tables), on="proposal_id", how="left", maintain_order="left")
            .with_columns(gain="chain_gain")
        )
        return self.prover.advantages(replace(tables, estimates=estimates))

    def gains(self, tables: CreditTables) -> pl.DataFrame:
        """Per verified segment: proposal_id; chain values `chain_before` and `chain_after`, null
        where the trajectory ends; `rate_before`, `rate_after` and their difference `chain_gain`.
        """
        rows = [row for group in _groups(tables) for row in self._of_group(group)]
        return pl.DataFrame(rows, schema=_GAINS)

    def _of_group(self, group: _Group) -> Iterator[Row]:
        states = group.asked
        values = chain_values(
            group.episodes, group.share, [group.question(state) for state, _ in states]
        )
        sides = np.array([side for _, side in states], dtype=np.int64)
        rates = self.calibration.rate(values, sides)
        found = dict(zip(states, zip(values.tolist(), rates.tolist(), strict=True), strict=True))
        for row in group.estimates:
            (chain_before, before), (chain_after, after) = (
                # The end of a trajectory has no state of its own, and a known outcome.
                found[state, side]
                if (state := row[f"state_{name}"])
                else (None, row[f"value_{name}"])
                for side, name in enumerate(_SIDES)
            )
            yield {
                "proposal_id": row["proposal_id"],
                "chain_before": chain_before,
                "chain_after": chain_after,
                "rate_before": before,
                "rate_after": after,
                "chain_gain": after - before,
            }


@dataclass(frozen=True)
class _Group:
    """What was observed in a group with verified segments."""

    group_id: str
    share: float
    episodes: list[Episode]
    """Recorded trajectories, and the continuations behind them."""
    numbers: dict[str, list[int]]
    """By state, its continuations' places in `episodes`."""
    turns_left: dict[str, int]
    estimates: list[Row]

    @property
    def asked(self) -> list[tuple[str, int]]:
        """States of segments, and 1 where it is the one after it; none where a trajectory ends."""
        pairs = {
            (row[f"state_{side}"], i): None
            for row in self.estimates
            for i, side in enumerate(_SIDES)
            if row[f"state_{side}"] is not None
        }
        return list(pairs)

    def question(self, state: str, without: int = NOTHING) -> Question:
        if state not in self.numbers:
            raise UsageError(
                f"estimates name the state {state}, which has no continuation",
                hint=written_by(["continuations"]),
            )
        first = self.episodes[self.numbers[state][0]]
        return Question(first.states[0], self.turns_left[state], without)

    def observed(self) -> dict[str, list[Any]]:
        """Every continuation once for each side that its state is on."""
        places = [
            (state, side, place)
            for state, side in self.asked
            for place in self.numbers.get(state, ())
        ]
        questions = [self.question(state, place) for state, _, place in places]
        return {
            "value": chain_values(self.episodes, self.share, questions).tolist(),
            "after": [side for _, side, _ in places],
            "success": [int(self.episodes[place].success) for _, _, place in places],
        }


def _groups(tables: CreditTables) -> Iterator[_Group]:
    """The groups with an estimate, in the order of their ids."""
    names = [f"{what}_{side}" for what in ("state", "value") for side in _SIDES]
    known = require(tables.estimates, "estimates", "proposal_id", "group_id", "gain", *names)
    known = known.filter(pl.col("gain").is_not_null()).sort("group_id", "proposal_id")
    recorded, continued = _recorded(tables, known), _continued(tables, known)
    for (group_id,), estimates in known.group_by("group_id", maintain_order=True):
        trajectories = recorded.get(group_id, [])
        continuations = continued.get(group_id, [])
        numbers: dict[str, list[int]] = {}
        for i, row in enumerate(continuations, len(trajectories)):
            numbers.setdefault(row["state_id"], []).append(i)
        wins = [row["success"] for row in trajectories]
        yield _Group(
            str(group_id),
            sum(wins) / len(wins) if wins else 0.0,
            [_episode(row) for row in [*trajectories, *continuations]],
            numbers,
            {row["state_id"]: row["turns_left"] for row in continuations},
            estimates.select("proposal_id", *names).to_dicts(),
        )


def _episode(row: Row) -> Episode:
    """A continuation that ended before its first turn still ended in the state it began in."""
    states = row["state_keys"] or [row["state_key"]]
    return Episode(states, row["success"], row["stop_reason"] == "max_turns")


def _recorded(tables: CreditTables, estimates: pl.DataFrame) -> dict[Any, list[Row]]:
    """The scored trajectories of the groups that matter, with their states in order."""
    outcomes = require(tables.trajectories, "trajectories", "success", "stop_reason")
    turns = require(tables.turns, "turns", "state_key")
    matter = pl.col("group_id").is_in(estimates["group_id"].unique().implode())
    states = (
        turns.filter(matter)
        .sort("traj_id", "turn")
        .group_by("traj_id", maintain_order=True)
        .agg(pl.col("state_key").alias("state_keys"))
    )
    rows = outcomes.filter(matter & pl.col("success").is_not_null()).join(states, on="traj_id")
    rows = rows.sort("traj_id").select("group_id", "state_keys", "success", "stop_reason")
    return _by_group(rows)


def _continued(tables: CreditTables, estimates: pl.DataFrame) -> dict[Any, list[Row]]:
    """The scored continuations from the states of a group's segments, those of controls included:
    all are the policy's. Groups of one task may share a state; each has its continuations."""
    columns = ("state_id", "k", "success", "stop_reason", "turns_left", "state_keys")
    at = ("traj_id", "turn")
    rows = require(tables.continuations, "continuations", *at, *columns).select(*at, *columns)
    begins = tables.turns.select(*at, "state_key")
    rows = rows.filter(pl.col("success").is_not_null()).join(begins, on=list(at), how="left")
    sides = [estimates.select("group_id", state_id=f"state_{side}") for side in _SIDES]
    rows = pl.concat(sides).unique().join(rows, on="state_id")
    return _by_group(rows.sort("state_id", "k"))


def _by_group(rows: pl.DataFrame) -> dict[Any, list[Row]]:
    parts = rows.partition_by("group_id", as_dict=True, include_key=False)
    return {group_id: part.to_dicts() for (group_id,), part in parts.items()}
