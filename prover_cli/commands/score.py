"""`prover score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options
from prover_cli.config import ScoreConfig, as_json

NAME = "score"


def command(
    run: options.RunDir = Path("shards"),
    policy: Annotated[
        Path | None,
        options.option("--policy", help="Where the rollout's policy lies; default: where it lay."),
    ] = None,
    no_hindsight: Annotated[
        bool, options.option("--no-hindsight", help="Do not score behind a successful sibling.")
    ] = False,
    values: Annotated[
        Path | None,
        options.option("--values", help="Parquet file of a critic: traj_id, turn, value."),
    ] = None,
    microbatch_tokens: Annotated[
        int, options.option("--microbatch-tokens", min=1, help="Memory of one pass.")
    ] = 8192,
    device: options.Device = "auto",
    dtype: Annotated[
        str, options.option("--dtype", help="float32, bfloat16 or float16.")
    ] = "float32",
    shard: options.Shard = "0/1",
    config_file: options.ConfigFile = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json_: options.AsJson = False,
) -> None:
    """Score every sampled token under the policy that sampled it, with and without hindsight."""
    config = ScoreConfig(
        hindsight=not no_hindsight,
        values=None if values is None else str(values),
        dtype=dtype,
        policy=None if policy is None else str(policy),
        microbatch_tokens=microbatch_tokens,
        device=device,
    )
    if dry_run:
        console.dry_run(as_json(config))
    from prover_cli.stages import score as stage

    with console.reporting() as reporter:
        summary = stage.run(
            config, run, options.mode(resume, overwrite), reporter, options.slice_of(shard)
        )
    console.finish(summary, as_json_)
