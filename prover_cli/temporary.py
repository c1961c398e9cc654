"""Names of files and folders that are being written and take their place only when whole."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

PREFIX = ".tmp-"


def beside(path: Path) -> Path:
    """A name in the same folder that nobody else uses; it ends with the name of `path`."""
    return path.with_name(f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}-{path.name}")
