"""The options of `prover plan` as one drawing: what each costs, and how often its sign is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prover_cli.views import svg

WIDTH, HEIGHT = 640, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 30, 50, 60
_COLOURS = {"plain": svg.COLOURS[0], "adaptive": svg.COLOURS[1]}
_STEPS = 5


def plan_svg(facts: dict[str, Any]) -> str:
    """A self-contained SVG of the options with one proposal per group.

    Tokens (share of the rollout's) to the right, sign error upwards; a line for each rule.
    """
    shown = [o for o in facts["options"] if o["per_group"] == 1 and o["token_share"] is not None]
    reach = max((o["token_share"] for o in shown), default=1.0) * 1.08 or 1.0
    top = max((o["sign_error"] for o in shown), default=1.0) * 1.15 or 1.0
    parts = [
        svg.text(_LEFT, 24, "Cost and sign error of verification", size=15),
        *_axes(reach, top),
        *_budget(facts["budget"], reach),
    ]
    for number, (rule, colour) in enumerate(_COLOURS.items()):
        line = [o for o in shown if o["rule"] == rule]
        parts += _series(line, colour, reach, top)
        parts.append(svg.text(_LEFT + 260 + 90 * number, 24, rule, colour=colour))
    return svg.document(WIDTH, HEIGHT, parts)


def _x(share: float, reach: float) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * share / reach


def _y(error: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * error / top


def _axes(reach: float, top: float) -> Iterator[str]:
    left, right, low, high = _LEFT, WIDTH - _RIGHT, HEIGHT - _BOTTOM, _TOP
    yield svg.path(f"M{left} {high}V{low}H{right}", "#333")
    for step in range(_STEPS + 1):
        share, error = reach * step / _STEPS, top * step / _STEPS
        yield svg.text(_x(share, reach), low + 18, f"{share:.0%}", anchor="middle")
        yield svg.text(left - 8, _y(error, top) + 4, f"{error:.0%}", anchor="end")
        yield svg.path(f"M{left} {_y(error, top):.1f}H{right}", "#ddd")
    yield svg.text((left + right) / 2, low + 42, "tokens, share of the rollout's", anchor="middle")
    yield svg.text(left - 50, high - 10, "sign error")


def _budget(budget: float, reach: float) -> Iterator[str]:
    if 0 < budget <= reach:
        x = _x(budget, reach)
        yield svg.path(f"M{x:.1f} {_TOP}V{HEIGHT - _BOTTOM}", "#888", dashes="4 3")
        yield svg.text(x + 4, _TOP + 10, "budget", colour="#666")


def _series(line: list[dict[str, Any]], colour: str, reach: float, top: float) -> Iterator[str]:
    points = [(_x(o["token_share"], reach), _y(o["sign_error"], top), o["k"]) for o in line]
    yield svg.line([(x, y) for x, y, _ in points], colour)
    for x, y, k in points:
        yield svg.dot(x, y, colour)
        yield svg.text(x + 6, y - 6, f"K={k}", colour=colour)
