"""The formula of one advantage in words, with the numbers put in."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from prover_cli.credit.base import Method, Reason
from prover_cli.credit.controls import Constant, JudgeOnly
from prover_cli.credit.group_relative import GroupRelative
from prover_cli.credit.prover import ProVer
from prover_cli.credit.prover_chain import ProVerChain
from prover_cli.credit.vineppo import VinePPO

REASONS: Mapping[str, str] = {
    Reason.BASE: "the trajectory's advantage, nothing local",
    Reason.LOCAL: "the method has a part of its own at this turn",
    Reason.SEGMENT: "in a verified segment: the gain was added",
    Reason.NOT_CREDITED: "in a proposed segment whose estimate did not pass the gate",
    Reason.NO_ESTIMATE: "in a proposed segment that could not be verified",
    Reason.VALUE_DIFFERENCE: "the difference of the values at two states",
    Reason.NO_VALUE: "a value that the method needs is missing",
    Reason.NO_SCORE: "the scoring pass has nothing on this turn",
    Reason.NO_LABEL: "the judge has no opinion on this turn",
    Reason.UNLABELLED: "the judge did not label a trajectory whose labels the method needs",
    Reason.NOT_CRITICAL: "the method learns from other turns only",
    Reason.FILTERED: "the method leaves the group or the turn out",
    Reason.ZERO_VARIANCE: "all outcomes of the group are equal",
    Reason.SINGLETON: "fewer than two outcomes in the group: no baseline",
    Reason.VOID: "the trajectory has no outcome",
}
_NO_SIGNAL = (Reason.VOID, Reason.SINGLETON, Reason.ZERO_VARIANCE)
Facts = Mapping[str, Any]
_Based: TypeAlias = GroupRelative | ProVer | ProVerChain | JudgeOnly | Constant


def formula(
    method: Method,
    row: Facts,
    trajectory: Facts,
    group: pl.DataFrame,
    estimates: Sequence[Facts],
    states: Sequence[Facts],
) -> list[str]:
    """Lines that lead to `row`.

    `estimates` are those whose segment holds the turn, for prover-chain with its gains and the
    coefficients of its calibration.
    """
    lines = []
    if isinstance(method, _Based):
        lines += _base(method, row, trajectory, group)
    if isinstance(method, ProVer | ProVerChain):
        if row["reason"] not in _NO_SIGNAL:
            lines += [line for estimate in estimates for line in _gain(method, estimate)]
    elif isinstance(method, VinePPO):
        lines += _values(row, trajectory, states)
    elif not isinstance(method, GroupRelative):
        lines += _published(method)
    return [*lines, _sum(row)]


def _base(
    method: _Based,
    row: Facts,
    trajectory: Facts,
    group: pl.DataFrame,
) -> list[str]:
    """The group's advantage."""
    outcomes = group[method.outcome].drop_nulls().cast(pl.Float64)
    listed = ", ".join(f"{x:g}" for x in outcomes)
    lines = [f"{method.outcome} R of the {len(outcomes)} scored trajectories: {listed}"]
    if row["reason"] in _NO_SIGNAL:
        return lines
    own, mean, n = float(trajectory[method.outcome]), outcomes.mean(), len(outcomes)
    assert isinstance(mean, float)
    match method.norm:
        case "mean":
            words = f"R - mean(R) = {own:g} - {mean:.6g}"
        case "std":
            deviation = outcomes.std(ddof=method.ddof)
            eps = method.eps if isinstance(method, GroupRelative) else GroupRelative.eps
            words = (
                f"(R - mean(R)) / (std(R) + eps) = ({own:g} - {mean:.6g}) / "
                f"({deviation:.6g} + {eps:g})"
            )
        case "rloo":
            words = f"(R - mean(R)) n / (n - 1) = ({own:g} - {mean:.6g}) x {n} / {n - 1}"
        case "maxrl":
            words = f"(R - mean(R)) / mean(R) = ({own:g} - {mean:.6g}) / {mean:.6g}"
    return [*lines, f"base = {words} = {signed(row['base'])}"]


