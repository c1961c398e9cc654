"""Reading the two PDDL texts of a game: what there is, what is true at first, what to reach."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from prover_cli.errors import UsageError

_COMMENT = re.compile(r";[^\n]*")
_TOKEN = re.compile(r"[()]|[^\s()]+")

ACTIONS = frozenset(
    "look inventory examinereceptacle examineobject gotolocation openobject closeobject"
    " pickupobject putobject cleanobject heatobject coolobject toggleobject sliceobject".split()
)
"""What every known ALFWorld domain lets the agent do; some add `help`."""

Fact = tuple[str, ...]
"""A predicate and its arguments."""


@dataclass(frozen=True)
class Domain:
    """The parts of a domain in which the known ones differ."""

    has_help: bool
    types: dict[str, frozenset[str]]
    """Action -> the thing types it names: where to clean, heat and cool, and what can cut."""


@dataclass(frozen=True)
class Goal:
    """A conjunction over variables (`?x`) and ids; also what must differ and what must not be."""

    atoms: tuple[Fact, ...]
    different: tuple[tuple[str, str], ...] = ()
    never: tuple[Fact, ...] = ()
    """Facts that must hold for no value of their variables."""


@dataclass(frozen=True)
class Problem:
    """The facts that hold at first, and the goal."""

    init: tuple[Fact, ...]
    goal: Goal


@lru_cache(maxsize=32)
def read_domain(text: str) -> Domain:
    """Check that a domain is one of ALFWorld's; `UsageError` for another set of actions."""
    actions = {form[1]: form for form in _read(text) if form[:1] == [":action"]}
    names = set(actions) - {"help"}
    if names != ACTIONS:
        parts = [f"unknown: {', '.join(sorted(names - ACTIONS))}"] if names - ACTIONS else []
        parts += [f"missing: {', '.join(sorted(ACTIONS - names))}"] if ACTIONS - names else []
        raise UsageError(f"the game's domain is not ALFWorld's: actions {'; '.join(parts)}")
    types = {name: frozenset(_types_in(form)) for name, form in actions.items()}
    return Domain("help" in actions, types)


def read_problem(text: str) -> Problem:
    """The initial facts and the goal of a problem, in lower case."""
    sections = {form[0]: form for form in _read(text) if form and isinstance(form[0], str)}
    if ":init" not in sections or ":goal" not in sections:
        raise UsageError("the game's problem has no :init or no :goal")
    facts = tuple(tuple(fact) for fact in sections[":init"][1:] if fact and fact[0] != "=")
    for fact in facts:
        if len(fact) not in (2, 3) or not all(isinstance(part, str) for part in fact):
            raise UsageError(f"the game's problem has a fact of an unknown form: {fact}")
    return Problem(facts, _goal(sections[":goal"][1]))


def _read(text: str) -> list[Any]:
    """The forms inside the outer `(define ...)` as nested lists of lower-case words.

    Surplus closing brackets at the end, which the official goals have, are ignored.
    """
    root: list[Any] = []
    open_forms = [root]
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if token == "(":
            form: list[Any] = []
            open_forms[-1].append(form)
            open_forms.append(form)
        elif token == ")":
            if len(open_forms) == 1:
                break
            open_forms.pop()
        else:
            open_forms[-1].append(token)
    if not root or not isinstance(root[0], list) or root[0][:1] != ["define"]:
        raise UsageError("the game's PDDL does not begin with (define ...)")
    return [form for form in root[0][1:] if isinstance(form, list)]


def _types_in(form: Sequence[Any]) -> Iterator[str]:
    """Constants in `receptacletype` and `objecttype` atoms."""
    if form[:1] in (["receptacletype"], ["objecttype"]) and not form[2].startswith("?"):
        yield form[2]
    for part in form:
        if isinstance(part, list):
            yield from _types_in(part)


def _goal(form: list[Any]) -> Goal:
    atoms: list[Fact] = []
    different: list[tuple[str, str]] = []
    never: list[Fact] = []

    def visit(part: list[Any]) -> None:
        match part:
            case ["and", *rest]:
                for inner in rest:
                    visit(inner)
            case ["exists", _, inner]:
                visit(inner)
            case ["not", ["=", left, right]]:
                different.append((left, right))
            case ["forall", _, ["not", [str(), *_] as fact]]:
                never.append(tuple(fact))
            case [str() as name, *arguments] if name not in (
                "or",
                "not",
                "forall",
                "imply",
                "=",
            ) and len(arguments) in (1, 2):
                atoms.append((name, *arguments))
            case []:
                pass
            case _:
                raise UsageError(f"the game's goal has a part of an unknown form: {part}")

    visit(form)
    return Goal(tuple(atoms), tuple(different), tuple(never))
