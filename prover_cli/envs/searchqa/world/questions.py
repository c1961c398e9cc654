"""Asks questions about the generated world that have one right answer.

A question follows one to three facts from a thing it names; the last page alone holds the answer.
Every entity belongs to one split, and so does a question: what it starts from and the thing that
the last fact is about are of its split. So no split shares a (bridge, answer) pair with another.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from prover_cli.envs.searchqa.scoring import normalise
from prover_cli.envs.searchqa.types import Passage, Question
from prover_cli.envs.searchqa.world.facts import Facts, says
from prover_cli.envs.searchqa.world.relations import COMPARED, RELATIONS, Relation

SPLITS = {"train": 0.7, "valid": 0.15, "test": 0.15}
HOPS = (1, 2, 3)
_COMPARISONS = 0.2
_ARTICLE = frozenset({"novel", "film", "song", "painting", "company", "band", "club"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What a question means: from the start (the older of two starts) along the relations."""

    starts: tuple[str, ...]
    steps: tuple[Relation, ...]
    compared: str | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """What following a plan meets: the things, the page of every fact, the answer."""

    things: tuple[str, ...]
    pages: tuple[str, ...]
    value: str


def paths(hops: int) -> list[tuple[Relation, ...]]:
    """All ways to follow `hops` different relations; what is on the way can be put in words."""
    found: list[tuple[Relation, ...]] = [(relation,) for relation in RELATIONS]
    for _ in range(hops - 1):
        found = [
            (*path, after)
            for path in found
            if path[-1].phrases
            for after in RELATIONS
            if after.subject == path[-1].target and all(after.name != r.name for r in path)
        ]
    return found


