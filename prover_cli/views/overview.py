"""The groups of a run as a table, one line per group."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from prover_cli.views.facts import Facts
from prover_cli.views.text import number, plain, shortened

_TASK_CHARACTERS = 200


def overview(entries: Sequence[Facts]) -> RenderableType:
    """Id, successes, proposal and gain of every group; the task is cut to the room that is left."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for name in ("group", "solved", "proposal", "segment", "gain", "task"):
        table.add_column(name, overflow="fold")
    for entry in entries:
        proposal = entry["proposal"]
        status = "-" if proposal is None else proposal["status"]
        cells = (
            plain(entry["group_id"]),
            f"{entry['successes']}/{entry['scored']}",
            plain(status),
            _segment(proposal),
            _gain(entry),
        )
        task = shortened(entry["instruction"], _TASK_CHARACTERS)
        table.add_row(
            *(Text(cell, overflow="fold") for cell in cells),
            Text(task, no_wrap=True, overflow="ellipsis"),
        )
    return table


def _segment(proposal: Facts | None) -> str:
    if proposal is None or proposal["traj_id"] is None:
        return "-"
    sample = plain(proposal["traj_id"].rpartition(".")[2])
    return f"#{sample} [{proposal['start_turn']},{proposal['end_turn']})"


def _gain(entry: Facts) -> str:
    if entry["gain"] is not None:
        return number(entry["gain"], "+.2f")
    if entry["estimate_status"] is None or entry["proposal"]["traj_id"] is None:
        return "-"
    return plain(entry["estimate_status"])
