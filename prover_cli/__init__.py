"""Credit assignment for LLM agents trained by reinforcement learning.

The command-line tool is `prover`. The Python surface that others may build on is small:
`prover_cli.open_run(path)` gives a run directory's tables as lazy Polars frames,
`prover_cli.envs.load(name, **options)` an environment, and
`prover_cli.credit.compute(estimator, ...)` the advantages of any set of tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from prover_cli.shards.run import Run

__version__ = "0.1.0"


def open_run(path: str | Path) -> Run:
    """Open a run directory for reading; raises `ShardError` when there is none."""
    from prover_cli.shards.run import Run

    return Run(path)
