"""Deciding whether the goal of a game is reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prover_cli.envs.alfworld.facts import Facts
from prover_cli.envs.alfworld.pddl import Fact, Goal

_UNKNOWN = -1
"""Stands for a constant of which nothing is ever true."""
Term = str | int
"""A variable, or the number of a thing."""
Atom = tuple[str, tuple[Term, ...]]


class GoalTest:
    """A goal prepared for quick tests: the atoms that leave least to try come first."""

    def __init__(self, goal: Goal, number: Mapping[str, int], facts: Facts) -> None:
        self.atoms = _ordered([_numbered(atom, number) for atom in goal.atoms], facts)
        self._different = goal.different
        self._never = [_numbered(atom, number) for atom in goal.never]

    def reached(self, facts: Facts) -> bool:
        """Whether the facts satisfy the goal."""
        if any(_solvable([atom], 0, {}, facts, ()) for atom in self._never):
            return False
        return _solvable(self.atoms, 0, {}, facts, self._different)


def _numbered(atom: Fact, number: Mapping[str, int]) -> Atom:
    name, *arguments = atom
    terms = (a if a.startswith("?") else number.get(a, _UNKNOWN) for a in arguments)
    return name, tuple(terms)


def _ordered(atoms: Sequence[Atom], facts: Facts) -> list[Atom]:
    """The atoms in an order in which each leaves few rows to try, judged by the first facts."""
    rest, known, ordered = list(atoms), set[Term](), list[Atom]()
    while rest:
        best = min(rest, key=lambda atom: _fan_out(atom, known, facts))
        rest.remove(best)
        ordered.append(best)
        known |= set(best[1])
    return ordered


def _fan_out(atom: Atom, known: set[Term], facts: Facts) -> float:
    """How many rows agree with an atom, on average over the values of its known variables."""
    name, terms = atom
    is_open = [isinstance(term, str) and term not in known for term in terms]
    if not any(is_open):
        return -1
    rows = facts.all_of(name)
    fixed = [(i, term) for i, term in enumerate(terms) if isinstance(term, int)]
    rows = [row for row in rows if all(row[i] == term for i, term in fixed)]
    grouped = [i for i, term in enumerate(terms) if term in known and isinstance(term, str)]
    groups = {tuple(row[i] for i in grouped) for row in rows}
    return len(rows) / max(1, len(groups))


def _solvable(
    atoms: Sequence[Atom],
    place: int,
    bound: dict[Term, int],
    facts: Facts,
    different: Sequence[tuple[str, str]],
) -> bool:
    if place == len(atoms):
        return all(bound.get(left) != bound.get(right) for left, right in different)
    name, terms = atoms[place]
    values = [term if isinstance(term, int) else bound.get(term) for term in terms]
    for row in _rows(name, values, facts):
        if None in values:
            bound = bound | dict(zip(terms, row, strict=True))
        if _solvable(atoms, place + 1, bound, facts, different):
            return True
    return False


def _rows(name: str, values: list[int | None], facts: Facts) -> Sequence[tuple[int, ...]]:
    first, last = values[0], values[-1]
    if first is not None and last is not None:
        arguments = (first,) if len(values) == 1 else (first, last)
        return [arguments] if facts.holds(name, *arguments) else []
    if len(values) == 1 or (first is None and last is None):
        return facts.all_of(name)
    if first is not None:
        return [(first, y) for y in facts.seconds(name, first)]
    assert last is not None
    return [(x, last) for x in facts.firsts(name, last)]
