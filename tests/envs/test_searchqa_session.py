"""An episode: searches, invalid replies, an answer; and which tasks and options there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.envs.searchqa import SearchQAEnvironment
from prover_cli.envs.searchqa.session import INVALID, REFUSED, as_action, parts_of
from prover_cli.envs.searchqa.types import Hit, Passage, RetrievalFailed
from prover_cli.errors import EnvironmentFault, UsageError
from tests.envs.searchqa_helpers import (
    DeadRetriever,
    SmallRetriever,
    environment,
    task_of,
    write_jsonl,
)


@given(st.sampled_from(["search", "answer"]), st.text())
def test_any_content_survives_in_an_action(verb: str, content: str) -> None:
    assert parts_of(as_action(verb, content)) == (verb, content)


@pytest.mark.parametrize(
    "action", ["", "search", "search[x", "Search[x]", "look[x]", "x search[y]"]
)
def test_what_is_no_action_has_no_parts(action: str) -> None:
    assert parts_of(action) is None


def test_a_search_shows_passages_and_an_answer_ends_with_its_score(tmp_path: Path) -> None:
    env = environment(tmp_path)
    session = env.start(task_of(env), 0)
    assert session.observe().text == "Question: Where was the director of Blue Harbour born?"
    found = session.step("search[director Mara Lind]")
    assert found.observation.text.splitlines()[0] == (
        'Doc 1(Title: "Mara Lind") Mara Lind is a director born in Oslo.'
    )
    assert (found.reward, found.done, found.valid) == (0.0, False, True)
    assert found.info["docs"][0] == "p2"
    assert found.info["query"] == "director Mara Lind"
    assert (found.info["retriever"], found.info["corpus"]) == ("shared words", "corpus-1")
    assert len(found.info["scores"]) == len(found.info["docs"]) <= 3
    answered = session.step("answer[ OSLO. ]")
    assert (answered.reward, answered.done, answered.success) == (1.0, True, True)
    assert answered.info == {"answer": "OSLO.", "em": 1.0, "sub_em": 1.0, "f1": 1.0}


def test_a_wrong_answer_ends_the_episode_without_reward(tmp_path: Path) -> None:
    env = environment(tmp_path)
    session = env.start(task_of(env), 0)
    result = session.step("answer[in Oslo]")
    assert (result.reward, result.done, result.success) == (0.0, True, False)
    assert result.info["sub_em"] == 1.0
    again = session.step("answer[Oslo]")
    assert (again.reward, again.done, again.valid) == (0.0, True, False)


@pytest.mark.parametrize(("reward", "earned"), [("em", 0.0), ("sub_em", 1.0), ("f1", 2 / 3)])
def test_the_reward_can_be_any_of_the_scores(tmp_path: Path, reward: str, earned: float) -> None:
    env = environment(tmp_path, reward=reward)
    result = env.start(task_of(env), 0).step("answer[Oslo city]")
    assert result.reward == pytest.approx(earned)
    assert result.success is (earned == 1.0)


@pytest.mark.parametrize("action", ["", "search[]", "search[ \n\x00 ]", "nonsense", "search[x"])
def test_what_is_no_action_uses_up_a_turn_and_nothing_else(tmp_path: Path, action: str) -> None:
    retriever = SmallRetriever()
    env = environment(tmp_path, retriever)
    session = env.start(task_of(env), 0)
    result = session.step(action)
    assert (result.valid, result.done, result.reward) == (False, False, 0.0)
    assert result.observation.text == INVALID
    assert session.searches_left == 3
    assert retriever.queries == []


def test_a_search_in_the_last_generation_gives_nothing(tmp_path: Path) -> None:
    retriever = SmallRetriever()
    env = environment(tmp_path, retriever)
    session = env.start(task_of(env), 0)
    assert env.max_turns == 5
    for _ in range(4):
        assert session.step("search[Oslo]").valid
    result = session.step("search[Norway]")
    assert (result.valid, result.done) == (False, False)
    assert result.observation.text == REFUSED
    assert retriever.queries == ["Oslo"] * 4
    assert session.step("answer[Oslo]").success


def test_a_failed_search_is_a_fault_and_leaves_the_state_as_it_was(tmp_path: Path) -> None:
    env = environment(tmp_path, DeadRetriever())
    session = env.start(task_of(env), 0)
    before = session.snapshot()
    with pytest.raises(EnvironmentFault):
        session.step("search[Oslo]")
    assert session.snapshot() == before


class Fixed(SmallRetriever):
    """Finds the same for every query."""

    def __init__(self, *hits: Hit) -> None:
        super().__init__()
        self._hits = list(hits)

    def search(self, query: str, k: int) -> list[Hit]:
        self.queries.append(query)
        return self._hits


def test_nothing_found_is_said(tmp_path: Path) -> None:
    env = environment(tmp_path, Fixed())
    result = env.start(task_of(env), 0).step("search[x]")
    assert (result.observation.text, result.valid) == ("No passage was found.", True)


def test_long_passages_are_cut_and_odd_ones_shown_on_one_line(tmp_path: Path) -> None:
    hits = [
        Hit(Passage("a", "", "word " * 1000), 3.0),
        Hit(Passage("b", "T\nU", "x" * 5000), 2.0),
        Hit(Passage("c", "V", "a\r\n\x00\u2028b\ud800"), 1.0),
        Hit(Passage("d", "W", "more than asked for"), 0.5),
    ]
    env = environment(tmp_path, Fixed(*hits), passage_words=10)
    result = env.start(task_of(env), 0).step("search[x]")
    first, second, third = result.observation.text.split("\n")
    assert first == 'Doc 1(Title: "") ' + "word " * 10 + "..."
    assert second == 'Doc 2(Title: "T U") ' + "x" * 80 + " ..."
    assert third == 'Doc 3(Title: "V") a b'
    result.observation.text.encode()


def test_a_score_that_is_no_number_is_a_fault(tmp_path: Path) -> None:
    env = environment(tmp_path, Fixed(Hit(Passage("a", "T", "t"), float("nan"))))
    with pytest.raises(RetrievalFailed):
        env.start(task_of(env), 0).step("search[x]")


def test_an_endless_query_is_cut_and_that_is_recorded(tmp_path: Path) -> None:
    retriever = SmallRetriever()
    env = environment(tmp_path, retriever)
    result = env.start(task_of(env), 0).step(f"search[Oslo {'x' * 100_000}]")
    assert len(retriever.queries[0]) == 2000
    assert result.info["cut"] is True
    assert result.info["query"] == retriever.queries[0]


def test_what_decides_episodes_is_in_the_fingerprint(tmp_path: Path) -> None:
    env = environment(tmp_path)
    assert environment(tmp_path).fingerprint == env.fingerprint
    changed = [
        environment(tmp_path, SmallRetriever(corpus_hash="corpus-2")),
        environment(tmp_path, topk=2),
        environment(tmp_path, searches=3),
        environment(tmp_path, reward="f1"),
        environment(tmp_path, passage_words=20),
    ]
    rows = [{"id": "q1", "question": "q", "golden_answers": ["x"]}]
    data = write_jsonl(tmp_path / "other.jsonl", rows)
    changed.append(SearchQAEnvironment(data=str(data), retriever=SmallRetriever()))
    assert len({e.fingerprint for e in [env, *changed]}) == 7
    assert env.assets["corpus"] == "corpus-1"


def test_tasks_are_the_questions_with_their_answers(tmp_path: Path) -> None:
    env = environment(tmp_path)
    panel = env.tasks("test")
    assert [task.instruction for task in panel] == [
        "Where was the director of Blue Harbour born?",
        "What is the capital of Norway?",
    ]
    assert panel[0].payload["answers"] == ["Oslo", "Oslo, Norway"]
    assert "hotpotqa 1, nq 1" in str(panel.note)
    assert json.loads(json.dumps(panel[0].payload)) == panel[0].payload
    with pytest.raises(UsageError, match="split train"):
        env.tasks("train")
    with pytest.raises(UsageError, match="no split"):
        env.tasks("dev")


def test_a_panel_is_cut_from_the_split(tmp_path: Path) -> None:
    env = environment(tmp_path, panel="nq:1")
    assert [task.payload["question_id"] for task in env.tasks("all")] == ["q2"]
    with pytest.raises(UsageError, match="popqa has 0 of 1"):
        environment(tmp_path, panel="popqa:1").tasks("all")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reward": "bleu"}, "reward"),
        ({"topk": 0}, "topk"),
        ({"searches": 1.5}, "searches"),
        ({"passage_words": -1}, "passage_words"),
        ({"panel": "x"}, "panel"),
        ({"size": 5}, "size"),
        ({"topkk": 5}, "topkk"),
        ({"data": None, "retriever": None, "corpus": "c.jsonl"}, "corpus without questions"),
        ({"retriever": "bm25"}, "without a corpus"),
        ({"retriever": "bm26", "corpus": "c.jsonl"}, "bm26"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, options: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        environment(tmp_path, **options)


def test_only_slow_engines_are_waited_for_in_threads(tmp_path: Path) -> None:
    env = environment(tmp_path)
    assert env.blocking and env.start(task_of(env), 0).blocking
    assert not SearchQAEnvironment(size=200).blocking
