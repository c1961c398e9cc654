"""A searcher that errs.

It searches the whole question, or answers with the first name it meets, or with the title of
another passage. Everything is in lower case, as the compact style shows it, so that whatever can be
copied is spelled alike.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from prover_cli.envs.base import Observation, Task
from prover_cli.envs.searchqa.compact import compact_reply, snippet
from prover_cli.envs.searchqa.environment import SearchQAEnvironment
from prover_cli.envs.searchqa.session import SearchQASession, as_action
from prover_cli.policies.demos import UNTAUGHT, Choice, Player

_WORD = re.compile(r"[^\W\d_]{5,}")


@dataclass(frozen=True)
class SearchQADemos:
    """Kinds of decisions: the `first` search, a later `search`, the same `again`, the `answer`."""

    whole_question: float = 0.15
    """Per episode: searches the question as it stands before anything else."""
    early_answer: float = 0.2
    """Per episode of several searches: answers after the first with the name that it led to."""
    wrong_title: float = 0.1
    """Per episode: answers with the title of another passage than the first."""

    def world(self, seed: int) -> SearchQAEnvironment:
        return SearchQAEnvironment(seed=seed)

    def player(
        self, environment: SearchQAEnvironment, task: Task, generator: random.Random
    ) -> Player:
        return _Searcher(task, self, generator)

    def reply(self, action: str, observation: Observation) -> str:
        return compact_reply(action).lower()


@dataclass(frozen=True)
class _Hop:
    """A search, and the names it may be after: the next query less its last words."""

    query: str
    targets: tuple[str, ...]

    def target_in(self, text: str) -> str | None:
        """The name that a text holds, in lower case."""
        return next((name for name in self.targets if name in text.lower()), None)


class _Searcher:
    """The expert with this episode's errors.

    Where the sentence shown does not hold the name it is after, it searches once more, with a word
    that stands beside the name. What it knows without having seen it is not taught.
    """

    def __init__(self, task: Task, noise: SearchQADemos, generator: random.Random) -> None:
        self._generator = generator
        chain, answer = task.payload["chain"], task.payload["answers"][0]
        targets = [*map(_names, chain[1:]), (answer.lower(),)]
        self._hops = [_Hop(query, names) for query, names in zip(chain, targets, strict=True)]
        asks_all = generator.random() < noise.whole_question
        if generator.random() < noise.early_answer:
            self._hops = self._hops[:1]
        self._mistakes = generator.random() < noise.wrong_title
        if asks_all:
            self._hops.insert(0, _Hop(task.instruction, self._hops[0].targets))
        self._asked: _Hop | None = None
        self._again = False

    def choose(self, session: SearchQASession) -> Choice:
        turns = session.state.turns
        if self._asked is None:
            return self._search(self._hops.pop(0), "first")
        asked, found = self._asked, turns[-1].passages
        if not found or not session.searches_left:
            return Choice(as_action("answer", asked.targets[0]), UNTAUGHT)
        first = found[0]
        seen = asked.target_in(snippet(first.title, first.text, asked.query))
        if seen is None and not self._again and (word := _beside(asked, first.title, first.text)):
            self._again = True
            return self._search(_Hop(f"{first.title} {word}", asked.targets), "again")
        self._again = False
        if self._hops:
            return self._search(self._hops.pop(0), "search" if seen else UNTAUGHT)
        titles = [passage.title for passage in found[1:]]
        if self._mistakes and titles:
            return Choice(as_action("answer", self._generator.choice(titles)), "answer")
        answer = seen or asked.target_in(first.text) or asked.targets[0]
        return Choice(as_action("answer", answer), "answer" if seen else UNTAUGHT)

    def _search(self, hop: _Hop, kind: str) -> Choice:
        self._asked = hop
        return Choice(as_action("search", hop.query), kind)


def _names(query: str) -> tuple[str, ...]:
    """What a query may name, longest first: all but its last one to three words."""
    words = query.lower().split()
    return tuple(" ".join(words[:n]) for n in range(len(words) - 1, max(len(words) - 4, 0), -1))


def _beside(hop: _Hop, title: str, text: str) -> str | None:
    """The nearest long word before the name in a text, else after it; None without the name."""
    name = hop.target_in(text)
    if name is None:
        return None
    known = set(_WORD.findall(f"{title} {name} {hop.query}".lower()))
    before, _, after = text.lower().partition(name)
    near = [*reversed(_WORD.findall(before)), *_WORD.findall(after)]
    return next((word for word in near if word not in known), None)
