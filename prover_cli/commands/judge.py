"""`prover judge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options
from prover_cli.config import JudgeConfig, as_json

NAME = "judge"


def command(
    run: options.RunDir = Path("shards"),
    judge: Annotated[
        str, options.option("--judge", help="contrast, random, uniform or last.")
    ] = "contrast",
    min_success: Annotated[
        int, options.option("--min-success", min=1, help="Fewest successes of an eligible group.")
    ] = 1,
    max_success: Annotated[
        int, options.option("--max-success", min=1, help="Most successes of an eligible group.")
    ] = 3,
    max_segment: Annotated[
        int, options.option("--max-segment", min=1, help="Most turns of a segment.")
    ] = 4,
    seed: options.Seed = 0,
    variant: options.As = None,
    shard: options.Shard = "0/1",
    config_file: options.ConfigFile = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json_: options.AsJson = False,
) -> None:
    """Propose one short segment for every group with mixed outcomes."""
    config = JudgeConfig(judge, min_success, max_success, max_segment, seed)
    if dry_run:
        console.dry_run(as_json(config))
    from prover_cli.stages import judge as stage

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
