"""`prover compare`: credit methods and judges, side by side on one run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from prover_cli import console, options
from prover_cli.errors import UsageError

ABOUT = "Compare credit methods, or judges, on the shards of one run."
app = typer.Typer(no_args_is_help=True, help=ABOUT, rich_markup_mode=None)

Plot = Annotated[Path | None, options.option("--plot", help="File to draw them in: FILE.svg.")]


@app.callback(help=ABOUT)
def main() -> None:
    pass


@app.command("estimators")
@console.guard
def estimators(
    run: options.RunDir = Path("shards"),
    estimator: Annotated[
        str,
        options.option(
            "--estimator", help="Credit methods, separated by commas; NAME or NAME:verify@VARIANT."
        ),
    ] = "grpo,prover",
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
    per_task: Annotated[
        bool, options.option("--per-task", help="Add a table with a row for each task.")
    ] = False,
    reference: Annotated[
        str | None,
        options.option("--reference", help="Score the methods against this one at every turn."),
    ] = None,
    reference_source: Annotated[
        str | None,
        options.option("--reference-from", help="Its verification; default: that of --from."),
    ] = None,
    decided: Annotated[
        bool,
        options.option(
            "--decided", help="Only turns where the reference is beyond its standard error."
        ),
    ] = False,
    draws: Annotated[
        int, options.option("--draws", min=1, help="Bootstrap samples of the groups.")
    ] = 1000,
    seed: options.Seed = 0,
    plot: Plot = None,
    as_json: options.AsJson = False,
) -> None:
    """Compute the credit of several methods from the shards and compare it, turn by turn."""
    named = {"lambda_": lambda_, "gate": gate, "outcome": outcome}
    knobs = {key: value for key, value in named.items() if value is not None}
    knobs |= options.key_values(knob or [])
    if reference is None:
        if decided or reference_source is not None:
            raise UsageError("--decided and --reference-from need a --reference")
        from prover_cli.stages import compare_estimators as stage
        from prover_cli.views.compare_estimators import estimators_view
        from prover_cli.views.compare_estimators_svg import estimators_svg

        facts = stage.run(run, estimator, knobs, source, per_task)
        _show(facts, estimators_view, estimators_svg, plot, as_json)
        return
    if per_task:
        raise UsageError("--per-task and --reference exclude each other")
    from prover_cli.stages import compare_audit as audit
    from prover_cli.views.compare_audit import audit_svg, audit_view

    wanted = audit.Audit(
        estimator, reference, knobs, source, reference_source or source, decided, draws, seed
    )
    _show(audit.run(run, wanted), audit_view, audit_svg, plot, as_json)


@app.command("judges")
@console.guard
def judges(
    run: options.RunDir = Path("shards"),
    source: Annotated[
        str, options.option("--from", help="Judge stages, separated by commas: judge,judge@NAME.")
    ] = "judge",
    plot: Plot = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare what judges proposed, how far they agree, and what verification made of it."""
    from prover_cli.stages import compare_judges as stage
    from prover_cli.views.compare_judges import judges_svg, judges_view

    facts = stage.run(run, [name.strip() for name in source.split(",")])
    _show(facts, judges_view, judges_svg, plot, as_json)


def _show(
    facts: dict[str, Any],
    view: Callable[[dict[str, Any]], Any],
    drawing: Callable[[dict[str, Any]], str],
    plot: Path | None,
    as_json: bool,
) -> None:
    """Print the facts, and draw them where a file is named."""
    for warning in facts.get("warnings", ()):
        console.talk(f"warning: {warning}")
    if plot is not None:
        from prover_cli.shards.store import write_atomic

        text = drawing(facts)
        write_atomic(plot, lambda path: _write(path, text))
        console.talk(f"drawn in {plot}")
    if as_json:
        console.data_json(facts)
    else:
        console.stdout_console().print(view(facts))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