def _gain(method: ProVer | ProVerChain, estimate: Facts) -> list[str]:
    """What one verified segment adds."""
    segment = f"segment [{estimate['start_turn']}, {estimate['end_turn']})"
    if estimate["gain"] is None:
        return [f"{segment} has no estimate: {estimate['status']}"]
    if isinstance(method, ProVerChain):
        first, *others = _rates(estimate)
        credited = _credited(method.prover, {**estimate, "gain": estimate["chain_gain"]})
        return [f"{segment}: {first}", *others, *credited]
    before, after = _side(estimate, "before"), _side(estimate, "after")
    words = f"gain = after - before = {after} - {before} = {signed(estimate['gain'])}"
    return [f"{segment}: {words}", *_credited(method, estimate)]


def _rates(estimate: Facts) -> list[str]:
    """From the chain's values before and after a segment to the gain."""
    values = [
        f"{estimate[f'chain_{side}']:.6g} {side}"
        for side in ("before", "after")
        if estimate[f"chain_{side}"] is not None
    ]
    intercept, side, slope = (estimate[name] for name in ("intercept", "side", "slope"))
    return [
        f"chain value v = {', '.join(values)}",
        f"rate = sigmoid({intercept:.4g} {side:+.4g} (after) {slope:+.4g} logit(v)), fitted to the "
        "run's continuations",
        f"gain = rate after - rate before = {estimate['rate_after']:.6g} - "
        f"{estimate['rate_before']:.6g} = {signed(estimate['chain_gain'])}",
    ]


def _credited(method: ProVer, estimate: Facts) -> list[str]:
    """The gate, and what passes it."""
    bonus = method.bonuses(pl.DataFrame([estimate]))["bonus"][0]
    tested = _tested(method, estimate)
    if bonus is None:
        return [f"gate {method.gate}: {tested}: not passed, nothing is added"]
    what = "shrunk gain" if method.gate == "shrink" else "gain"
    amount = bonus / (method.lambda_ * method.reward_scale) if bonus else 0.0
    return [
        f"gate {method.gate}: {tested}: passed",
        f"local = lambda x reward_scale x {what} = {method.lambda_:g} x {method.reward_scale:g} x "
        f"{signed(amount)} = {signed(bonus)}",
    ]


def _side(estimate: Facts, side: str) -> str:
    successes = estimate[f"success_{side}"]
    if successes is None:
        return f"{estimate[f'value_{side}']:g}"
    return f"{successes}/{estimate[f'n_{side}']}"


def _tested(method: ProVer, estimate: Facts) -> str:
    gain = f"gain {signed(estimate['gain'])}"
    match method.gate:
        case "positive" | "shrink":
            words = f"{gain} against 0"
        case "margin":
            words = f"{gain} against margin {method.margin:g}"
        case "ci":
            words = (
                f"interval [{signed(estimate['ci_low'])}, {signed(estimate['ci_high'])}] against 0"
            )
        case "posterior":
            words = (
                f"P(gain > 0) {signed(estimate['p_positive'])} against posterior "
                f"{method.posterior:g}"
            )
    return words + (", or mirrored" if method.sign == "both" else "")


def _values(row: Facts, trajectory: Facts, states: Sequence[Facts]) -> list[str]:
    """The two values of a difference."""
    turn, at = row["turn"], {state["turn"]: state for state in states}
    before = _rate(at.get(turn))
    if turn == trajectory["n_turns"] - 1:
        outcome = trajectory["success"]
        end = "unknown" if outcome is None else f"{float(outcome):g}"
        return [f"outcome - V(s[{turn}]) = {end} - {before}"]
    return [f"V(s[{turn + 1}]) - V(s[{turn}]) = {_rate(at.get(turn + 1))} - {before}"]


def _rate(state: Facts | None) -> str:
    return "unknown" if state is None else f"{state['successes']}/{state['scored']}"


def _published(method: Method) -> list[str]:
    """How the method's module states its formula."""
    text = sys.modules[type(method).__module__].__doc__ or type(method).__doc__ or ""
    return [line for line in text.strip().splitlines() if line.strip()]


def _sum(row: Facts) -> str:
    if row["advantage"] is None:
        return f"advantage = null: {REASONS.get(row['reason'], row['reason'])}"
    if row["local"] is None:
        return f"advantage = base = {signed(row['advantage'])}"
    if row["base"] is None:
        return f"advantage = local = {signed(row['advantage'])}"
    return (
        f"advantage = base + local = {signed(row['base'])} {signed(row['local'])} = "
        f"{signed(row['advantage'])}"
    )


def signed(value: float | None) -> str:
    """A number with its sign; null is shown as such."""
    return "n/a" if value is None else f"{value:+.6g}"
