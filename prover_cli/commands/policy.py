"""`prover policy`: the starting policies: where they are, and how to make one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prover_cli import console, options

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


@app.command("init")
@console.guard
def init(
    out: Annotated[Path, options.option("--out", help="Checkpoint folder to write.")],
    env: Annotated[str, options.option("--env", help="Environment.")] = "webshop",
    minutes: Annotated[
        float | None,
        options.option("--minutes", min=0.0, help="Train about this long instead of --steps."),
    ] = None,
    steps: Annotated[
        int | None, options.option("--steps", min=1, help="Training steps; default: the recipe's.")
    ] = None,
    seed: options.Seed = 0,
    overwrite: options.Overwrite = False,
    as_json_: options.AsJson = False,
) -> None:
    """Train the small starting policy of an environment from nothing."""
    from prover_cli.stages import policy_init

    with console.reporting() as reporter:
        summary = policy_init.run(
            env, out, reporter, minutes=minutes, steps=steps, seed=seed, overwrite=overwrite
        )
    console.finish(summary, as_json_)
