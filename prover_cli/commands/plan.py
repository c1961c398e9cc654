"""`prover plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options

NAME = "plan"


def command(
    run: options.RunDir = Path("shards"),
    source: Annotated[
        str, options.option("--from", help="Stage read: verify or verify@NAME.")
    ] = "verify",
    budget: Annotated[
        float,
        options.option("--budget", min=0.0, help="Tokens to spend, as a share of the rollout's."),
    ] = 0.15,
    draws: Annotated[
        int, options.option("--draws", min=1, help="Simulated verifications of each segment.")
    ] = 200,
    seed: options.Seed = 0,
    plot: Annotated[
        Path | None, options.option("--plot", help="File to draw the options in: FILE.svg.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare numbers of continuations by cost and error, from those that are stored."""
    from prover_cli.stages import plan as stage
    from prover_cli.views.plan_svg import plan_svg
    from prover_cli.views.plan_table import plan_view

    with console.reporting() as reporter:
        facts = stage.run(run, reporter, source, budget, draws, seed)
    if plot is not None:
        from prover_cli.shards.store import write_atomic

        text = plan_svg(facts)
        write_atomic(plot, lambda path: _write(path, text))
        console.talk(f"drawn in {plot}")
    if as_json:
        console.data_json(facts)
    else:
        console.stdout_console().print(plan_view(facts))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
