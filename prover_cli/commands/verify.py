"""`prover verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options
from prover_cli.config import EngineConfig, VerifyConfig, as_json

NAME = "verify"


def command(
    run: options.RunDir = Path("shards"),
    k: Annotated[int, options.option("--k", min=1, help="Continuations per state.")] = 8,
    proposer: Annotated[
        str, options.option("--proposer", help="judge, or all-turns to value every turn.")
    ] = "judge",
    source: options.From = "judge",
    seed: options.Seed = 0,
    retries: options.Retries = 2,
    engine: options.EngineName = "auto",
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    concurrency: options.Concurrency = 128,
    max_model_len: options.MaxModelLen = None,
    tensor_parallel: options.TensorParallel = 1,
    data_parallel: options.DataParallel = 1,
    memory_fraction: options.MemoryFraction = None,
    server: options.Servers = None,
    variant: options.As = None,
    shard: options.Shard = "0/1",
    config_file: options.ConfigFile = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json_: options.AsJson = False,
) -> None:
    """Sample continuations before and after each proposed segment."""
    config = VerifyConfig(
        k,
        proposer,
        seed,
        source,
        retries,
        EngineConfig(
            engine,
            device,
            dtype,
            concurrency,
            max_model_len,
            tensor_parallel,
            data_parallel,
            memory_fraction,
            tuple(server or ()),
        ),
    )
    if dry_run:
        console.dry_run(as_json(config))
    from prover_cli.stages import verify as stage

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
