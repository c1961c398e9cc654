"""SearchQA as an environment: which questions, which corpus, which search engine."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from prover_cli.envs.base import Message, PromptStyle, Task
from prover_cli.envs.panel import SPLITS, LazyTasks, Panel, make_task
from prover_cli.envs.searchqa import expert, grading
from prover_cli.envs.searchqa.memory import Memory
from prover_cli.envs.searchqa.panels import choose, parse_mix
from prover_cli.envs.searchqa.prepare import generate_files, prepare
from prover_cli.envs.searchqa.prompts import CompactStyle, ReactStyle, SearchR1Style, TagsStyle
from prover_cli.envs.searchqa.questions import SPLIT_NAMES, Questions, read_questions
from prover_cli.envs.searchqa.scoring import METRICS
from prover_cli.envs.searchqa.session import QuestionState, Rules, SearchQASession
from prover_cli.envs.searchqa.texts import Shown, shown
from prover_cli.envs.searchqa.types import Question, Retriever
from prover_cli.errors import TaskMismatchError, UsageError
from prover_cli.ids import digest

if TYPE_CHECKING:
    from prover_cli.envs.searchqa.world.build import World

ENGINE_VERSION = 1
"""Raised when the same actions on the same results give other texts, keys or outcomes."""
LOCAL_AND_FAST = "bm25"


class SearchQAEnvironment:
    """Questions that are answered with the help of a search engine.

    `data` names files of questions (see `questions.read_questions`) and `corpus` the passages to
    search; without both, a world of `size` passages and its questions are generated from `seed`.
    `retriever` is bm25 (default), dense, http (default with `retriever_url`, the server that has
    the corpus) or an engine of one's own. `panel` keeps a mix of data sets: paper, or
    source:n,source:n, drawn with `seed`. `topk` passages are shown after each of at most `searches`
    searches, `passage_words` words of each. `reward` is em, f1 or sub_em; an episode is a success
    when that score is 1. Further options are the retriever's.
    """

    name = "searchqa"
    default_prompt = "compact"
    prepare = staticmethod(prepare)
    generate = staticmethod(generate_files)
    prompts: Mapping[str, PromptStyle] = MappingProxyType(
        {
            "search-r1": SearchR1Style(),
            "tags": TagsStyle(),
            "compact": CompactStyle(),
            "react": ReactStyle(),
        }
    )

    def __init__(
        self,
        *,
        data: str | None = None,
        corpus: str | None = None,
        retriever: str | Retriever | None = None,
        retriever_url: str | None = None,
        topk: int = 3,
        searches: int = 4,
        panel: str | None = None,
        seed: int = 0,
        size: int | None = None,
        reward: str = "em",
        passage_words: int = 150,
        **engine: Any,
    ) -> None:
        _check_numbers(topk=topk, searches=searches, passage_words=passage_words, size=size or 1)
        if reward not in METRICS:
            raise UsageError(f"searchqa's reward is {' or '.join(METRICS)}, not {reward!r}")
        self._mix = None if panel is None else parse_mix(panel)
        self._seed, self._topk, self._words = seed, topk, passage_words
        world = _world(data, corpus, retriever, retriever_url, seed, size)
        self._questions = _questions(data, world)
        self._retriever = _open(world, corpus, retriever, retriever_url, engine)
        self.blocking = _kind(retriever, retriever_url) != LOCAL_AND_FAST
        """Whether a step may wait for long, so that it should be taken in a thread."""
        facts = {"retriever": self._retriever.name, "corpus": self._retriever.corpus_hash}
        self._memory = Memory(facts)
        self._rules = Rules(self._search, searches, reward, facts, self.blocking)
        self.max_turns = searches + 1
        self.assets: Mapping[str, str] = {
            "engine": str(ENGINE_VERSION),
            "questions": _hash(self._questions),
            **facts,
            "passages shown": f"{topk} of {passage_words} words",
            "searches": str(searches),
            "reward": reward,
        }
        self.fingerprint = digest([self.name, dict(self.assets)])

    def tasks(self, split: str) -> Panel:
        """The questions of a split, or the panel drawn from them."""
        if split not in SPLITS:
            raise UsageError(f"no split {split!r}; splits: {', '.join(SPLITS)}")
        questions = self._questions.of(split)
        if self._mix is not None:
            questions = choose(questions, self._mix, self._seed)
        if not questions:
            raise self._none_in(split)
        tasks = LazyTasks(range(len(questions)), lambda i: self._task(questions[i], i, split))
        return Panel(tasks, self._note(split, questions), self._questions.skipped)

    def _task(self, question: Question, index: int, split: str) -> Task:
        payload = asdict(question) | {
            name: list(getattr(question, name)) for name in ("answers", "gold", "chain")
        }
        return make_task(self.name, split, index, question.text, payload, self.fingerprint)

    def _none_in(self, split: str) -> UsageError:
        there = [name for name in SPLIT_NAMES if self._questions.of(name)]
        return UsageError(
            f"there is no question in split {split}; there are some in {', '.join(there)}",
            hint="the split is named by the file: train, dev or test in its name; or --split all",
        )

    def _note(self, split: str, questions: Sequence[Question]) -> str:
        counts: dict[str, int] = {}
        for question in questions:
            counts[question.source] = counts.get(question.source, 0) + 1
        listed = ", ".join(f"{source} {n}" for source, n in sorted(counts.items()))
        kind = "panel" if self._mix is not None else "questions"
        note = f"{kind} of {split}: {listed}; {self._retriever.name}"
        ignored = self._questions.ignored
        return f"{note}; without questions: {', '.join(ignored)}" if ignored else note

    def start(self, task: Task, seed: int) -> SearchQASession:
        return SearchQASession(self._rules, _question(task.payload), QuestionState())

    def restore(self, task: Task, snapshot: bytes) -> SearchQASession:
        """The session of a snapshot, as it was: no search is run again.

        Raises `TaskMismatchError` for a snapshot of another question or another corpus.
        """
        question, corpus, state = SearchQASession.parse_snapshot(snapshot)
        expected = task.payload["question_id"], self._retriever.corpus_hash
        if (question, corpus) != expected:
            raise TaskMismatchError(
                f"the snapshot is of question {question} on corpus {corpus}, not of "
                f"{expected[0]} on {expected[1]}"
            )
        return SearchQASession(self._rules, _question(task.payload), state)

    def recall(self, task: Task, turns: Sequence[Mapping[str, Any]]) -> None:
        """Take what recorded searches found as their results, so that a replay runs none of them.

        `turns` are a trajectory's rows of the turns table, in order. Raises `TaskMismatchError`
        where they were recorded with another engine or corpus.
        """
        self._memory.learn(turns)

    def expert(self, task: Task, session: Any) -> str:
        return expert.next_action(_question(task.payload), session)

    def grading(self, task: Task, info: Mapping[str, Any]) -> list[Message] | None:
        """Asks a model whether an answer is right; None where there is nothing to ask."""
        return grading.messages(task, info)

    def verdict(self, reply: str) -> bool | None:
        """What the model said; None where it said neither yes nor no."""
        return grading.verdict(reply)

    def close(self) -> None:
        """Let the search engine go."""
        self._retriever.close()

    def _search(self, query: str) -> Sequence[Shown]:
        known = self._memory.get(query)
        if known is not None:
            return known
        hits = self._retriever.search(query, self._topk)
        return tuple(shown(hit, self._words) for hit in hits[: self._topk])


def _check_numbers(**numbers: int) -> None:
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"searchqa's {name} is a whole number from 1 on, not {value!r}")


def _kind(retriever: str | Retriever | None, url: str | None) -> str:
    if retriever is None:
        return LOCAL_AND_FAST if url is None else "http"
    return retriever if isinstance(retriever, str) else retriever.name


def _world(
    data: str | None,
    corpus: str | None,
    retriever: str | Retriever | None,
    url: str | None,
    seed: int,
    size: int | None,
) -> World | None:
    """The generated world where no questions are given; `UsageError` for what does not fit."""
    has_corpus = corpus is not None or url is not None or not isinstance(retriever, str | None)
    if data is None and corpus is not None:
        raise UsageError(
            "a corpus without questions", hint="name the questions: --data FILE_OR_FOLDER"
        )
    if data is not None and not has_corpus:
        raise UsageError(
            "questions without a corpus to search",
            hint="--corpus FILE, or --env-option retriever_url=http://HOST:8000",
        )
    if data is not None and size is not None:
        raise UsageError("size is for the generated world; it has no effect on --data")
    return _build(seed, size) if data is None else None


@lru_cache(maxsize=2)
def _build(seed: int, size: int | None) -> World:
    from prover_cli.envs.searchqa.world.build import SIZE, build

    return build(seed, SIZE if size is None else size)


def _questions(data: str | None, world: World | None) -> Questions:
    if world is None:
        return read_questions(str(data))
    return Questions({split: tuple(questions) for split, questions in world.questions.items()})


def _open(
    world: World | None,
    corpus: str | None,
    retriever: str | Retriever | None,
    url: str | None,
    engine: Mapping[str, Any],
) -> Retriever:
    if not isinstance(retriever, str | None):
        _check_names(engine, set(), retriever.name)
        return retriever
    from prover_cli.envs.searchqa.retrieval.open import KINDS, open_retriever, options_of

    kind = _kind(retriever, url)
    if kind in KINDS:
        _check_names(engine, options_of(kind), kind)
    passages = world.passages if world is not None and kind != "http" else None
    return open_retriever(kind, corpus=corpus, passages=passages, url=url, **engine)


def _check_names(given: Mapping[str, Any], of_retriever: set[str], kind: str) -> None:
    """`UsageError` for an option that neither the environment nor its search engine has."""
    parameters = inspect.signature(SearchQAEnvironment).parameters.values()
    own = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    if unknown := sorted(set(given) - of_retriever):
        raise UsageError(
            f"environment searchqa has no option {', '.join(unknown)}; it has: {', '.join(own)}; "
            f"and of retriever {kind}: {', '.join(sorted(of_retriever)) or 'none'}"
        )


def _hash(questions: Questions) -> str:
    """Hash of all questions, their answers and splits."""
    return digest(
        {
            split: [[q.question_id, q.text, q.answers, q.source, q.gold, q.chain] for q in part]
            for split, part in questions.by_split.items()
        }
    )


def _question(payload: Mapping[str, Any]) -> Question:
    fields = dict(payload)
    for name in ("answers", "gold", "chain"):
        fields[name] = tuple(fields[name])
    return Question(**fields)
