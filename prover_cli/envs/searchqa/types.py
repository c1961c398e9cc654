"""What questions, passages and search engines are, for every part of SearchQA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from prover_cli.errors import EnvironmentFault


class RetrievalFailed(EnvironmentFault):
    """A search engine gave no answer. The episode is void: no observation and no reward."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the answers that count as right.

    `source` names the data set (nq, triviaqa, popqa, hotpotqa, 2wikimultihopqa, musique, bamboogle,
    or world for generated ones). `hops` is the number of facts that the answer needs, where known.
    `gold` are the titles (or passage ids) of the supporting passages in the order of the reasoning,
    `chain` the queries that find them, known for generated questions only.
    """

    question_id: str
    text: str
    answers: tuple[str, ...]
    source: str
    hops: int | None = None
    gold: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """One searchable text; `title` may be empty."""

    passage_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a query found, and how well it fits (higher is better)."""

    passage: Passage
    score: float


class Retriever(Protocol):
    """A search engine over one corpus: a pure function of the query and `k`."""

    @property
    def name(self) -> str:
        """The engine and its parameters, as recorded with results."""
        ...

    @property
    def corpus_hash(self) -> str: ...

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` hits, the best first. May block; thread safe.

        Raises `RetrievalFailed` when the engine cannot be reached or answers nonsense.
        """
        ...

    def close(self) -> None: ...
