"""The tables that continuations make: what is known of each state, and of each segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from typing import Any

from prover_cli.credit.intervals import newcombe, p_positive
from prover_cli.stages.episode import Outcome, StopReason
from prover_cli.stages.states import Boundary, ShardStates, StateWork
from prover_cli.stages.verify_rule import Rule, unbiased_gain

Row = dict[str, Any]


class EstimateStatus(StrEnum):
    OK = "ok"
    """There is an estimate."""
    DIVERGED = "diverged"
    """A side could not be re-entered."""
    VOID = "void"
    """Fewer than half of a side's continuations have an outcome."""
    BUDGET = "budget"
    """The budget was used up by groups drawn before this one."""
    QUARANTINED = "quarantined"
    """The task is known not to reproduce."""


def continuation_row(
    work: StateWork,
    k: int,
    outcome: Outcome | None,
    *,
    policy_id: str,
    env_seed: int,
    sampler_seed: int,
) -> Row:
    """One row of the continuations table; `outcome` is None for a diverged state."""
    return {
        **place(work),
        "k": k,
        "policy_id": policy_id,
        "env_seed": env_seed,
        "sampler_seed": sampler_seed,
        "replay_ok": work.state is not None,
        "diverged_turn": work.diverged_turn,
        "reward": outcome.reward if outcome else None,
        "success": outcome.success if outcome else None,
        "stop_reason": str(outcome.stop_reason if outcome else StopReason.DIVERGED),
        "error_type": outcome.error_type if outcome else None,
        "n_turns": len(outcome.turns) if outcome else 0,
        "n_prompt_tokens": outcome.n_prompt_tokens if outcome else 0,
        "n_action_tokens": outcome.n_action_tokens if outcome else 0,
        "state_keys": [turn["state_key"] for turn in outcome.turns] if outcome else [],
        "seconds": outcome.seconds if outcome else 0.0,
        "cached": False,
    }


def place(work: StateWork) -> Row:
    """The columns of a continuation that say where it starts."""
    return {
        "state_id": work.state_id,
        "group_id": work.group_id,
        "traj_id": work.traj_id,
        "turn": work.turn,
        "turns_left": work.turns_left,
    }


def turn_rows(
    continuations: Sequence[Row], turns: Mapping[tuple[str, int], Sequence[Row]]
) -> list[Row]:
    """Rows of the continuation_turns table; `turns` by state and number of the continuation."""
    at = ("state_id", "k", "group_id", "traj_id")
    return [
        {**{name: row[name] for name in at}, **turn}
        for row in continuations
        for turn in turns[row["state_id"], row["k"]]
    ]


@dataclass(frozen=True)
class Value:
    """What is known of the success rate from a state."""

    n_requested: int
    n_scored: int
    n_success: int
    terminal: bool | None = None
    """The recorded outcome, where the state is the end of the trajectory."""
    n_cached: int = 0
    """Continuations of it that came from the value cache."""

    @property
    def known(self) -> bool:
        """At least half of the continuations have an outcome."""
        return self.terminal is not None or 0 < self.n_requested <= 2 * self.n_scored

    @property
    def mean(self) -> float | None:
        if self.terminal is not None:
            return float(self.terminal)
        return self.n_success / self.n_scored if self.n_scored else None

    @property
    def std_error(self) -> float | None:
        mean = self.mean
        if mean is None or self.terminal is not None:
            return None if mean is None else 0.0
        return sqrt(mean * (1 - mean) / self.n_scored)


def value_of(rows: Sequence[Mapping[str, Any]], n_requested: int) -> Value:
    """The value that the first `n_requested` continuations of a state give."""
    counted = [row for row in rows if row["k"] < n_requested]
    scored = [row["success"] for row in counted if row["success"] is not None]
    return Value(
        n_requested,
        len(scored),
        sum(scored),
        n_cached=sum(row["cached"] for row in counted),
    )


def values_of(
    plan: ShardStates, continuations: Mapping[str, Sequence[Row]], requested: Mapping[str, int]
) -> dict[Boundary, Value]:
    """The value at every boundary; boundaries in the same state share it.

    `continuations` and `requested` are by state; a state that was not sampled requests none.
    """
    return {
        boundary: value_of(continuations.get(work.state_id, ()), requested.get(work.state_id, 0))
        for boundary, work in plan.at.items()
    }


