"""The command line: mounts one command per verb and imports nothing heavy."""

from __future__ import annotations

from typing import Annotated

import typer

from prover_cli import __version__, console
from prover_cli.commands import (
    advantage,
    compare,
    doctor,
    evaluate,
    explain,
    export,
    judge,
    plan,
    policy,
    rollout,
    score,
    serve_retriever,
    show,
    stats,
    status,
    tasks,
    update,
    validate,
    verify,
)

app = typer.Typer(
    name="prover",
    help="Credit assignment for LLM agents: propose a segment, verify it by continuations of the "
    "policy, credit its tokens. Each stage reads and writes Parquet shards of a run directory.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        console.data(f"prover {__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="PROVER_DEBUG", help="Show tracebacks of user errors.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Global options."""
    console.set_debug(debug)


for module in (
    rollout,
    judge,
    verify,
    score,
    advantage,
    update,
    export,
    evaluate,
    status,
    validate,
    show,
    stats,
    plan,
    explain,
    doctor,
    serve_retriever,
):
    app.command(module.NAME)(console.guard(module.command))
app.add_typer(compare.app, name="compare")
app.add_typer(tasks.app, name="tasks")
app.add_typer(policy.app, name="policy")