class Asker:
    """Makes the questions of one world."""

    def __init__(
        self,
        facts: Facts,
        told: Mapping[str, frozenset[str]],
        passages: Sequence[Passage],
        chance: random.Random,
    ) -> None:
        self._facts, self._told, self._random = facts, told, chance
        self._pages = {p.passage_id: normalise(f"{p.title} {p.text}") for p in passages}
        self._split = {
            key: chance.choices(list(SPLITS), list(SPLITS.values()))[0] for key in facts.entities
        }
        self._pools: dict[tuple[str, str], list[str]] = {}
        self._texts: set[str] = set()
        self.plans: dict[str, Plan] = {}

    def ask(self, split: str, count: int, name: str) -> list[Question]:
        """At most `count` questions of a split, as many of 1, 2 and 3 hops; their plans stay.

        They do not depend on what was asked of other splits.
        """
        self._random = random.Random(f"searchqa questions {name} {split} {len(self._pages)}")
        made: list[tuple[Question, Plan]] = []
        for hops in HOPS:
            wanted = (count + 3 - hops) // 3
            older = [self._older(split, p) for p in paths(2) if p[0].subject in COMPARED]
            compared = round(_COMPARISONS * wanted) if hops == 3 else 0
            taken = self._take(self._in_turn(older), compared)
            streams = [self._along(split, path) for path in paths(hops)]
            made += taken + self._take(self._in_turn(streams), wanted - len(taken))
        self._random.shuffle(made)
        questions = []
        for number, (question, plan) in enumerate(made):
            key = f"{name}-{split}-{number + 1:05d}"
            self.plans[key] = plan
            questions.append(replace(question, question_id=key))
        return questions

    def _take(self, plans: Iterator[Plan], count: int) -> list[tuple[Question, Plan]]:
        taken: list[tuple[Question, Plan]] = []
        while len(taken) < count and (plan := next(plans, None)):
            question = self._question(plan)
            if question and question.text not in self._texts:
                self._texts.add(question.text)
                taken.append((question, plan))
        return taken

    def _in_turn(self, streams: list[Iterator[Plan]]) -> Iterator[Plan]:
        """One plan of every stream after the other, so that no kind of question prevails."""
        while streams:
            self._random.shuffle(streams)
            for stream in list(streams):
                plan = next(stream, None)
                if plan is None:
                    streams.remove(stream)
                else:
                    yield plan

    def _own(self, split: str, kind: str) -> list[str]:
        """The things of a kind that belong to a split, from a random place in a fixed order."""
        if (split, kind) not in self._pools:
            keys = [key for key in self._facts.of(kind) if self._split[key] == split]
            self._random.shuffle(keys)
            self._pools[split, kind] = keys
        keys = self._pools[split, kind]
        start = self._random.randrange(len(keys)) if keys else 0
        return keys[start:] + keys[:start]

    def _along(self, split: str, path: tuple[Relation, ...]) -> Iterator[Plan]:
        for key in self._own(split, path[0].subject):
            if self._leads(split, Plan((key,), path)):
                yield Plan((key,), path)

    def _older(self, split: str, path: tuple[Relation, ...]) -> Iterator[Plan]:
        """Questions about the older of two things, where taking the younger one is wrong."""
        compared = COMPARED[path[0].subject][0]
        pool = self._own(split, path[0].subject)
        for place, key in enumerate(pool):
            found = self._leads(split, Plan((key,), path))
            for other in pool[place + 1 :] if found else ():
                rival = self.follow(Plan((other,), path))
                years = [self._facts.year(k, compared) for k in (key, other)]
                if found and rival and rival.value != found.value and years[0] < years[1]:
                    pair = (key, other) if self._random.random() < 0.5 else (other, key)
                    yield Plan(pair, path, compared)
                    break

    def _leads(self, split: str, plan: Plan) -> _Found | None:
        """Where a plan leads, if the thing that its last fact is about belongs to the split."""
        found = self.follow(plan)
        return found if found and self._split[found.things[-1]] == split else None

    def follow(self, plan: Plan) -> _Found | None:
        """Where a plan leads on what pages say; None when it does not lead to one answer."""
        start = plan.starts[0]
        if plan.compared:
            start = min(plan.starts, key=lambda k: self._facts.year(k, plan.compared or ""))
        things, pages = [start], []
        for step in plan.steps:
            value, page = self._step(things[-1], step)
            if value is None or value in things or step.name not in self._told[page]:
                return None
            things.append(value)
            pages.append(page)
        return _Found(tuple(things[:-1]), tuple(pages), things[-1])

    def _step(self, thing: str, step: Relation) -> tuple[str | None, str]:
        if not step.inverse:
            return self._facts.get(thing, step.name), thing
        subjects = self._facts.subjects(step.name, thing)
        return (subjects[0], subjects[0]) if len(subjects) == 1 else (None, thing)

    def _question(self, plan: Plan) -> Question | None:
        """A plan in words; None when it gives its answer away before the last page."""
        found = self.follow(plan)
        assert found is not None, "a plan leads to an answer"
        facts, steps = self._facts, plan.steps
        names = {key: facts.entities[key].name for key in (*plan.starts, *found.things)}
        text, chain = self._subject(plan, names)
        for thing, step in zip(found.things[:-1], steps[:-1], strict=True):
            wording, keywords = self._random.choice(step.phrases)
            text = wording.format(x=text)
            if not (plan.compared and thing in plan.starts):
                chain.append(f"{names[thing]} {keywords}")
        wording, keywords = self._random.choice(steps[-1].asks)
        text = wording.format(x=text)
        chain.append(f"{names[found.things[-1]]} {keywords}")
        answers = facts.wordings(steps[-1].name, found.value)
        before = [*plan.starts, *found.pages[:-1]] if len(found.pages) > 1 else []
        if says(normalise(text), answers) or any(says(self._pages[p], answers) for p in before):
            return None
        hops = len(chain)
        pages = (*plan.starts, *found.pages[1:]) if plan.compared else found.pages
        gold = tuple(facts.entities[page].name for page in pages)
        return Question("", text, answers, f"world-{hops}hop", hops, gold, tuple(chain))

    def _subject(self, plan: Plan, names: Mapping[str, str]) -> tuple[str, list[str]]:
        """What a question starts from, and the searches that a comparison begins with."""
        kind = self._facts.entities[plan.starts[0]].kind
        if plan.compared:
            _, wording, keywords = COMPARED[kind]
            first, second = (names[key] for key in plan.starts)
            searches = [f"{first} {keywords}", f"{second} {keywords}"]
            return wording.format(a=first, b=second), searches
        name = names[plan.starts[0]]
        if kind == "river":
            return f"the {name}", []
        named = kind in _ARTICLE and self._random.random() < 0.5
        return (f"the {kind} {name}" if named else name), []
