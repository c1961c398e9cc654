"""`prover advantage`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options
from prover_cli.config import AdvantageConfig, as_json

NAME = "advantage"


def command(
    run: options.RunDir = Path("shards"),
    estimator: Annotated[
        str, options.option("--estimator", help="Credit methods, separated by commas.")
    ] = "prover",
    lambda_: Annotated[
        float | None, options.option("--lambda", help="Weight of a verified gain (ProVer).")
    ] = None,
    gate: Annotated[
        str | None,
        options.option("--gate", help="positive, margin, ci, posterior or shrink (ProVer)."),
    ] = None,
    outcome: Annotated[
        str | None, options.option("--outcome", help="Outcome of a trajectory: reward or success.")
    ] = None,
    knob: Annotated[
        list[str] | None, options.option("--knob", help="Any other setting of a method: KEY=VALUE.")
    ] = None,
    source: Annotated[
        str, options.option("--from", help="Stage the estimates come from: verify or verify@NAME.")
    ] = "verify",
    include_continuations: Annotated[
        bool,
        options.option(
            "--include-continuations", help="Credit continuations too (of verify --keep-turns)."
        ),
    ] = False,
    variant: options.As = None,
    shard: options.Shard = "0/1",
    config_file: options.ConfigFile = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json_: options.AsJson = False,
) -> None:
    """Turn outcomes and verified gains into one advantage per turn."""
    named = {"lambda_": lambda_, "gate": gate, "outcome": outcome}
    config = AdvantageConfig(
        estimators=tuple(name.strip() for name in estimator.split(",")),
        knobs={key: value for key, value in named.items() if value is not None}
        | options.key_values(knob or []),
        source=source,
        include_continuations=include_continuations,
    )
    if dry_run:
        console.dry_run(as_json(config))
    from prover_cli.stages import advantage as stage

    with console.reporting() as reporter:
        summary = stage.run(
            config,
            run,
            options.mode(resume, overwrite),
            reporter,
            variant,
            options.slice_of(shard),
        )
    console.finish(summary, as_json_)
