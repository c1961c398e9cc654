"""What to do with a stage that exists already."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    REFUSE = "refuse"
    """Stop with a message."""
    RESUME = "resume"
    """Keep finished shards and go on."""
    OVERWRITE = "overwrite"
    """Discard what is there."""
