"""`prover show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prover_cli import console, options

NAME = "show"


def command(
    run: options.RunDir = Path("shards"),
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[GROUP|TRAJECTORY]",
            help="Id of a group (a prefix will do) or of a trajectory (GROUP.SAMPLE).",
        ),
    ] = None,
    variant: Annotated[
        str | None,
        options.option("--as", help="Show the stages of this variant: judge@NAME and so on."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the groups of a run, or show one group or one trajectory."""
    from prover_cli import open_run
    from prover_cli.views.facts import GroupReader
    from prover_cli.views.group import group_view
    from prover_cli.views.overview import overview
    from prover_cli.views.trajectory import trajectory_view

    reader = GroupReader(open_run(run), variant)
    output = console.stdout_console()
    if what is None:
        entries = reader.overview()
        console.data_json(entries) if as_json else output.print(overview(entries))
        return
    facts = reader.trajectory(what) if "." in what else reader.group(what)
    if as_json:
        console.data_json(facts)
    elif "." in what:
        output.print(trajectory_view(facts))
    else:
        output.print(group_view(facts, output.width))
