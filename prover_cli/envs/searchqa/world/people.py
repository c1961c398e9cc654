"""The people of the generated world: births, families, teachers, studies."""

from __future__ import annotations

import random

from prover_cli.envs.searchqa.world.facts import Entity, Facts, plain
from prover_cli.envs.searchqa.world.names import Namer

NOW = 2019
# Role: (share, first and last year of birth).
ROLES = {
    "writer": (0.19, 1820, 1975),
    "director": (0.13, 1890, 1970),
    "painter": (0.10, 1790, 1960),
    "musician": (0.17, 1895, 1980),
    "industrialist": (0.12, 1790, 1960),
    "scholar": (0.11, 1900, 1975),
    "coach": (0.06, 1950, 1983),
    "actor": (0.12, 1895, 1980),
}
_TRIES = 12


def alive(facts: Facts, person: str, year: int) -> bool:
    """Whether a person is grown up and lives through a year."""
    if facts.year(person, "born") + 20 > year:
        return False
    return not facts.get(person, "died") or facts.year(person, "died") > year


def add_people(facts: Facts, names: Namer, chance: random.Random, count: int) -> None:
    """Add people in the order of their births, so that elders are there to be referred to."""
    roles = [role for role, (share, _, _) in ROLES.items() for _ in range(int(share * count) + 1)]
    drafts = [(chance.randint(*ROLES[role][1:]), role) for role in roles[:count]]
    while len(drafts) < count:
        role = chance.choice(list(ROLES))
        drafts.append((chance.randint(*ROLES[role][1:]), role))
    given = {
        woman: [names.first_name(woman) for _ in range(12 + int(count**0.5))]
        for woman in (True, False)
    }
    surnames = [names.stem() for _ in range(10 + count // 3)]
    cities, schools = facts.of("city"), facts.of("university")
    elders: list[str] = []
    for number, (birth, role) in enumerate(sorted(drafts)):
        woman = chance.random() < 0.5
        father = _elder(facts, elders, chance, birth, 22, 45, 0.2, woman=False)
        surname = facts.entities[father].short if father else chance.choice(surnames)
        name = _name(names, chance, given[woman], surname, woman)
        key = _add(facts, chance, number, name, birth, role, woman)
        facts.put(key, "birthplace", chance.choice(cities))
        if chance.random() < 0.7:
            facts.put(key, "university", chance.choice(schools))
        if father:
            facts.put(key, "father", father)
        teacher = _elder(facts, elders, chance, birth, 15, 38, 0.5)
        if teacher and teacher != father:
            facts.put(key, "teacher", teacher)
        _marry(facts, elders, chance, key, birth, woman)
        elders.append(key)


def _add(
    facts: Facts, chance: random.Random, number: int, name: str, birth: int, role: str, woman: bool
) -> str:
    first, surname = name.split(" ", 1)
    aliases = [f"{first[0]}. {surname}", surname]
    aliases += [plain(wording) for wording in (name, *aliases)]
    distinct = tuple(dict.fromkeys(a for a in aliases if a != name))
    entity = Entity(f"person-{number + 1:04d}", "person", name, surname, distinct)
    sex = "woman" if woman else "man"
    key = facts.add(entity, sex=sex, role=role, born=_day(chance, birth))
    death = birth + chance.randint(58, 92)
    if death < NOW:
        facts.put(key, "died", _day(chance, death))
    return key


def _day(chance: random.Random, year: int) -> str:
    return f"{year}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}"


def _name(names: Namer, chance: random.Random, given: list[str], surname: str, woman: bool) -> str:
    for _ in range(60):
        name = f"{chance.choice(given)} {surname}"
        if names.free(name):
            return name
    while not names.free(name := f"{names.first_name(woman)} {surname}"):
        pass
    return name


def _elder(
    facts: Facts,
    elders: list[str],
    chance: random.Random,
    birth: int,
    least: int,
    most: int,
    share: float,
    woman: bool | None = None,
) -> str | None:
    """Somebody born `least` to `most` years earlier, for a share of the people."""
    if not elders or chance.random() > share:
        return None
    for _ in range(_TRIES):
        other = chance.choice(elders)
        fits = least <= birth - facts.year(other, "born") <= most
        if fits and (woman is None or facts.values[other]["sex"] == ("woman" if woman else "man")):
            return other
    return None


def _marry(
    facts: Facts, elders: list[str], chance: random.Random, key: str, birth: int, woman: bool
) -> None:
    partner = _elder(facts, elders[-60:], chance, birth, 0, 12, 0.6, woman=not woman)
    if partner is None or facts.get(partner, "spouse"):
        return
    if facts.entities[partner].short != facts.entities[key].short:
        facts.put(key, "spouse", partner)
        facts.put(partner, "spouse", key)
