"""Makes up a world whose facts fit together.

Places come first, then people, then what people found and make, so that everything can respect
what it depends on: nobody works before 22 or after death, a pupil is younger than the teacher, a
child than the father, a publisher exists when the novel appears, a film follows its novel, a
capital lies in its region or country.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise

from prover_cli.envs.searchqa.world.facts import Entity, Facts, plain
from prover_cli.envs.searchqa.world.names import Namer
from prover_cli.envs.searchqa.world.people import NOW, add_people, alive

# How a world of pages divides by kind; the rest are people.
_SHARES = {
    "city": 0.10,
    "region": 0.03,
    "country": 0.012,
    "river": 0.035,
    "novel": 0.12,
    "film": 0.10,
    "song": 0.07,
    "painting": 0.05,
    "company": 0.07,
    "university": 0.02,
    "band": 0.04,
    "club": 0.03,
}
_TRIES = 40


class History:
    """The making of one world of `pages` entities."""

    def __init__(self, seed: int, pages: int, reserved: Iterable[str]) -> None:
        self._random = random.Random(f"searchqa world {seed} {pages}")
        self._names = Namer(self._random, reserved)
        self._count = {kind: max(2, round(share * pages)) for kind, share in _SHARES.items()}
        self._people = pages - sum(self._count.values())
        self._facts = Facts()

    def tell(self) -> Facts:
        """Make everything up."""
        self._places()
        self._universities()
        add_people(self._facts, self._names, self._random, self._people)
        self._companies()
        self._bands_and_clubs()
        self._novels()
        self._films()
        self._songs_and_paintings()
        self._facts.keep_clear_aliases()
        return self._facts

    def _places(self) -> None:
        facts, names, pick = self._facts, self._names, self._random.choice
        for i in range(self._count["country"]):
            key = self._add("country", i, names.country(), "Republic of {}")
            facts.put(key, "currency", names.stem().lower())
            facts.put(key, "year", self._between(1801, 1960))
        countries = facts.of("country")
        for i in range(self._count["region"]):
            key = self._add("region", i, names.region(), "Region of {}")
            # Every country gets a region before any gets more.
            at = countries[i] if i < len(countries) else pick(countries)
            facts.put(key, "country", at)
            facts.put(key, "peak", f"Mount {names.stem(1)}")
        for i in range(self._count["river"]):
            stem = names.stem(1)
            key = self._add("river", i, f"River {stem}", f"{stem} River", stem, short=stem)
            facts.put(key, "length", self._between(40, 1900))
            facts.put(key, "source", f"Mount {names.stem(1)}")
            facts.put(key, "country", pick(countries))
        self._cities()

    def _cities(self) -> None:
        facts, pick = self._facts, self._random.choice
        regions = facts.of("region")
        for i in range(max(self._count["city"], len(regions))):
            region = regions[i] if i < len(regions) else pick(regions)
            name, wider = self._names.city(), facts.entities[region].name
            key = self._add("city", i, name, "City of {}", f"{name}, {wider}")
            facts.put(key, "region", region)
            facts.put(key, "year", self._between(700, 1690))
            facts.put(key, "population", self._between(2100, 990000))
            near = facts.subjects("country", facts.values[region]["country"])
            here = [river for river in near if facts.entities[river].kind == "river"]
            if here:
                facts.put(key, "river", pick(here))
        for region in regions:
            facts.put(region, "capital", pick(facts.subjects("region", region)))
        for country in facts.of("country"):
            inside = [r for r in regions if facts.values[r]["country"] == country]
            facts.put(country, "capital", pick(facts.subjects("region", pick(inside))))

    def _universities(self) -> None:
        for i in range(self._count["university"]):
            stem = self._names.stem()
            key = self._add("university", i, f"{stem} University", "University of " + stem, stem)
            self._facts.put(key, "city", self._city())
            self._facts.put(key, "year", self._between(1410, 1770))

    def _companies(self) -> None:
        facts = self._facts
        for i in range(self._count["company"]):
            stem = self._names.stem()
            trade = ("Press", "Records", self._names.trade())[min(i % 4, 2)]
            key = self._add("company", i, f"{stem} {trade}", stem, short=stem)
            founder = self._person("industrialist")
            facts.put(key, "trade", trade)
            facts.put(key, "founder", founder)
            facts.put(key, "year", self._working_year(founder))
            facts.put(key, "city", self._city())

    def _bands_and_clubs(self) -> None:
        facts = self._facts
        labels = [c for c in facts.of("company") if facts.values[c]["trade"] == "Records"]
        for i in range(self._count["band"]):
            name = self._names.band()
            key = self._add("band", i, name, name.removeprefix("The "))
            singer = self._person("musician")
            year = self._working_year(singer, until=35)
            facts.put(key, "singer", singer)
            facts.put(key, "year", year)
            facts.put(key, "city", self._city())
            able = [c for c in labels if facts.year(c, "year") <= int(year)]
            if able:
                facts.put(key, "label", self._random.choice(able))
        for i in range(self._count["club"]):
            stem = self._names.stem()
            key = self._add("club", i, f"{stem} {self._names.club()}", stem, short=stem)
            facts.put(key, "city", self._city())
            facts.put(key, "year", self._between(1860, 1960))
            facts.put(key, "ground", f"{self._names.stem()} Park")
            facts.put(key, "coach", self._person("coach"))
        scholars = [p for p in self._of_role("scholar") if alive(facts, p, NOW)]
        for key, rector in zip(facts.of("university"), scholars, strict=False):
            facts.put(key, "rector", rector)

    def _novels(self) -> None:
        facts = self._facts
        houses = [c for c in facts.of("company") if facts.values[c]["trade"] == "Press"]
        for i in range(self._count["novel"]):
            key = self._work("novel", i, "author", "writer")
            facts.put(key, "pages", self._between(90, 900))
            facts.put(key, "setting", self._city())
            year = facts.year(key, "year")
            able = [house for house in houses if facts.year(house, "year") <= year]
            if able:
                facts.put(key, "publisher", self._random.choice(able))
        for writer in self._of_role("writer"):
            own = sorted(facts.subjects("author", writer), key=lambda k: facts.year(k, "year"))
            for earlier, later in pairwise(own):
                apart = facts.year(earlier, "year") < facts.year(later, "year")
                if apart and self._random.random() < 0.6:
                    facts.put(later, "prequel", earlier)

    def _films(self) -> None:
        facts, chance = self._facts, self._random
        novels = facts.of("novel")
        for i in range(self._count["film"]):
            key = self._work("film", i, "director", "director")
            year = facts.year(key, "year")
            facts.put(key, "minutes", self._between(62, 190))
            self._hire(key, "composer", "musician", year)
            self._hire(key, "star", "actor", year)
            novel = chance.choice(novels)
            free = not facts.subjects("novel", novel)
            if free and facts.year(novel, "year") < year and chance.random() < 0.8:
                facts.put(key, "novel", novel)

    def _songs_and_paintings(self) -> None:
        facts = self._facts
        for i in range(self._count["song"]):
            key = self._add("song", i, self._names.title())
            band = self._random.choice(facts.of("band"))
            start = facts.year(band, "year")
            last = min(NOW, start + 20, _end(facts, facts.values[band]["singer"]))
            year = self._between(start, last)
            facts.put(key, "band", band)
            facts.put(key, "year", year)
            self._hire(key, "writer", "musician", int(year))
        for i in range(self._count["painting"]):
            key = self._work("painting", i, "painter", "painter")
            facts.put(key, "city", self._city())

    def _work(self, kind: str, number: int, relation: str, role: str) -> str:
        """A work that one person made in a working year."""
        key = self._add(kind, number, self._names.title())
        maker = self._person(role)
        self._facts.put(key, relation, maker)
        self._facts.put(key, "year", self._working_year(maker))
        return key

    def _add(self, kind: str, number: int, name: str, *aliases: str, short: str = "") -> str:
        others = [alias.format(name) for alias in aliases]
        if name.startswith("The "):
            others.append(name.removeprefix("The "))
        others += [plain(other) for other in (name, *others)]
        distinct = tuple(dict.fromkeys(other for other in others if other != name))
        key = f"{kind}-{number + 1:04d}"
        return self._facts.add(Entity(key, kind, name, short or name, distinct))

    def _between(self, low: int, high: int) -> str:
        return str(self._random.randint(low, high))

    def _city(self) -> str:
        return self._random.choice(self._facts.of("city"))

    def _of_role(self, role: str) -> list[str]:
        return self._facts.subjects("role", role)

    def _person(self, role: str) -> str:
        return self._random.choice(self._of_role(role))

    def _hire(self, work: str, relation: str, role: str, year: int) -> None:
        """Give a work somebody of a role who is grown up and alive in its year, if one is met."""
        for _ in range(_TRIES):
            person = self._person(role)
            if alive(self._facts, person, year):
                self._facts.put(work, relation, person)
                return

    def _working_year(self, person: str, until: int = 55) -> str:
        born = self._facts.year(person, "born")
        return self._between(born + 22, min(born + until, _end(self._facts, person)))


def _end(facts: Facts, person: str) -> int:
    """The last year in which a person can have done something."""
    return facts.year(person, "died") - 1 if facts.get(person, "died") else NOW