def value_rows(plan: ShardStates, values: Mapping[Boundary, Value]) -> list[Row]:
    """Rows of the values table."""
    first = {work.state_id: (work.traj_id, work.turn) for work in plan.distinct}
    return [
        {
            "traj_id": boundary[0],
            "turn": boundary[1],
            "state_id": work.state_id,
            "group_id": work.group_id,
            "source": _source(values[boundary], first[work.state_id] == boundary),
            "n_requested": values[boundary].n_requested,
            "n_scored": values[boundary].n_scored,
            "n_success": values[boundary].n_success,
            "mean": values[boundary].mean,
            "std_error": values[boundary].std_error,
        }
        for boundary, work in plan.at.items()
    ]


def _source(value: Value, is_first: bool) -> str:
    whole = 0 < value.n_requested == value.n_cached
    return "cached" if whole or not is_first else "sampled"


_UNKNOWN = (
    "state_before",
    "state_after",
    "value_before",
    "value_after",
    "success_before",
    "success_after",
    "gain",
    "gain_unbiased",
    "std_error",
    "ci_low",
    "ci_high",
    "p_positive",
)


def estimate_row(
    proposal: Mapping[str, Any],
    plan: ShardStates,
    values: Mapping[Boundary, Value],
    outcomes: Mapping[str, bool | None],
    rule: Rule,
    status: str | None = None,
) -> Row:
    """One row of the estimates table; a proposal that cannot be verified has a status instead.

    `outcomes` gives the recorded success of a trajectory, for segments that end it. `status` says
    why a proposal was left out.
    """
    row: Row = dict.fromkeys(_UNKNOWN)
    row |= {name: proposal[name] for name in ("proposal_id", "group_id", "traj_id")}
    row |= {"start_turn": proposal["start_turn"], "end_turn": proposal["end_turn"]}
    row |= {"n_before": 0, "n_after": 0, "status": status or proposal["status"]}
    if row["status"] != EstimateStatus.OK:
        return row
    traj_id = proposal["traj_id"]
    start, end = (traj_id, proposal["start_turn"]), (traj_id, proposal["end_turn"])
    for side, boundary in (("before", start), ("after", end)):
        work = plan.at.get(boundary)
        row[f"state_{side}"] = work.state_id if work else None
        if work is not None and work.state is None:
            row["status"] = str(EstimateStatus.DIVERGED)
    before = values[start]
    after = values.get(end) or Value(0, 0, 0, terminal=outcomes[traj_id])
    row |= {"n_before": before.n_scored, "n_after": after.n_scored}
    if row["status"] == EstimateStatus.OK and not (before.known and after.known):
        row["status"] = str(EstimateStatus.VOID)
    return row | _gain(before, after, rule) if row["status"] == EstimateStatus.OK else row


def _gain(before: Value, after: Value, rule: Rule) -> Row:
    v0, v1, e0, e1 = before.mean, after.mean, before.std_error, after.std_error
    assert v0 is not None and v1 is not None and e0 is not None and e1 is not None
    gain = {
        "value_before": v0,
        "value_after": v1,
        "gain": v1 - v0,
        "std_error": sqrt(e0 * e0 + e1 * e1),
    }
    if after.terminal is not None:
        return gain
    counts = (before.n_success, before.n_scored, after.n_success, after.n_scored)
    low, high = newcombe(*counts)
    return gain | {
        "gain_unbiased": _unbiased(before, after, rule),
        "success_before": before.n_success,
        "success_after": after.n_success,
        "ci_low": low,
        "ci_high": high,
        "p_positive": p_positive(*counts),
    }


def _unbiased(before: Value, after: Value, rule: Rule) -> float | None:
    """The gain without the bias of stopping.

    Null where the counts are not those of a round: continuations failed, or another segment asked
    for more of a state that both share.
    """
    pair = (before.n_scored, after.n_scored)
    if len(rule.rounds) == 1:
        return after.n_success / pair[1] - before.n_success / pair[0]
    if pair not in rule.rounds or pair != (before.n_requested, after.n_requested):
        return None
    return unbiased_gain(rule, rule.rounds.index(pair), before.n_success, after.n_success)
