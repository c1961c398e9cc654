"""What a stage tells the outside while it works, and what it returns when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


class Reporter(Protocol):
    """Receives progress. A stage never prints."""

    def start(self, what: str, total: int, unit: str) -> None: ...

    def advance(self, n: int = 1, facts: str = "") -> None: ...

    def note(self, text: str) -> None:
        """A fact the user should know; kept in the scrollback."""
        ...


class SilentReporter:
    """A reporter for callers that do not listen."""

    def start(self, what: str, total: int, unit: str) -> None:
        pass

    def advance(self, n: int = 1, facts: str = "") -> None:
        pass

    def note(self, text: str) -> None:
        pass


@dataclass(frozen=True)
class Summary:
    """The result of a stage: where it is, what it found (JSON values), and what to say about it."""

    folder: Path
    facts: Mapping[str, Any]
    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    did_nothing: bool = False
    exit_code: int = 0
    next_command: str | None = field(default=None)
