"""Writes the pages of the generated world.

Every entity has one main page that begins with its facts. Sections ("Legacy of ...") and lists
("Silver (titles)") name entities without saying what is asked about them.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prover_cli.envs.searchqa.types import Passage
from prover_cli.envs.searchqa.world.facts import Facts
from prover_cli.envs.searchqa.world.people import NOW
from prover_cli.envs.searchqa.world.wording import (
    FACTS,
    FILLERS,
    PLACES,
    ROLES,
    SECTION_TITLES,
    SLOTS,
)

WORDS = (40, 110)
MAIN_SHARE = 0.87
_LIST_SHARE = 0.05
_STYLE = frozenset({"name", "short", "He", "his", "His", "role"})
_ENOUGH = 48
_LISTED = 12
_WORKS = ("novel", "film", "song", "painting")


def _needs(template: str) -> tuple[str, ...]:
    """The relations that a sentence states."""
    fields = (field for _, field, _, _ in string.Formatter().parse(template) if field)
    return tuple(dict.fromkeys(field for field in fields if field not in _STYLE))


_GROUPS = {
    kind: [[(template, _needs(template)) for template in group] for group in groups]
    for kind, groups in FACTS.items()
}


class Writer:
    """Writes the pages of one world. `told` holds which relations each main page states."""

    def __init__(self, facts: Facts, chance: random.Random) -> None:
        self._facts, self._random = facts, chance
        self.told: dict[str, frozenset[str]] = {}

    def write(self, size: int) -> list[Passage]:
        """Exactly `size` pages in a seeded order; main pages have the keys of their entities."""
        pages = [self._main(key) for key in self._facts.entities]
        lists = list(self._lists())
        self._random.shuffle(lists)
        pages += lists[: min(round(_LIST_SHARE * size), size - len(pages))]
        pages += self._sections(size - len(pages))
        self._random.shuffle(pages)
        return pages

    def _main(self, key: str) -> Passage:
        entity = self._facts.entities[key]
        fields = self._fields(key)
        told: set[str] = set()
        sentences: list[str] = []
        for group in _GROUPS[entity.kind]:
            open_ = [
                (template, needs)
                for template, needs in group
                if all(need in fields and need not in told for need in needs)
            ]
            if open_:
                # The fullest sentences: only the living have no date of death to tell.
                most = max(len(needs) for _, needs in open_)
                template, needs = self._random.choice([o for o in open_ if len(o[1]) == most])
                told.update(needs)
                sentences.append(template.format_map(fields))
        self.told[key] = frozenset(told)
        return Passage(key, entity.name, " ".join(self._filled(key, fields, sentences)))

    def _fields(self, key: str) -> dict[str, str]:
        """What the sentences of a page may say."""
        facts, entity = self._facts, self._facts.entities[key]
        known = facts.values[key]
        fields = {relation: facts.shown(relation, value) for relation, value in known.items()}
        fields |= {"name": entity.name, "short": entity.short}
        if entity.kind == "person":
            woman = known["sex"] == "woman"
            fields |= {"He": "She", "his": "her", "His": "Her"} if woman else {}
            fields = {"He": "He", "his": "his", "His": "His"} | fields
            fields["role"] = ROLES[known["role"]]
            # A marriage stands on one of the two pages, so that it takes a search to follow it.
            if known.get("spouse", "") > key:
                del fields["spouse"]
        return fields

    def _filled(self, key: str, fields: Mapping[str, str], sentences: Iterable[str]) -> list[str]:
        """Sentences until the page is long enough."""
        text = list(sentences)
        kind = self._facts.entities[key].kind
        for filler in self._random.sample(FILLERS[kind], len(FILLERS[kind])):
            if sum(sentence.count(" ") + 1 for sentence in text) >= _ENOUGH:
                break
            slots = {slot: self._random.choice(words) for slot, words in SLOTS.items()}
            sentence = filler.format_map({**fields, **slots, "decade": self._decade(key)})
            text.append(sentence[0].upper() + sentence[1:])
        return text

    def _decade(self, key: str) -> str:
        """A decade within a life, or after a beginning."""
        known = self._facts.values[key]
        if "born" in known:
            return str(min(int(known["born"][:4]) + 35, NOW) // 10 * 10)
        first = max(int(known.get("year", "0")) + 10, self._random.randint(1900, 1999))
        return str(min(first, NOW) // 10 * 10)

    def _sections(self, count: int) -> Iterator[Passage]:
        """Pages about entities that state none of their facts."""
        keys = list(self._facts.entities)
        for turn in range(count):
            if turn % len(keys) == 0:
                self._random.shuffle(keys)
            key = keys[turn % len(keys)]
            entity, again = self._facts.entities[key], turn // len(keys)
            group = "place" if entity.kind in PLACES else "thing"
            titles = SECTION_TITLES["person" if entity.kind == "person" else group]
            name = titles[again % len(titles)].format(entity.name)
            text = self._filled(key, self._fields(key), ())
            yield Passage(f"{key}-section-{again + 1}", name, " ".join(text))

    def _lists(self) -> Iterator[Passage]:
        """Pages that name what has a surname, a title word or a decade in common."""
        shared: dict[str, list[str]] = {}
        for key, entity in self._facts.entities.items():
            if entity.kind == "person":
                shared.setdefault(f"{entity.short} (surname)", []).append(entity.name)
            elif entity.kind in _WORKS:
                word = entity.name.removeprefix("The ").split()[0]
                decade = self._facts.year(key, "year") // 10 * 10
                shared.setdefault(f"{word} (titles)", []).append(entity.name)
                shared.setdefault(f"List of {entity.kind}s of the {decade}s", []).append(
                    entity.name
                )
        for number, (title, names) in enumerate(shared.items()):
            if len(names) >= 3:
                yield Passage(f"list-{number + 1:04d}", title, self._listing(title, names))

    def _listing(self, title: str, names: Sequence[str]) -> str:
        chosen = list(names)
        self._random.shuffle(chosen)
        text = f"This page collects entries under the heading {title}."
        text += f" Among them are {', '.join(chosen[: _LISTED - 1])} and others."
        closing = (
            "The order of the entries is arbitrary, and the page does not claim to be complete.",
            "Readers find more about every entry on its own page.",
            "Entries that are only mentioned in passing elsewhere have been left out, and doubtful "
            "ones are discussed by the editors before they are added.",
        )
        for sentence in closing:
            text += f" {sentence}"
        return text
