"""The options of `prover plan` as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from prover_cli.views.text import MARK, number

_COLUMNS = ("", "rule", "k", "group", "drawn", "tokens", "sign error", "clear", "noise")


def plan_view(facts: dict[str, Any]) -> RenderableType:
    """The facts of `stages.plan.run`; the recommended option is marked."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for column in (*_COLUMNS, "corr."):
        table.add_column(Text(column), justify="left" if column in ("", "rule") else "right")
    for option in facts["options"]:
        table.add_row(*_cells(option, option == facts["recommended"]))
    return Group(table, *_notes(facts), *_chain(facts))


def _cells(option: dict[str, Any], chosen: bool) -> Iterator[Text]:
    style = "bold" if chosen else ""
    shares = (option["token_share"], option["sign_error"], option["clear_sign_error"])
    cells = (
        MARK if chosen else "",
        option["rule"],
        str(option["k"]),
        str(option["per_group"]),
        f"{option['continuations']:.1f}",
        *(number(share, ".1%") for share in shares),
        f"{option['noise']:.3f}",
        number(option["correlation"], ".3f"),
    )
    return (Text(cell, style=style) for cell in cells)


def _notes(facts: dict[str, Any]) -> Iterator[Text]:
    yield Text(
        "group: proposals per group; drawn: continuations per segment; clear: wrong signs among "
        "gains of 1/8 and more; noise: error of the bonus; corr.: with the gain"
    )
    yield Text(
        f"from {facts['segments']} segments with {facts['stored_continuations']} continuations of "
        f"{facts['source']}; tokens are a share of the rollout's"
    )
    chosen = facts["recommended"]
    if chosen is None:
        yield Text(f"no option fits {facts['budget']:.1%} of the rollout's tokens")
        return
    flags = " --adaptive" if chosen["rule"] == "adaptive" else ""
    yield Text(
        f"within {facts['budget']:.1%} of the rollout's tokens the credit is least noisy with "
        f"--k {chosen['k']}{flags}"
    )


def _chain(facts: dict[str, Any]) -> Iterator[RenderableType]:
    """`prover` and `prover-chain` with the same continuations."""
    options, chosen = facts["chain_options"], facts["chain_recommended"]
    if not any(option["chain_error"] is not None for option in options):
        yield Text("prover-chain is not measured: that takes three continuations of each state")
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for column in ("", "before + after", "tokens", "prover", "prover-chain", "95 %"):
        table.add_column(Text(column), justify="left" if not column else "right")
    for option in options:
        style = "bold" if option == chosen else ""
        bounds = option["chain_interval"]
        cells = (
            MARK if option == chosen else "",
            f"{option['k_before']} + {option['k_after']}",
            number(option["token_share"], ".1%"),
            f"{option['prover_error']:.3f}",
            number(option["chain_error"], ".3f"),
            "" if bounds is None else f"[{bounds[0]:.3f}, {bounds[1]:.3f}]",
        )
        table.add_row(*(Text(cell, style=style) for cell in cells))
    yield table
    yield Text(
        "root mean square error of the gain with one proposal per group; that of prover-chain is "
        "measured on continuations held out"
    )
    if chosen is not None:
        yield Text(
            f"within {facts['budget']:.1%} of the rollout's tokens prover-chain can have "
            f"--k-before {chosen['k_before']} --k-after {chosen['k_after']}"
        )
