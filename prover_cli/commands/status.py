"""`prover status`."""

from __future__ import annotations

from pathlib import Path

from prover_cli import console, options

NAME = "status"


def command(run: options.RunDir = Path("shards"), as_json: options.AsJson = False) -> None:
    """Show what is complete, owed or stale."""
    from rich.table import Table
    from rich.text import Text

    from prover_cli import open_run
    from prover_cli.shards.status import run_status

    statuses = run_status(open_run(run))
    if as_json:
        console.data_json([status.as_json() for status in statuses])
        return
    table = Table("stage", "state", "shards", "void", "policy", "next")
    for status in statuses:
        state = f"stale: {', '.join(status.stale)} changed" if status.stale else status.state
        shards = f"{status.shards_done}/{status.shards_wanted}" if status.shards_wanted else "-"
        cells = (status.name, state, shards, str(status.void), status.policy_id or "-")
        table.add_row(*(Text(cell) for cell in cells), Text(status.next_command or ""))
    console.stdout_console().print(table)
    for status in statuses:
        for fault in status.damaged:
            console.talk(f"warning: {status.name}: {fault}")
