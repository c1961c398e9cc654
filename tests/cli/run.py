"""Running the command line as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROVER = [sys.executable, "-m", "prover_cli"]


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without PROVER_ variables but the cache, with `changes`."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PROVER_") or key == "PROVER_CACHE"
    }
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)} | changes


def prover(
    *arguments: str | Path, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `prover` to its end."""
    return subprocess.run(
        [*PROVER, *map(str, arguments)],
        cwd=cwd,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=240,
    )


def succeed(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Run `prover`, expect exit code 0, return stdout."""
    result = prover(*arguments, cwd=cwd, **variables)
    assert result.returncode == 0, f"{arguments}: {result.stderr}"
    return result.stdout
