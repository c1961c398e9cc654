"""Errors that a person can act on.

Every failure belongs to one boundary. What a policy does wrong is data: an invalid action, a
truncated reply or an overlong context becomes a row with a stop reason and never an exception that
leaves a stage. What the infrastructure does wrong to one trajectory (`EnvironmentFault`,
`RequestFailed`) voids that trajectory: its reward is null, never zero. Everything in this module
that derives from `ProverError` ends the command: `message` states the fact and where it was found,
`hint` the command to type next, and `exit_code` is the documented code of its kind. Anything else
that escapes is a bug and exits 1 with a traceback.
"""

from __future__ import annotations


class ProverError(Exception):
    """A failure explained to the user in one message, without a traceback."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ProverError):
    """The command line, a configuration file or an input folder cannot be used as it is."""

    exit_code = 2


class ConfigMismatchError(UsageError):
    """A run directory was written with another configuration than the one asked for."""


class ShardError(UsageError):
    """A shard or manifest is missing, damaged, or of another schema version."""


class PolicyChangedError(UsageError):
    """The checkpoint under a recorded path is no longer the policy that wrote the shards."""


class TaskMismatchError(UsageError):
    """An environment built now does not offer the tasks that the shards were recorded on."""


class StorageError(ProverError, OSError):
    """A folder cannot be written: permissions, a full disk, a path that is a file."""

    exit_code = 2


class EngineDeadError(ProverError):
    """The generation engine (or judge backend) is gone; finished shards are on disk."""

    exit_code = 3


class NothingToDoError(ProverError):
    """There is nothing to verify or to learn from."""

    exit_code = 4


class LockedError(ProverError):
    """Another process is writing the same stage."""

    exit_code = 5


class EnvironmentFault(Exception):
    """The infrastructure behind an environment failed; the trajectory is void, its reward null."""


class RequestFailed(Exception):
    """One generation request failed for a reason other than the policy's own output."""
