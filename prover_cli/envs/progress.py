"""Progress of reading files, told in megabytes."""

from __future__ import annotations

from prover_cli.envs.base import Progress

_MEGABYTE = 10**6


class MegabytesRead:
    """Counts bytes and reports whole megabytes; `finish` reports what is left of the total."""

    def __init__(self, progress: Progress, n_bytes: int) -> None:
        self._progress, self._pending = progress, 0
        self._owed = n_bytes // _MEGABYTE + 1
        progress.start("reading", self._owed, "MB")

    def advance(self, n_bytes: int) -> None:
        whole, self._pending = divmod(self._pending + n_bytes, _MEGABYTE)
        self._tell(whole)

    def finish(self) -> None:
        self._tell(self._owed)

    def _tell(self, megabytes: int) -> None:
        if megabytes:
            self._owed -= megabytes
            self._progress.advance(megabytes)
