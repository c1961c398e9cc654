"""`prover validate`."""

from __future__ import annotations

from pathlib import Path

import typer

from prover_cli import console, options

NAME = "validate"


def command(run: options.RunDir = Path("shards"), as_json: options.AsJson = False) -> None:
    """Check every file, key and reference of a run directory; exits 2 when something is wrong."""
    from prover_cli import open_run
    from prover_cli.shards.validate import faults

    opened = open_run(run)
    found = list(faults(opened))
    stages = [stage.name for stage in opened.stages()]
    if as_json:
        console.data_json(
            {"stages": stages, "faults": [{"where": where, "what": what} for where, what in found]}
        )
    else:
        for where, what in found:
            console.data(f"{where}: {what}")
        console.talk(f"{len(found)} faults in {', '.join(stages) or 'no stage'}")
    if found:
        raise typer.Exit(2)
