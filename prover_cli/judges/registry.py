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
from prover_cli.judges.ensemble import PREFIX, EnsembleJudge
from prover_cli.judges.null import LastJudge, RandomJudge, UniformJudge

AGENTIC = "agentic"
_GROUP = "prover.judges"

_BUILT_IN: Mapping[str, Callable[..., Judge]] = {
    "contrast": ContrastJudge,
    "random": RandomJudge,
    "uniform": UniformJudge,
    "last": LastJudge,
}


def names() -> list[str]:
    """Names of the judges that ask no model, sorted."""
    return sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=_GROUP))})


def members(name: str) -> list[str]:
    """The judges that a name stands for: those of an ensemble, else itself.

    Raises `UsageError` for an ensemble of fewer than two, or with one of them twice.
    """
    if not name.startswith(PREFIX):
        return [name]
    found = [part.strip() for part in name.removeprefix(PREFIX).split(",")]
    if len(set(found)) != len(found) or len(found) < 2:
        raise UsageError(
            f"{name!r} is no ensemble: it needs two or more different judges",
            hint="prover judge RUN --judge ensemble:contrast,agentic",
        )
    return found


def make(
    name: str, *, seed: int, max_segment: int, agentic: Callable[[], Judge] | None = None
) -> Judge:
    """A judge that proposes at most `max_segment` turns; `UsageError` for an unknown name.

    `agentic` makes the judge that asks a model.
    """
    if name.startswith(PREFIX):
        parts = members(name)
        judges = [make(part, seed=seed, max_segment=max_segment, agentic=agentic) for part in parts]
        return EnsembleJudge(tuple(judges), max_segment, PREFIX + ",".join(parts))
    if name == AGENTIC and agentic is not None:
        return agentic()
    factory = _BUILT_IN.get(name) or _external(name)
    return factory(seed=seed, max_segment=max_segment)


def _external(name: str) -> Callable[..., Judge]:
    found = [entry for entry in entry_points(group=_GROUP) if entry.name == name]
    if not found:
        known = ", ".join([AGENTIC, *names(), f"{PREFIX}A,B,..."])
        raise UsageError(
            f"there is no judge called {name!r}; known: {known}",
            hint="prover judge RUN --judge contrast",
        )
    factory: Callable[..., Judge] = found[0].load()
    return factory
