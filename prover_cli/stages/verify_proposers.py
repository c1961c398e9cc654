"""What is verified: a judge's segments, or turns that are chosen without one.

    judge        the segments of a judge stage
    all-turns    the state before every turn (VinePPO, audits)
    every:N      the state before every N-th turn (SPO)
    entropy:N    the N turns of each trajectory whose choice is most open, as segments (CARL)
    random:N     N turns of each trajectory, all equally likely, as segments (audits)

Turns are chosen in every trajectory with an outcome, and a segment never holds the last turn. The
entropy of a choice is measured by what was recorded: the mean of -log p(reply) over the group's
turns in the same state.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from prover_cli.errors import UsageError
from prover_cli.ids import derive_seed, digest
from prover_cli.stages.states import Boundary

_WITHOUT_NUMBER = ("judge", "all-turns")
_WITH_NUMBER = ("every", "entropy", "random")
Row = Mapping[str, Any]


@dataclass
class Wanted:
    """What one shard is asked for. `proposals` are all rows, those without a segment too."""

    proposals: list[Row] = field(default_factory=list)
    singles: list[Boundary] = field(default_factory=list)
    """States that are valued for themselves."""

    @property
    def segments(self) -> list[Row]:
        return [row for row in self.proposals if row["status"] == "ok"]

    @property
    def boundaries(self) -> list[Boundary]:
        """Every state that is needed, in order; the ends of segments one after the other."""
        return self.singles + [b for row in self.segments for b in sides(row)]

    def only(self, groups: Mapping[str, str], left_out: Mapping[str, str]) -> Wanted:
        """The part outside the groups in `left_out`; `groups` gives the group of a trajectory."""
        return Wanted(
            [row for row in self.proposals if row["group_id"] not in left_out],
            [b for b in self.singles if groups[b[0]] not in left_out],
        )


def sides(proposal: Row) -> tuple[Boundary, Boundary]:
    """The states before and after a segment."""
    traj_id = proposal["traj_id"]
    return (traj_id, proposal["start_turn"]), (traj_id, proposal["end_turn"])


@dataclass(frozen=True)
class Proposer:
    """A way of choosing, and its number where it has one."""

    kind: str
    n: int = 0

    @property
    def reads_judge(self) -> bool:
        return self.kind == "judge"

    def wanted(
        self,
        trajectories: pl.DataFrame,
        turns: pl.DataFrame,
        proposals: Sequence[Row],
        seed: int,
    ) -> Wanted:
        """What to verify in one shard."""
        if self.reads_judge:
            return Wanted(list(proposals))
        scored = trajectories.filter(pl.col("reward").is_not_null()).sort("traj_id")
        rows = scored.select("traj_id", "group_id", "n_turns").to_dicts()
        if self.kind in ("all-turns", "every"):
            step = self.n or 1
            return Wanted(
                singles=[(r["traj_id"], t) for r in rows for t in range(0, r["n_turns"], step)]
            )
        choice = _most_open(turns, self.n) if self.kind == "entropy" else _at_random(self.n, seed)
        return Wanted([_segment(self, row, turn) for row in rows for turn in choice(row)])


def parse_proposer(text: str) -> Proposer:
    """`judge`, `all-turns`, `every:N`, `entropy:N` or `random:N`; N is 1 where it is left out,
    but for `every`. `UsageError` for anything else."""
    kind, colon, number = text.replace(" ", ":").partition(":")
    if text in _WITHOUT_NUMBER:
        return Proposer(text)
    if kind in _WITH_NUMBER and not colon and kind != "every":
        return Proposer(kind, 1)
    if kind in _WITH_NUMBER and number.isdecimal() and int(number) > 0:
        return Proposer(kind, int(number))
    known = ", ".join([*_WITHOUT_NUMBER, *(f"{name}:N" for name in _WITH_NUMBER)])
    raise UsageError(f"--proposer is one of {known} (N from 1), not {text!r}")


def _segment(proposer: Proposer, row: Row, turn: int) -> Row:
    return {
        "proposal_id": digest([proposer.kind, row["traj_id"], turn]),
        "group_id": row["group_id"],
        "traj_id": row["traj_id"],
        "start_turn": turn,
        "end_turn": turn + 1,
        "status": "ok",
    }


def _at_random(n: int, seed: int) -> Any:
    def choose(row: Row) -> list[int]:
        draws = random.Random(derive_seed("verify-turns", seed, row["traj_id"]))
        last = max(0, row["n_turns"] - 1)
        return sorted(draws.sample(range(last), min(n, last)))

    return choose


def _most_open(turns: pl.DataFrame, n: int) -> Any:
    surprise = -pl.col("logprobs").list.sum().cast(pl.Float64).fill_null(0.0)
    entropy = (
        turns.with_columns(surprise.alias("surprise"))
        .with_columns(pl.col("surprise").mean().over("group_id", "state_key").alias("entropy"))
        .select("traj_id", "turn", "entropy")
    )
    ranked = entropy.sort(["traj_id", "entropy", "turn"], descending=[False, True, False])
    order: dict[str, list[int]] = {}
    for traj_id, turn, _ in ranked.iter_rows():
        order.setdefault(traj_id, []).append(turn)

    def choose(row: Row) -> list[int]:
        last = row["n_turns"] - 1
        return sorted([turn for turn in order.get(row["traj_id"], []) if turn < last][:n])

    return choose
