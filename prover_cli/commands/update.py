"""`prover update`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options
from prover_cli.config import UpdateConfig, as_json

NAME = "update"


def command(
    run: options.RunDir = Path("shards"),
    lr: Annotated[float, options.option("--lr", min=0.0, help="Learning rate.")] = 1e-6,
    weight_decay: Annotated[
        float, options.option("--weight-decay", min=0.0, help="AdamW weight decay.")
    ] = 0.0,
    max_grad_norm: Annotated[
        float, options.option("--max-grad-norm", min=0.0, help="Gradient norm is clipped to this.")
    ] = 1.0,
    clip_low: Annotated[
        float,
        options.option(
            "--clip-low", min=0.0, help="Ratio clip below 1; matters from the second step."
        ),
    ] = 0.2,
    clip_high: Annotated[
        float,
        options.option(
            "--clip-high", min=0.0, help="Ratio clip above 1; matters from the second step."
        ),
    ] = 0.2,
    kl_coef: Annotated[
        float,
        options.option(
            "--kl-coef",
            min=0.0,
            help="Weight of the KL to the rollout policy; matters from the second step.",
        ),
    ] = 0.0,
    epochs: Annotated[int, options.option("--epochs", min=1, help="Passes over the data.")] = 1,
    minibatches: Annotated[
        int, options.option("--minibatches", min=1, help="Optimizer steps per pass.")
    ] = 1,
    seed: options.Seed = 0,
    estimator: Annotated[
        str | None,
        options.option("--estimator", help="Whose advantages to use; default: the only one there."),
    ] = None,
    source: Annotated[
        str, options.option("--from", help="Stage read: advantage or advantage@NAME.")
    ] = "advantage",
    tokens_per_microbatch: Annotated[
        int, options.option("--tokens-per-microbatch", min=1, help="Memory of one pass.")
    ] = 8192,
    device: options.Device = "auto",
    variant: options.As = None,
    config_file: options.ConfigFile = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json_: options.AsJson = False,
) -> None:
    """Update the policy with the advantages; writes a Hugging Face checkpoint."""
    config = UpdateConfig(
        lr=lr,
        weight_decay=weight_decay,
        max_grad_norm=max_grad_norm,
        clip_low=clip_low,
        clip_high=clip_high,
        kl_coef=kl_coef,
        epochs=epochs,
        minibatches=minibatches,
        seed=seed,
        estimator=estimator,
        source=source,
        tokens_per_microbatch=tokens_per_microbatch,
        device=device,
    )
    if dry_run:
        console.dry_run(as_json(config))
    from prover_cli.stages import update as stage

    with console.reporting() as reporter:
        summary = stage.run(config, run, options.mode(resume, overwrite), reporter, variant)
    console.finish(summary, as_json_)
