"""`prover explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prover_cli import console, options

NAME = "explain"


def command(
    run: Annotated[Path, typer.Argument(help="Run directory.", envvar="PROVER_RUN")],
    trajectory: Annotated[
        str,
        typer.Argument(
            metavar="TRAJECTORY", help="Id of a trajectory (GROUP.SAMPLE); a prefix will do."
        ),
    ],
    turn: Annotated[int, options.option("--turn", min=0, help="Its turn, from 0.")],
    estimator: Annotated[
        str | None,
        options.option("--estimator", help="Credit method; default: the only one, or prover."),
    ] = None,
    source: Annotated[
        str, options.option("--from", help="Stage read: advantage or advantage@NAME.")
    ] = "advantage",
    full: Annotated[
        bool, options.option("--full", help="Show raw replies and token advantages whole.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Walk one advantage back to outcomes, proposal, continuations, seeds and files."""
    from prover_cli.stages import explain as stage
    from prover_cli.views.explain import explain_view

    facts = stage.run(run, stage.Question(trajectory, turn, estimator, source, full))
    if as_json:
        console.data_json(facts)
    else:
        console.stdout_console().print(explain_view(facts))
