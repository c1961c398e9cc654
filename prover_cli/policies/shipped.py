"""The small starting policies that come with the package."""

from __future__ import annotations

from pathlib import Path

from prover_cli.errors import UsageError

_DATA = Path(__file__).parent / "data"


def shipped_policy(env: str) -> Path:
    """The checkpoint folder of an environment's starting policy; `UsageError` when it has none."""
    folder = _DATA / env
    if not (folder / "config.json").is_file():
        known = sorted(path.name for path in _DATA.iterdir() if path.is_dir())
        raise UsageError(
            f"no starting policy ships for {env} (there are some for: {', '.join(known)})",
            hint="name a checkpoint: --policy DIR",
        )
    return folder
