"""What is true in the generated world: entities and what holds between them.

A fact is (subject, relation, value). Every relation is a function: a subject has one value or none,
so a question that follows relations from one named thing has one right answer. A value is the key
of an entity or a literal: a date (`1871-03-14`), a year, a number, a name.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from prover_cli.envs.searchqa.scoring import normalise

MONTHS = (
    "January February March April May June July August September October November December"
).split()
DATES = frozenset({"born", "died"})
UNITS: dict[str, tuple[str, ...]] = {
    "length": ("kilometres", "kilometers", "km"),
    "pages": ("pages",),
    "minutes": ("minutes", "min"),
    "population": ("people", "inhabitants"),
}


def says(normal_text: str, wordings: Iterable[str]) -> bool:
    """Whether a text (already normalised) holds one of the wordings as whole words."""
    padded = f" {normal_text} "
    return any(f" {normalise(wording)} " in padded for wording in wordings)


def plain(text: str) -> str:
    """A text without its accents."""
    parts = unicodedata.normalize("NFD", text)
    return "".join(c for c in parts if not unicodedata.combining(c))


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing with a page of its own; `short` is what its page calls it after the first time."""

    key: str
    kind: str
    name: str
    short: str
    aliases: tuple[str, ...] = ()


@dataclass
class Facts:
    """The fact store; entities and relations keep the order in which they were added."""

    entities: dict[str, Entity] = field(default_factory=dict)
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    _subjects: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _kinds: dict[str, list[str]] = field(default_factory=dict)

    def add(self, entity: Entity, **values: str | int) -> str:
        """Take in an entity and its first facts; its key."""
        self.entities[entity.key] = entity
        self.values[entity.key] = {}
        self._kinds.setdefault(entity.kind, []).append(entity.key)
        for relation, value in values.items():
            self.put(entity.key, relation, str(value))
        return entity.key

    def put(self, subject: str, relation: str, value: str) -> None:
        """Add one fact; a subject's relation is given once."""
        assert relation not in self.values[subject], f"{relation} of {subject} is given twice"
        self.values[subject][relation] = value
        self._subjects.setdefault((relation, value), []).append(subject)

    def get(self, subject: str, relation: str) -> str | None:
        return self.values[subject].get(relation)

    def year(self, subject: str, relation: str) -> int:
        """The year of a date or year that the subject is known to have."""
        return int(self.values[subject][relation][:4])

    def subjects(self, relation: str, value: str) -> list[str]:
        """All that have this value."""
        return self._subjects.get((relation, value), [])

    def of(self, kind: str) -> list[str]:
        """The keys of one kind of entity."""
        return self._kinds.get(kind, [])

    def shown(self, relation: str, value: str) -> str:
        """A value as passages write it."""
        return self.wordings(relation, value)[0]

    def wordings(self, relation: str, value: str) -> tuple[str, ...]:
        """All accepted ways to write a value, the usual one first."""
        if value in self.entities:
            entity = self.entities[value]
            return (entity.name, *entity.aliases)
        if relation in DATES:
            return _date(value)
        if relation in UNITS:
            return _number(int(value), UNITS[relation])
        bare = plain(value)
        return (value,) if bare == value else (value, bare)

    def keep_clear_aliases(self) -> None:
        """Drop aliases that could mean another entity."""
        owners: dict[str, set[str]] = {}
        for entity in self.entities.values():
            for wording in (entity.name, *entity.aliases):
                owners.setdefault(normalise(wording), set()).add(entity.key)
        for key, entity in self.entities.items():
            clear = tuple(a for a in entity.aliases if len(owners[normalise(a)]) == 1)
            self.entities[key] = Entity(key, entity.kind, entity.name, entity.short, clear)


def _date(iso: str) -> tuple[str, ...]:
    year, month, day = iso.split("-")
    name = MONTHS[int(month) - 1]
    return (f"{int(day)} {name} {year}", f"{name} {int(day)}, {year}", iso)


def _number(value: int, units: tuple[str, ...]) -> tuple[str, ...]:
    grouped = f"{value:,}"
    bare = (grouped, str(value)) if value > 999 else (grouped,)
    return (*bare, *(f"{grouped} {unit}" for unit in units))
