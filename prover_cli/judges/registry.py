"""Judges by name, including those that other packages add.

A package adds one with an entry point in the group `prover.judges` whose value is a callable that
takes `seed` and `max_segment` as keyword arguments and returns a `Judge`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points

from prover_cli.errors import UsageError
from prover_cli.judges.base import Judge
from prover_cli.judges.contrast import ContrastJudge
from prover_cli.judges.null import LastJudge, RandomJudge, UniformJudge

_GROUP = "prover.judges"

_BUILT_IN: Mapping[str, Callable[..., Judge]] = {
    "contrast": ContrastJudge,
    "random": RandomJudge,
    "uniform": UniformJudge,
    "last": LastJudge,
}


def names() -> list[str]:
    """Registered judge names, sorted."""
    return sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=_GROUP))})


def make(name: str, *, seed: int, max_segment: int) -> Judge:
    """A judge that proposes at most `max_segment` turns; `UsageError` for an unknown name."""
    factory = _BUILT_IN.get(name) or _external(name)
    return factory(seed=seed, max_segment=max_segment)


def _external(name: str) -> Callable[..., Judge]:
    found = [entry for entry in entry_points(group=_GROUP) if entry.name == name]
    if not found:
        raise UsageError(
            f"there is no judge called {name!r}; known: {', '.join(names())}",
            hint="prover judge RUN --judge contrast",
        )
    factory: Callable[..., Judge] = found[0].load()
    return factory
