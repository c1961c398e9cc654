"""Environments by name, including those that other packages add.

A package adds one with an entry point in the group `prover.envs` whose value is a callable that
takes options as keyword arguments and returns an `Environment`. Without packaging, the name
`module:callable` works too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_args, get_type_hints

from prover_cli.envs.base import Environment, Progress
from prover_cli.errors import UsageError

_GROUP = "prover.envs"
_NAMES = {int: "a whole number", float: "a number", bool: "true or false"}


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
    _check_options(f"environment {name}", factory, options)
    environment: Environment = factory(**options)
    return environment


def run(name: str, ability: str, progress: Progress, **options: Any) -> dict[str, Any]:
    """Let an environment prepare, generate or verify its tasks, and return what it found.

    These are callables of its class that take a `Progress` and options; an environment has those
    that make sense for it. Raises `UsageError` for one that it lacks and for an unknown option.
    """
    function = getattr(_factory(name), ability, None)
    if function is None:
        able = [other for other in names() if hasattr(_factory(other), ability)]
        raise UsageError(
            f"environment {name} has nothing to {ability}; these have: {', '.join(able) or 'none'}"
        )
    _check_options(f"{ability} of environment {name}", function, options)
    facts: dict[str, Any] = function(progress, **options)
    return facts


def _check_options(what: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    known = dict(inspect.signature(function).parameters)
    known.pop("progress", None)
    _check_values(what, function, options)
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values()):
        return
    if unknown := sorted(set(options) - set(known)):
        raise UsageError(f"{what} has no option {', '.join(unknown)}; it has: {', '.join(known)}")
    missing = [o for o, p in known.items() if p.default is inspect.Parameter.empty]
    if lacking := sorted(set(missing) - set(options)):
        flags = " ".join(f"--{option.replace('_', '-')} ..." for option in lacking)
        raise UsageError(f"{what} needs {', '.join(lacking)}", hint=f"add {flags}")


def _check_values(what: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Numbers and switches must be such; a text may look like anything."""
    annotated = function.__init__ if inspect.isclass(function) else function
    try:
        hints = get_type_hints(annotated)
    except (NameError, TypeError):
        return  # annotations that only a type checker can resolve
    for option, value in options.items():
        kinds = set(get_args(hints.get(option)) or (hints.get(option),)) - {type(None)}
        if not kinds or not kinds <= {int, float, bool} or value is None:
            continue
        fits = isinstance(value, bool) if kinds == {bool} else isinstance(value, (int, *kinds))
        if not fits or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(sorted(_NAMES[kind] for kind in kinds))
            raise UsageError(f"{what}: {option} is {names}, not {value!r}")


def _factory(name: str) -> Any:
    if ":" in name:
        try:
            return EntryPoint(name, name, _GROUP).load()
        except (ImportError, AttributeError) as error:
            raise UsageError(f"environment {name} cannot be imported: {error}") from error
    check_name(name)
    return next(entry for entry in entry_points(group=_GROUP) if entry.name == name).load()
