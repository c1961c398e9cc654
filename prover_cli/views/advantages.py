"""Advantages of one trajectory, a row per turn and a column per credit method."""

from __future__ import annotations

from collections.abc import Container, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from prover_cli.views.facts import Facts
from prover_cli.views.text import MARK, number, plain


def advantage_text(row: Facts) -> str:
    """`base +local`; the local part only where there is one, the reason where there is neither."""
    if row["advantage"] is None:
        return f"n/a ({plain(row['reason'])})"
    if row["local"] is None:
        return number(row["advantage"], "+.3f")
    return f"{number(row['base'], '+.3f')} {row['local']:+.3f} = {row['advantage']:+.3f}"


def advantages_table(rows: Sequence[Facts], segment: Container[int]) -> Table:
    """All rows of one trajectory; the turns of the segment are marked."""
    names = sorted({row["estimator"] for row in rows})
    cells = {(row["turn"], row["estimator"]): advantage_text(row) for row in rows}
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column(Text("turn"), justify="right", no_wrap=True)
    for name in names:
        table.add_column(Text(f"advantage: {plain(name)}"), overflow="fold")
    for turn in sorted({row["turn"] for row in rows}):
        mark = MARK if turn in segment else ""
        table.add_row(
            Text(f"{mark}{turn}"), *(Text(cells.get((turn, name), "n/a")) for name in names)
        )
    return table
