"""One writer per stage (or per slice of a stage), on one machine or a shared file system."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prover_cli.errors import LockedError
from prover_cli.shards.store import make_directory, storage_error

SIGNED_WITHIN_SECONDS = 1.0


@contextmanager
def stage_lock(folder: Path, slice_: str = "0/1") -> Iterator[None]:
    """Hold the stage for writing; `LockedError` names the process that already does.

    A whole-stage writer excludes everybody, a slice's writer excludes whole-stage writers and
    other writers of the same slice.
    """
    make_directory(folder)
    number, of = slice_.split("/")
    with ExitStack() as held:
        if of == "1":
            held.enter_context(_flock(folder / ".lock", fcntl.LOCK_EX))
        else:
            held.enter_context(_flock(folder / ".lock", fcntl.LOCK_SH))
            held.enter_context(_flock(folder / f".lock-{number}-of-{of}", fcntl.LOCK_EX))
        yield


@contextmanager
def _flock(path: Path, kind: int) -> Iterator[None]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise storage_error(error, path) from error
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedError(
                f"{path.parent} is being written by process {_holder(descriptor)}",
                hint="wait for it, or stop it and repeat with --resume",
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        try:
            yield
        finally:
            if kind == fcntl.LOCK_EX:
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """The process that signed the lock file; one that has only just locked it signs in a moment."""
    deadline = time.monotonic() + SIGNED_WITHIN_SECONDS
    while not (signed := os.pread(descriptor, 32, 0).decode()):
        if time.monotonic() > deadline:
            return "unknown"
        time.sleep(0.01)
    return signed
