"""The certificate of a run's replays, and the tasks it keeps away from others.

`prover verify --check-replay` writes `replay.json` into the run directory. Its key `quarantine`
lists the tasks with a recording that was not reproduced. A verification leaves them out, and a
rollout can: a state that cannot be re-entered cannot be verified.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from prover_cli.errors import UsageError
from prover_cli.shards.run import Run

CERTIFICATE = "replay.json"


def read_quarantine(run: Run, file: str | None) -> frozenset[str]:
    """The quarantined tasks of `file`, or of the run's own certificate where there is one.

    A certificate of the run that was written for another rollout counts for nothing: the rollout
    was repeated since.
    """
    if file is not None:
        return quarantined(Path(file))
    own = run.path / CERTIFICATE
    if not own.is_file():
        return frozenset()
    if _read(own).get("rollout") != run.stage("rollout").manifest().output_digest:
        return frozenset()
    return quarantined(own)


def quarantined(path: Path) -> frozenset[str]:
    """The task ids in a certificate's quarantine; `UsageError` when it is none."""
    listed = _read(path).get("quarantine")
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise UsageError(
            f"{path} has no list of task ids under the key quarantine",
            hint="write one: prover verify RUN --check-replay",
        )
    return frozenset(listed)


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} is not a JSON object")
    return value
