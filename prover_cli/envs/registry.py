"""Environments by name, including those that other packages add.

A package adds one with an entry point in the group `prover.envs` whose value is a callable that
takes options as keyword arguments and returns an `Environment`. Without packaging, the name
`module:callable` works too.
"""

from __future__ import annotations

import inspect
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from prover_cli.envs.base import Environment
from prover_cli.errors import UsageError

_GROUP = "prover.envs"


def names() -> list[str]:
    """Registered environment names, sorted."""
    return sorted({entry.name for entry in entry_points(group=_GROUP)})


def check_name(name: str) -> None:
    """`UsageError` for a name that is neither registered nor `module:callable`."""
    if ":" not in name and name not in names():
        raise UsageError(
            f"there is no environment called {name!r}; known: {', '.join(names())}",
            hint="prover rollout --env webshop",
        )


def load(name: str, **options: Any) -> Environment:
    """Build an environment; options are those of its constructor (the same names as the flags).

    Raises `UsageError` for an unknown name or option.
    """
    factory = _factory(name)
    if not callable(factory):
        raise UsageError(f"environment {name} is not something that can be called")
    known = inspect.signature(factory).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    unknown = sorted(set(options) - set(known))
    if unknown and not takes_any:
        raise UsageError(
            f"environment {name} has no option {', '.join(unknown)}; it has: {', '.join(known)}"
        )
    environment: Environment = factory(**options)
    return environment


def _factory(name: str) -> Any:
    if ":" in name:
        try:
            return EntryPoint(name, name, _GROUP).load()
        except (ImportError, AttributeError) as error:
            raise UsageError(f"environment {name} cannot be imported: {error}") from error
    check_name(name)
    return next(entry for entry in entry_points(group=_GROUP) if entry.name == name).load()
