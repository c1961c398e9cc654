"""`prover stats`."""

from __future__ import annotations

from pathlib import Path

from prover_cli import console, options

NAME = "stats"


def command(run: options.RunDir = Path("shards"), as_json: options.AsJson = False) -> None:
    """Show the numbers of every stage: success, proposals, gains, credit, evaluations."""
    from prover_cli import open_run
    from prover_cli.views.stats import run_facts
    from prover_cli.views.stats_table import stats_view

    facts = run_facts(open_run(run))
    if as_json:
        console.data_json(facts)
    elif facts:
        console.stdout_console().print(stats_view(facts))
    else:
        console.talk(f"{run} holds no stage yet; make one: prover rollout --out {run}")
