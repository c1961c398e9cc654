"""Everything a person sees: data on stdout, talk and progress on stderr.

Text from policies, environments and judges is never interpreted as markup here; it is printed as
it is. On a terminal progress is a bar; elsewhere it is a plain line now and then.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from prover_cli.errors import ProverError
from prover_cli.stages.report import Summary

PLAIN_LINE_SECONDS = 10.0
P = ParamSpec("P")
R = TypeVar("R")

_debug = False


def set_debug(on: bool) -> None:
    """Show tracebacks of user errors too."""
    global _debug
    _debug = on


def talk(text: str) -> None:
    """A line for the user."""
    typer.echo(text, err=True)


def data(text: str) -> None:
    """A line of output."""
    typer.echo(text)


def data_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def stdout_console() -> Console:
    """For renderables that are the output of a command."""
    return Console(highlight=False, markup=False, emoji=False)


def guard(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors a user can act on into one message and the documented exit code."""

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except ProverError as error:
            if _debug:
                raise
            talk(f"error: {error.message}")
            if error.hint:
                talk(f"  -> {error.hint}")
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            talk("interrupted: finished shards are on the disk, --resume goes on from them")
            raise typer.Exit(130) from None

    return guarded


def finish(summary: Summary, as_json: bool) -> None:
    """Print a stage's summary and leave with its exit code."""
    if summary.did_nothing:
        talk("already complete: nothing to do")
    for line in summary.lines:
        talk(line)
    for warning in summary.warnings:
        talk(f"warning: {warning}")
    if summary.next_command and not summary.exit_code:
        talk(f"next: {summary.next_command}")
    if as_json:
        data_json({"folder": str(summary.folder), **summary.facts})
    else:
        data(str(summary.folder))
    if summary.exit_code:
        raise typer.Exit(summary.exit_code)


def dry_run(config: Mapping[str, Any]) -> None:
    """Print a resolved configuration and stop."""
    data_json(config)
    raise typer.Exit(0)


@contextmanager
def reporting() -> Iterator[TerminalReporter | PlainReporter]:
    """A reporter that suits stderr."""
    if not sys.stderr.isatty():
        yield PlainReporter()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield TerminalReporter(progress)


class TerminalReporter:
    """A bar on a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def start(self, what: str, total: int, unit: str) -> None:
        self._task = self._progress.add_task(f"{what} {unit}", total=total, facts="")

    def advance(self, n: int = 1, facts: str = "") -> None:
        if self._task is not None:
            self._progress.update(self._task, advance=n, facts=facts)

    def note(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)


class PlainReporter:
    """A line at the start, at the end and now and then in between."""

    def __init__(self) -> None:
        self._what, self._total, self._done, self._next = "", 0, 0, 0.0

    def start(self, what: str, total: int, unit: str) -> None:
        self._what, self._total, self._done = f"{what} {unit}", total, 0
        self._next = time.monotonic() + PLAIN_LINE_SECONDS
        talk(f"{self._what}: 0 of {total}")

    def advance(self, n: int = 1, facts: str = "") -> None:
        self._done += n
        if self._done >= self._total or time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_LINE_SECONDS
            talk(f"{self._what}: {self._done} of {self._total} {facts}".rstrip())

    def note(self, text: str) -> None:
        talk(text)
