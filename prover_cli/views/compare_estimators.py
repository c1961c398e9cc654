"""The facts of `prover compare estimators` as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from prover_cli.views.text import number, plain

Facts = dict[str, Any]
_SHOWN = 3
"""Turns listed of each method."""


def estimators_view(facts: Facts) -> RenderableType:
    """The facts of `stages.compare_estimators.run`."""
    parts: list[RenderableType] = [
        Text(
            f"{facts['turns']:,} turns of {facts['trajectories']:,} trajectories in "
            f"{facts['groups']:,} groups"
        ),
        _methods(facts),
        _positions(facts),
        _pairs(facts),
        *_raised(facts),
    ]
    if facts["tasks"] is not None:
        parts.append(_tasks(facts))
    return Group(*parts)


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """A table whose first `left` columns hold words and whose others hold numbers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(
            Text(head),
            justify="left" if place < left else "right",
            overflow="fold",
            no_wrap=place >= left,
        )
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table


def share(value: float | None) -> str:
    return number(value, ".1%")


def _methods(facts: Facts) -> RenderableType:
    heads = ("method", "credit", "none", "> 0", "< 0", "= 0", "local", "mean size", "on segment")
    rows = [
        (
            one["estimator"],
            f"{one['assigned']:,}",
            *(f"{one[key]:,}" for key in ("unassigned", "positive", "negative", "zero", "local")),
            number(one["mean_size"], ".3f"),
            share(one["segment_credit_share"]),
        )
        for one in facts["estimators"]
    ]
    note = (
        "no judge was run: there is no segment"
        if facts["segments_of"] is None
        else f"on segment: share of all absolute credit on the segments of {facts['segments_of']}, "
        f"which hold {share(facts['segment_turn_share'])} of the turns"
    )
    return Group(grid(heads, rows), Text(note))


def _positions(facts: Facts) -> RenderableType:
    heads = ("share of absolute credit", "1st fifth", "2nd", "3rd", "4th", "last")
    named = [("(turns)", facts["position_turn_shares"])]
    named += [(one["estimator"], one["position_credit_shares"]) for one in facts["estimators"]]
    return grid(heads, [(name, *(share(x) for x in found or [None] * 5)) for name, found in named])


def _pairs(facts: Facts) -> RenderableType:
    heads = ("pair", "", "turns", "sign flips", "one is 0", "Pearson", "Spearman")
    rows = [
        (
            *pair["estimators"],
            f"{pair['turns']:,}",
            f"{pair['sign_flips']:,} ({share(pair['sign_flip_share'])})",
            f"{pair['one_is_zero']:,}",
            number(pair["pearson"], "+.3f"),
            number(pair["spearman"], "+.3f"),
        )
        for pair in facts["pairs"]
    ]
    return grid(heads, rows, left=2)


def _raised(facts: Facts) -> Iterator[Text]:
    first = plain(facts["estimators"][0]["estimator"])
    for one in facts["estimators"][1:]:
        name = plain(one["estimator"])
        yield Text(
            f"{name} raises {one['raised']:,} turns over {first} and lowers {one['lowered']:,}"
        )
        for turn in one["most_raised"][:_SHOWN]:
            yield Text(
                f"  {plain(turn['traj_id'])} turn {turn['turn']}: "
                f"{turn['first']:+.3f} -> {turn['advantage']:+.3f}"
            )


def _tasks(facts: Facts) -> RenderableType:
    heads = ("task", "method", "won", "turns", "credit", "on segment", "flips", "Spearman")
    rows = [
        (
            task["task_id"] if place == 0 else "",
            one["estimator"],
            f"{task['successes']}/{task['scored']}",
            str(task["turns"]),
            f"{one['credit']:.2f}",
            share(one["segment_credit_share"]),
            "" if place == 0 else str(one["sign_flips"]),
            "" if place == 0 else number(one["spearman"], "+.3f"),
        )
        for task in facts["tasks"]
        for place, one in enumerate(task["estimators"])
    ]
    return grid(heads, rows, left=2)
