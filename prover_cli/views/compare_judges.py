"""The facts of `prover compare judges` as tables and as a drawing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from prover_cli.views import svg
from prover_cli.views.compare_estimators import grid, share
from prover_cli.views.text import number, plain

Facts = dict[str, Any]


def judges_view(facts: Facts) -> RenderableType:
    """The facts of `stages.compare_judges.run`."""
    return Group(
        Text(f"{facts['groups']:,} groups"),
        _answers(facts),
        *_statuses(facts),
        _positions(facts),
        _pairs(facts),
        _worth(facts),
        Text(
            "overlap: common turns over the turns of either; at random: every start equally "
            "likely; by chance: positive without any effect; per 1,000 tokens: sum of the gains "
            "over what the judge read and wrote"
        ),
    )


def _answers(facts: Facts) -> RenderableType:
    heads = ("judge", "asked", "answered", "valid", "segment", "turns", "tokens", "seconds")
    rows = [
        (
            one["judge"],
            str(one["asked"]),
            share(one["answer_rate"]),
            share(one["valid_rate"]),
            share(one["segment_rate"]),
            number(one["mean_turns"], ".2f"),
            f"{one['tokens']:,}",
            f"{one['seconds']:.1f}",
        )
        for one in facts["judges"]
    ]
    return grid(heads, rows)


def _statuses(facts: Facts) -> Iterator[Text]:
    for one in facts["judges"]:
        counts = ", ".join(f"{n} {plain(status)}" for status, n in one["status"].items())
        lengths = ", ".join(f"{n} of {turns}" for turns, n in one["turns_histogram"].items())
        yield Text(f"{plain(one['judge'])}: {counts}; turns in a segment: {lengths or 'n/a'}")


def _positions(facts: Facts) -> RenderableType:
    heads = ("start of segments", "1st fifth", "2nd", "3rd", "4th", "last")
    rows = []
    for one in facts["judges"]:
        for name, key in ((one["judge"], ""), ("  at random", "_at_random")):
            found = one[f"position_shares{key}"] or [None] * 5
            rows.append((name, *(share(x) for x in found)))
    return grid(heads, rows)


def _pairs(facts: Facts) -> RenderableType:
    heads = ("pair", "", "groups", "same trajectory", "same segment", "touching", "overlap")
    rows = [
        (
            *pair["judges"],
            str(pair["groups"]),
            share(pair["same_trajectory_rate"]),
            share(pair["same_segment_rate"]),
            share(pair["touching_rate"]),
            number(pair["mean_overlap"], ".2f"),
        )
        for pair in facts["pairs"]
    ]
    return grid(heads, rows, left=2)


def _worth(facts: Facts) -> RenderableType:
    heads = (
        "judge",
        "verified by",
        "segments",
        "positive",
        "by chance",
        "mean gain",
        "per 1,000 tokens",
    )
    rows = [
        (
            one["judge"],
            found["stage"],
            str(found["verified"]),
            share(found["positive_rate"]),
            share(found["null_rate"]),
            number(found["mean_gain"], "+.3f"),
            number(found["gain_per_1000_tokens"], "+.3f"),
        )
        for one in facts["judges"]
        for found in one["verified"]
    ]
    if not rows:
        return Text("none of them was verified")
    return grid(heads, rows, left=2)


def judges_svg(facts: Facts) -> str:
    """A self-contained SVG: where segments start, beside every start being equally likely, and the
    share of positive gains beside chance."""
    parts = [svg.text(60, 24, "Segments of several judges", size=15)]
    x = 60.0
    for place, one in enumerate(facts["judges"]):
        parts.append(svg.text(x, 44, one["judge"], colour=svg.colour_of(place)))
        x += 18 + 7 * len(one["judge"])
    parts += [*_starts(facts), *_gains(facts)]
    return svg.document(860, 360, parts)


_TOP, _LOW = 70.0, 300.0


def _starts(facts: Facts) -> Iterator[str]:
    """Bars per fifth and judge; a dashed mark for what is equally likely."""
    judges = facts["judges"]
    both = ("position_shares", "position_shares_at_random")
    found = [x for one in judges for key in both for x in one[key] or ()]
    top = max(found, default=1.0) * 1.1
    left, right = 60.0, 500.0
    step = (right - left) / 5
    bar = step * 0.8 / len(judges)
    yield svg.path(f"M{left} {_TOP}V{_LOW}H{right}", "#333")
    yield svg.text((left + right) / 2, _LOW + 40, "where segments start", anchor="middle")
    yield svg.text(left - 8, _TOP + 4, f"{top:.0%}", anchor="end")
    for fifth, label in enumerate(("first fifth", "2nd", "3rd", "4th", "last")):
        start = left + step * (fifth + 0.1)
        yield svg.text(start + step * 0.4, _LOW + 18, label, anchor="middle")
        for place, one in enumerate(judges):
            if not one["position_shares"]:
                continue
            x = start + bar * place
            height = (_LOW - _TOP) * one["position_shares"][fifth] / top
            yield svg.box(x, _LOW - height, bar * 0.9, height, svg.colour_of(place))
            y = _LOW - (_LOW - _TOP) * one["position_shares_at_random"][fifth] / top
            yield svg.path(f"M{x:.1f} {y:.1f}h{bar * 0.9:.1f}", "#222", dashes="3 2")


def _gains(facts: Facts) -> Iterator[str]:
    """Share of positive gains of every verification; a dashed mark for chance."""
    rows = [
        (place, found)
        for place, one in enumerate(facts["judges"])
        for found in one["verified"]
        if found["positive_rate"] is not None
    ]
    left, right = 570.0, 820.0
    if not rows:
        yield svg.text(left, _TOP + 20, "none of them was verified", colour="#666")
        return
    step = (right - left) / len(rows)
    yield svg.path(f"M{left} {_TOP}V{_LOW}H{right}", "#333")
    yield svg.text(left - 8, _TOP + 4, "100%", anchor="end")
    yield svg.text((left + right) / 2, _LOW + 40, "positive gains; dashed: chance", anchor="middle")
    for number_, (place, found) in enumerate(rows):
        x = left + step * (number_ + 0.2)
        height = (_LOW - _TOP) * found["positive_rate"]
        yield svg.box(x, _LOW - height, step * 0.6, height, svg.colour_of(place))
        yield svg.text(x + step * 0.3, _LOW + 18, found["stage"], anchor="middle", size=10)
        if found["null_rate"] is not None:
            y = _LOW - (_LOW - _TOP) * found["null_rate"]
            yield svg.path(f"M{x:.1f} {y:.1f}h{step * 0.6:.1f}", "#222", dashes="3 2")
