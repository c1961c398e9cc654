"""Credit methods by name, including those that other packages add.

A package adds one with an entry point in the group `prover.estimators` whose value is a frozen
dataclass (or a `partial` of one) that is an `Estimator`; its fields are the knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from importlib.metadata import entry_points
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from prover_cli.credit.base import Estimator
from prover_cli.credit.group_relative import GroupRelative
from prover_cli.credit.prover import ProVer
from prover_cli.credit.vineppo import VinePPO
from prover_cli.errors import UsageError

_GROUP = "prover.estimators"

_BUILT_IN: Mapping[str, Callable[..., Estimator]] = {
    "grpo": partial(GroupRelative, norm="mean"),
    "grpo-std": partial(GroupRelative, norm="std"),
    "rloo": partial(GroupRelative, norm="rloo"),
    "maxrl": partial(GroupRelative, norm="maxrl"),
    "prover": ProVer,
    "vineppo": VinePPO,
}


def names() -> list[str]:
    """Registered estimator names, sorted."""
    return sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=_GROUP))})


def make(name: str, **knobs: Any) -> Estimator:
    """An estimator with its knobs set; `UsageError` for an unknown name or knob."""
    factory = _BUILT_IN.get(name) or _external(name)
    _check_values(name, factory, knobs)
    try:
        return factory(**knobs)
    except TypeError as error:
        raise UsageError(
            f"estimator {name}: {error}; it has: {', '.join(knob_names(name))}"
        ) from None


def _check_values(name: str, factory: Callable[..., Estimator], knobs: Mapping[str, Any]) -> None:
    """`UsageError` for a value that a knob's type does not allow."""
    hints = get_type_hints(factory.func if isinstance(factory, partial) else factory)
    for knob, value in knobs.items():
        try:
            TypeAdapter(hints.get(knob, Any)).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise UsageError(f"estimator {name}: {knob}={value!r}: {reason}") from None


def knob_names(name: str) -> list[str]:
    """The knobs an estimator takes."""
    factory = _BUILT_IN.get(name) or _external(name)
    target = factory.func if isinstance(factory, partial) else factory
    fixed = set(factory.keywords) if isinstance(factory, partial) else set()
    if not (isinstance(target, type) and is_dataclass(target)):
        return []
    return [item.name for item in fields(target) if item.name not in fixed]


def needs(name: str) -> frozenset[str]:
    """The tables an estimator cannot do without."""
    return make(name).needs


def _external(name: str) -> Callable[..., Estimator]:
    found = [entry for entry in entry_points(group=_GROUP) if entry.name == name]
    if not found:
        raise UsageError(f"there is no estimator called {name!r}; known: {', '.join(names())}")
    factory: Callable[..., Estimator] = found[0].load()
    return factory
