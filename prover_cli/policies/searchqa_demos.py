"""A searcher that errs.

It searches the whole question, or answers with the first name it meets, or with the title of
another passage. Everything is in lower case, as the compact style shows it, so that whatever can be
copied is spelled alike.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from prover_cli.envs.base import Observation, Task
from prover_cli.envs.searchqa.compact import compact_reply
from prover_cli.envs.searchqa.environment import SearchQAEnvironment
from prover_cli.envs.searchqa.session import SearchQASession, as_action
from prover_cli.policies.demos import Choice, Player


@dataclass(frozen=True)
class SearchQADemos:
    """Kinds of decisions: the `first` search, a later `search`, the `answer`."""

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


class _Searcher:
    """The expert with this episode's errors."""

    def __init__(self, task: Task, noise: SearchQADemos, generator: random.Random) -> None:
        self._generator = generator
        self._queries, self._answer = list(task.payload["chain"]), task.payload["answers"][0]
        asks_all = generator.random() < noise.whole_question
        hurries = generator.random() < noise.early_answer
        self._mistakes = generator.random() < noise.wrong_title
        if hurries and len(self._queries) > 1:
            self._queries, self._answer = self._queries[:1], task.payload["gold"][1]
        if asks_all:
            self._queries.insert(0, task.instruction)

    def choose(self, session: SearchQASession) -> Choice:
        turns = session.state.turns
        if len(turns) < len(self._queries) and session.searches_left:
            query = self._queries[len(turns)]
            return Choice(as_action("search", query), "search" if turns else "first")
        titles = [passage.title for passage in turns[-1].passages[1:]]
        mistaken = self._mistakes and titles
        answer = self._generator.choice(titles) if mistaken else self._answer
        return Choice(as_action("answer", answer), "answer")
