"""The prompts of judges that ask a model: versioned files, and their hash.

A file's name ends in its version; a prompt that is changed becomes a new file, so a recorded hash
can always be told from the hash of what is here. `--judge-prompt` replaces the task only: how a
judge answers and how data is quoted is what the parser and the quoting rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from prover_cli.errors import UsageError
from prover_cli.ids import digest

_FOLDER = Path(__file__).parent / "prompts"
VERSION = "v1"
SEGMENT = "$max_segment"
"""Stands for the most turns of a segment in a task's prompt."""


@dataclass(frozen=True)
class Instructions:
    """What a model is told before it is shown any data."""

    task: str
    labels: tuple[str, ...] = ()
    """Kinds of labels that are asked for."""

    @classmethod
    def read(cls, path: str | None = None, labels: Sequence[str] = ()) -> Instructions:
        """The task from a file of the user's, or our own; `UsageError` for an unreadable file."""
        if path is None:
            return cls(_prompt("task"), tuple(labels))
        try:
            text = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--judge-prompt {path} cannot be read: {error}") from None
        if not text:
            raise UsageError(f"--judge-prompt {path} is empty")
        return cls(text, tuple(labels))

    def to_propose(self, max_segment: int) -> str:
        """The system message of a judge that proposes a segment."""
        task = self.task.replace(SEGMENT, str(max_segment))
        return "\n\n".join([task, _prompt("data"), _prompt("protocol")])

    @staticmethod
    def to_label(kind: str) -> str:
        """The system message of one that labels turns."""
        return "\n\n".join([_prompt(f"labels-{kind}"), _prompt("data")])

    @property
    def hash(self) -> str:
        """Changes with any text that a model is told."""
        labels = {kind: self.to_label(kind) for kind in self.labels}
        return digest([self.to_propose(0), self.task, labels])


@cache
def _prompt(name: str) -> str:
    return (_FOLDER / f"{name}.{VERSION}.md").read_text(encoding="utf-8").strip()
