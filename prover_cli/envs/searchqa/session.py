"""One question and answer episode: a few searches, then an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from prover_cli.envs.base import Observation, StepResult
from prover_cli.envs.searchqa.scoring import score
from prover_cli.envs.searchqa.texts import Shown, result_text, without_controls
from prover_cli.envs.searchqa.types import Question
from prover_cli.ids import canonical_json, digest

QUERY_CHARACTERS = 2000
"""Longer queries are cut before they reach a search engine; the step's info says so."""
INVALID = "No action was recognised."
REFUSED = "No search is left."
_ACTION = re.compile(r"(search|answer)\[(.*)\]", re.DOTALL)

Search = Callable[[str], Sequence[Shown]]
"""Passages for a query, as they are shown. Raises `RetrievalFailed`."""


def as_action(verb: str, content: str) -> str:
    """`search[...]` or `answer[...]`. Only the first and the last bracket delimit the content, so
    it may hold any text."""
    return f"{verb}[{content}]"


def parts_of(action: str) -> tuple[str, str] | None:
    """Verb and content of an action; None for what is not one."""
    match = _ACTION.fullmatch(action)
    return (match.group(1), match.group(2)) if match else None


@dataclass(frozen=True, slots=True)
class Turn:
    """What was done and found. `kind` is search, answer, invalid or refused (a search when none was
    left); `content` is the query or the answer."""

    kind: str
    content: str = ""
    passages: tuple[Shown, ...] = ()


@dataclass
class QuestionState:
    """The turns so far; an answer is the last one."""

    turns: list[Turn] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return bool(self.turns) and self.turns[-1].kind == "answer"

    @property
    def searches(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.kind == "search"]

    @classmethod
    def from_json(cls, turns: Sequence[Mapping[str, Any]]) -> QuestionState:
        return cls(
            [
                Turn(t["kind"], t["content"], tuple(Shown(**shown) for shown in t["passages"]))
                for t in turns
            ]
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """What an environment's sessions have in common."""

    search: Search
    n_searches: int
    """Turns in which a search is run; after them only an answer does anything."""
    reward: str
    facts: Mapping[str, str]
    """Retriever and corpus, repeated in every search's info."""
    blocking: bool = False


class SearchQASession:
    """An attempt at one question. Deterministic: there is nothing to reseed.

    Every turn counts, also one without an action. A search engine that fails raises
    `RetrievalFailed`, and the state stays as it was.
    """

    def __init__(self, rules: Rules, question: Question, state: QuestionState) -> None:
        self._rules, self._question, self._state = rules, question, state
        self.blocking = rules.blocking

    @property
    def state(self) -> QuestionState:
        """The dynamic state; read it, do not change it."""
        return self._state

    @property
    def searches_left(self) -> int:
        """Turns from now on in which a search is run."""
        return max(self._rules.n_searches - len(self._state.turns), 0)

    def observe(self) -> Observation:
        last = self._state.turns[-1] if self._state.turns else None
        kind = last.kind if last else "start"
        page = {
            "kind": kind,
            "question": self._question.text,
            "turn": len(self._state.turns),
            "searches_left": self.searches_left,
            "passages": tuple(
                {"title": shown.title, "text": shown.text}
                for shown in (last.passages if last else ())
            ),
        }
        return Observation(self._text(last), self._state_key(), None, page)

    def _text(self, last: Turn | None) -> str:
        match last.kind if last else "start":
            case "start":
                return f"Question: {self._question.text}"
            case "search":
                assert last is not None
                return result_text(last.passages)
            case "invalid":
                return INVALID
            case "refused":
                return REFUSED
        return ""

    def _state_key(self) -> str:
        """Equal keys mean equal futures: the question, the turns used, and whether it is over.

        The evidence, which is the set of passages shown so far, is part of the key as well. The
        environment's own future does not depend on it, but a judge that compares states asks what
        a policy could know in them, and without it all states of one turn would be one.
        """
        shown = {passage.passage_id for turn in self._state.turns for passage in turn.passages}
        question = [self._question.question_id, self._question.text, self._question.answers]
        return digest([question, len(self._state.turns), self._state.done, sorted(shown)])

    def step(self, action: str) -> StepResult:
        if self._state.done:
            return self._result(valid=False)
        verb, content = parts_of(action) or ("", "")
        if verb == "answer":
            return self._answer(without_controls(content))
        query = without_controls(content)
        if verb != "search" or not query:
            self._state.turns.append(Turn("invalid"))
            return self._result(valid=False)
        if not self.searches_left:
            self._state.turns.append(Turn("refused", query[:QUERY_CHARACTERS]))
            return self._result(valid=False, info={"refused": "no search is left"})
        return self._search(query)

    def _search(self, query: str) -> StepResult:
        asked = query[:QUERY_CHARACTERS]
        passages = tuple(self._rules.search(asked))
        self._state.turns.append(Turn("search", asked, passages))
        info = {
            "query": asked,
            "docs": [passage.passage_id for passage in passages],
            "titles": [passage.title for passage in passages],
            "scores": [passage.score for passage in passages],
            **self._rules.facts,
        }
        return self._result(valid=True, info=info | ({"cut": True} if asked != query else {}))

    def _answer(self, answer: str) -> StepResult:
        scores = score(answer, self._question.answers)
        self._state.turns.append(Turn("answer", answer))
        reward = scores[self._rules.reward]
        return StepResult(
            self.observe(), reward, True, reward == 1.0, True, {"answer": answer, **asdict(scores)}
        )

    def _result(self, *, valid: bool, info: Mapping[str, Any] | None = None) -> StepResult:
        return StepResult(self.observe(), 0.0, self._state.done, False, valid, info or {})

    def snapshot(self) -> bytes:
        """The turns with what they found, the question and the corpus that they belong to."""
        content = {
            "question": self._question.question_id,
            "corpus": self._rules.facts["corpus"],
            "turns": [asdict(turn) for turn in self._state.turns],
        }
        return canonical_json(content).encode()

    def reseed(self, seed: int) -> None:
        pass

    @staticmethod
    def parse_snapshot(snapshot: bytes) -> tuple[str, str, QuestionState]:
        """Question id, corpus hash and dynamic state of a snapshot."""
        content = json.loads(snapshot)
        state = QuestionState.from_json(content["turns"])
        return content["question"], content["corpus"], state
