"""`prover export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options
from prover_cli.config import ExportConfig, as_json

NAME = "export"


def command(
    out: Annotated[
        Path, options.option("--out", help="What is written: a file for jsonl, or a folder.")
    ],
    run: options.RunDir = Path("shards"),
    to: Annotated[str, options.option("--to", help="jsonl, hf, verl, trl or prime-rl.")] = "jsonl",
    estimator: Annotated[
        str | None,
        options.option("--estimator", help="Whose advantages; default: the only one there."),
    ] = None,
    source: Annotated[
        str, options.option("--from", help="Stage read: advantage or advantage@NAME.")
    ] = "advantage",
    pad_id: Annotated[
        int, options.option("--pad-id", min=0, help="Id in padding (verl, trl); masked anyway.")
    ] = 0,
    config_file: options.ConfigFile = None,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json_: options.AsJson = False,
) -> None:
    """Write credited tokens in the form that another trainer reads."""
    config = ExportConfig(to, estimator, source, pad_id)
    if dry_run:
        console.dry_run(as_json(config))
    from prover_cli.stages import export as stage

    with console.reporting() as reporter:
        summary = stage.run(config, run, out, overwrite, reporter)
    console.finish(summary, as_json_)
