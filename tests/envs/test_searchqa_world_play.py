"""Without data there is a generated world, and the expert answers every question in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover_cli.envs.base import PastTurn
from prover_cli.envs.searchqa import SearchQAEnvironment
from prover_cli.envs.searchqa.retrieval.open import open_retriever
from prover_cli.errors import UsageError
from tests.envs.searchqa_helpers import environment, play, task_of
from tests.envs.searchqa_retrieval import serving


class Silent:
    def start(self, what: str, total: int, unit: str) -> None: ...

    def advance(self, n: int = 1, facts: str = "") -> None: ...

    def note(self, text: str) -> None: ...


@pytest.fixture(scope="module")
def world() -> SearchQAEnvironment:
    return SearchQAEnvironment(size=300)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_the_expert_answers_every_generated_question(
    world: SearchQAEnvironment, split: str
) -> None:
    for task in world.tasks(split):
        session = world.start(task, 0)
        for _ in range(world.max_turns):
            result = session.step(world.expert(task, session))
            if result.done:
                break
        assert result.success, task


def test_the_expert_searches_gold_titles_and_answers_when_no_search_is_left(tmp_path: Path) -> None:
    env = environment(tmp_path, searches=1)
    task = task_of(env)
    session = env.start(task, 0)
    assert env.expert(task, session) == "search[Blue Harbour director]"
    session.step("")
    assert env.expert(task, session) == "answer[Oslo]"
    plain = task_of(env, "q2")
    assert env.expert(plain, env.start(plain, 0)) == "search[What is the capital of Norway?]"


def test_a_small_policy_can_copy_most_answers(world: SearchQAEnvironment) -> None:
    style, shown = world.prompts["compact"], 0
    tasks = list(world.tasks("train"))
    for task in tasks:
        session, past = world.start(task, 0), []
        while not (action := world.expert(task, session)).startswith("answer"):
            past.append(PastTurn(session.observe().text, action, action))
            session.step(action)
        (message,) = style.window(task, past[-3:], session.observe())
        shown += any(answer.lower() in message.content for answer in task.payload["answers"])
        assert len(message.content.split()) < 250
    assert shown / len(tasks) > 0.8


def test_a_server_of_the_same_corpus_gives_the_same_episodes(tmp_path: Path) -> None:
    folder = tmp_path / "world"
    SearchQAEnvironment.generate(Silent(), out=str(folder), size=200)
    corpus = str(folder / "corpus.jsonl")
    local = SearchQAEnvironment(data=str(folder), corpus=corpus)
    with serving(open_retriever("bm25", corpus=corpus)) as url:
        remote = SearchQAEnvironment(data=str(folder), retriever_url=url)
        assert remote.blocking and not local.blocking
        for here, there in list(zip(local.tasks("test"), remote.tasks("test"), strict=True))[:5]:
            actions = [f"search[{query}]" for query in here.payload["chain"]]
            sessions = local.start(here, 0), remote.start(there, 0)
            rows = [play(session, actions) for session in sessions]
            for mine, theirs in zip(*rows, strict=True):
                assert mine["observation"] == theirs["observation"]
                assert mine["state_key"] == theirs["state_key"]
        remote.close()


def test_generated_files_give_the_same_questions_again(
    world: SearchQAEnvironment, tmp_path: Path
) -> None:
    folder = tmp_path / "world"
    facts = SearchQAEnvironment.generate(Silent(), out=str(folder), size=300)
    again = SearchQAEnvironment(data=str(folder), corpus=str(folder / "corpus.jsonl"))
    assert facts["passages"] == 300
    for split in ("train", "valid", "test"):
        keys = ("question_id", "text", "answers", "source", "hops", "gold", "chain")
        first, second = world.tasks(split), again.tasks(split)
        assert [[t.payload[k] for k in keys] for t in first] == [
            [t.payload[k] for k in keys] for t in second
        ]
    task = again.tasks("train")[0]
    session = again.start(task, 0)
    session.step(again.expert(task, session))
    with pytest.raises(UsageError, match="not empty"):
        SearchQAEnvironment.generate(Silent(), out=str(folder))
