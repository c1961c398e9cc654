"""The facts of `prover compare estimators` as one drawing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prover_cli.views import svg

Facts = dict[str, Any]
_WIDTH, _LEFT, _TOP, _PLOT = 860, 60, 50, 220
_ROW = 26


def estimators_svg(facts: Facts) -> str:
    """A self-contained SVG: where in a trajectory each method puts its credit, how much of it is
    on the judge's segments, and how far each pair of methods agrees."""
    n = len(facts["estimators"])
    table = _TOP + _PLOT + 90
    parts = [
        svg.text(_LEFT, 24, "Credit of the same turns by several methods", size=15),
        *_positions(facts),
        *_segments(facts),
        *_matrix(facts, table),
    ]
    return svg.document(_WIDTH, table + _ROW * (n + 1) + 30, parts)


def _positions(facts: Facts) -> Iterator[str]:
    """Share of absolute credit per fifth of a trajectory."""
    curves: list[tuple[int | None, list[float] | None]] = [(None, facts["position_turn_shares"])]
    curves += [(i, one["position_credit_shares"]) for i, one in enumerate(facts["estimators"])]
    top = max((max(found) for _, found in curves if found), default=1.0) * 1.1
    left, right, low = _LEFT, 460, _TOP + _PLOT

    def place(fifth: int, value: float) -> tuple[float, float]:
        return left + 30 + (right - left - 60) * fifth / 4, low - _PLOT * value / top

    yield svg.path(f"M{left} {_TOP}V{low}H{right}", "#333")
    for step in range(5):
        value = top * step / 4
        yield svg.text(left - 8, low - _PLOT * step / 4 + 4, f"{value:.0%}", anchor="end")
        label = ("first fifth", "2nd", "3rd", "4th", "last")[step]
        yield svg.text(place(step, 0)[0], low + 18, label, anchor="middle")
    yield svg.text(
        (left + right) / 2, low + 40, "absolute credit by place; dashed: turns", anchor="middle"
    )
    for number, found in curves:
        if found:
            points = [place(fifth, value) for fifth, value in enumerate(found)]
            dashes = "4 3" if number is None else None
            colour = "#999" if number is None else svg.colour_of(number)
            yield svg.line(points, colour, dashes=dashes)


def _segments(facts: Facts) -> Iterator[str]:
    """Share of absolute credit on the judge's segments; the dashed line is their share of turns."""
    left, right, low = 560, _WIDTH - 40, _TOP + _PLOT
    found = [one["segment_credit_share"] for one in facts["estimators"]]
    known = [x for x in (*found, facts["segment_turn_share"]) if x is not None]
    if not known:
        yield svg.text(left, _TOP + 20, "no judge: no segments", colour="#666")
        return
    top = max(known) * 1.2 or 1.0
    width = (right - left) / len(found)
    yield svg.path(f"M{left} {_TOP}V{low}H{right}", "#333")
    yield svg.text(
        (left + right) / 2, low + 40, "absolute credit on segments; dashed: turns", anchor="middle"
    )
    for number, value in enumerate(found):
        x, height = left + width * (number + 0.2), _PLOT * (value or 0.0) / top
        yield svg.box(x, low - height, width * 0.6, height, svg.colour_of(number))
        words = "n/a" if value is None else f"{value:.1%}"
        yield svg.text(x + width * 0.3, low - height - 5, words, anchor="middle")
    if facts["segment_turn_share"] is not None:
        y = low - _PLOT * facts["segment_turn_share"] / top
        yield svg.path(f"M{left} {y:.1f}H{right}", "#999", dashes="4 3")


def _matrix(facts: Facts, top: float) -> Iterator[str]:
    """The methods in their colours; Spearman above the diagonal, sign flips below."""
    names = [one["estimator"] for one in facts["estimators"]]
    yield svg.text(_LEFT, top - 14, "rank correlation (upper right), sign flips (lower left)")
    pairs = {tuple(pair["estimators"]): pair for pair in facts["pairs"]}
    start = 280.0
    step = min(110.0, (_WIDTH - start - 30) / len(names))
    for row, one in enumerate(names):
        y, colour = top + _ROW * (row + 1) + 6, svg.colour_of(row)
        yield svg.box(_LEFT, y - 10, 12, 12, colour)
        yield svg.text(_LEFT + 20, y, f"{row + 1}  {one}", colour=colour)
        yield svg.text(start + step * (row + 0.5), top + 8, str(row + 1), anchor="middle")
        for column, other in enumerate(names):
            if row == column:
                continue
            pair = pairs[(one, other) if row < column else (other, one)]
            value = pair["spearman"] if row < column else pair["sign_flip_share"]
            words = "n/a" if value is None else f"{value:+.2f}" if row < column else f"{value:.0%}"
            yield svg.text(start + step * (column + 0.5), y, words, anchor="middle")
