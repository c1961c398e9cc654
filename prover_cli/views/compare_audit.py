"""The facts of `prover compare estimators --reference` as a table and as a drawing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from prover_cli.views import svg
from prover_cli.views.compare_estimators import grid, share
from prover_cli.views.text import number, plain

Facts = dict[str, Any]
_SCORES = (
    ("sign_agreement", "sign agreement", ".0%"),
    ("rank_correlation", "rank correlation, all turns", "+.2f"),
    ("rank_correlation_within", "rank correlation within trajectories", "+.2f"),
    ("scaled_rmse", "error after scaling", ".3f"),
)


def audit_view(facts: Facts) -> RenderableType:
    """The facts of `stages.compare_audit.run`."""
    methods = facts["estimators"]
    return Group(
        grid(
            ("method", "turns", "tokens", "sign agreement", "silent", "scaled error", "RMSE"),
            [
                (
                    one["estimator"],
                    share(one["coverage"]),
                    share(one["token_share"]),
                    ranged(one, "sign_agreement", ".0%"),
                    share(one["silent_share"]),
                    ranged(one, "scaled_rmse", ".3f"),
                    number(one["rmse"], ".3f"),
                )
                for one in methods
            ],
        ),
        grid(
            ("method", "rank", "rank within", "orders", "rank where it orders"),
            [
                (
                    one["estimator"],
                    ranged(one, "rank_correlation", "+.2f"),
                    ranged(one, "rank_correlation_within", "+.2f"),
                    share(one["ordered_share"]),
                    ranged(one, "rank_correlation_ordered", "+.2f"),
                )
                for one in methods
            ],
        ),
        *_notes(facts),
    )


def ranged(one: Facts, name: str, form: str) -> str:
    """A number and its interval."""
    found = one[f"{name}_interval"]
    plain_form = form.removeprefix("+")
    ends = "" if found is None else f" [{found[0]:{plain_form}}, {found[1]:{plain_form}}]"
    return number(one[name], form) + ends


def _notes(facts: Facts) -> Iterator[Text]:
    reference = facts["reference"]
    yield Text(
        f"reference: {plain(reference['estimator'])} of {plain(reference['source'])}, "
        f"{reference['turns']:,} turns in {facts['groups']:,} groups, "
        f"{share(reference['token_share'])} of the rollout's tokens"
    )
    if facts["decided_only"]:
        yield Text(
            f"only the {reference['compared_turns']:,} turns where it is beyond its standard error"
        )
    yield Text(
        f"its root mean square is {number(reference['rms'], '.3f')} (the error of saying 0), its "
        f"own noise {number(reference['noise'], '.3f')}; {share(reference['zero_share'])} of it is "
        f"0, {share(reference['decided_share'])} beyond its standard error"
    )
    yield Text(
        "turns: with an advantage, of the reference's; tokens: of judge and verification, over the "
        "rollout's; sign agreement: equal signs where neither is 0; silent: 0 where the reference "
        "is not; scaled error: RMSE after the best single factor"
    )
    yield Text(
        "rank: Spearman over all turns; within: its mean within trajectories, 0 where the method "
        "says the same of all turns; orders: trajectories where it does not; intervals: "
        f"{facts['draws']} bootstraps of groups"
    )


def audit_svg(facts: Facts) -> str:
    """A self-contained SVG: a panel per score, in it a row per method with its interval."""
    methods = facts["estimators"]
    height, width, left = 26 * len(methods), 860, 170
    parts = [
        svg.text(20, 24, f"Agreement with {facts['reference']['estimator']}", size=15),
        svg.text(220, 24, f"{facts['reference']['compared_turns']:,} turns", colour="#666"),
    ]
    for place, (name, title, form) in enumerate(_SCORES):
        top = 60 + place * (height + 56)
        mark = facts["reference"]["rms"] if name == "scaled_rmse" else None
        panel = _panel(methods, name, form, mark, top, left, width)
        parts += [svg.text(20, top - 8, title), *panel]
    return svg.document(width, 60 + len(_SCORES) * (height + 56), parts)


def _panel(
    methods: list[Facts],
    name: str,
    form: str,
    mark: float | None,
    top: float,
    left: float,
    width: float,
) -> Iterator[str]:
    """A row per method; `mark` is what saying 0 everywhere would score."""
    ends = [x for one in methods for x in (one[f"{name}_interval"] or [one[name]])]
    known = [x for x in [0.0, mark, *ends, *(one[name] for one in methods)] if x is not None]
    low, high = min(known), max(known)
    reach = (high - low) or 1.0

    def place(value: float) -> float:
        return float(left + (width - left - 90) * (value - low) / reach)

    bottom = top + 26 * len(methods)
    yield svg.path(f"M{place(0.0):.1f} {top:.1f}V{bottom:.1f}", "#999", dashes="4 3")
    yield svg.text(place(0.0), bottom + 14, format(0.0, form), anchor="middle", colour="#666")
    if mark is not None:
        yield svg.path(f"M{place(mark):.1f} {top:.1f}V{bottom:.1f}", "#999", dashes="4 3")
        yield svg.text(place(mark), bottom + 14, "saying 0", anchor="middle", colour="#666")
    for number_, one in enumerate(methods):
        y, colour = top + 26 * number_ + 13, svg.colour_of(number_)
        yield svg.text(left - 14, y + 4, one["estimator"], anchor="end", colour=colour)
        if one[name] is None:
            yield svg.text(left, y + 4, "n/a", colour="#666")
            continue
        found = one[f"{name}_interval"]
        if found is not None:
            yield svg.path(f"M{place(found[0]):.1f} {y:.1f}H{place(found[1]):.1f}", colour, width=2)
        yield svg.dot(place(one[name]), y, colour)
        yield svg.text(width - 80, y + 4, format(one[name], form), colour=colour)
