"""A state is restored and a trajectory replayed without any search; keys say what states share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover_cli.envs.searchqa.types import RetrievalFailed
from prover_cli.errors import TaskMismatchError
from tests.envs.searchqa_helpers import DeadRetriever, SmallRetriever, environment, play, task_of


def test_a_snapshot_restores_without_any_search(tmp_path: Path) -> None:
    env = environment(tmp_path)
    task = task_of(env)
    session = env.start(task, 0)
    offline = environment(tmp_path, DeadRetriever())
    for action in ["search[director Mara Lind]", "", "search[zzz]", "answer[Oslo]"]:
        session.step(action)
        snapshot = session.snapshot()
        json.loads(snapshot)
        twin = offline.restore(task, snapshot)
        assert twin.observe() == session.observe()
        assert twin.snapshot() == snapshot
        assert twin.searches_left == session.searches_left


def test_a_snapshot_of_another_corpus_or_question_is_refused(tmp_path: Path) -> None:
    env = environment(tmp_path)
    snapshot = env.start(task_of(env), 0).snapshot()
    other = environment(tmp_path, SmallRetriever(corpus_hash="corpus-2"))
    with pytest.raises(TaskMismatchError, match="corpus-1"):
        other.restore(task_of(other), snapshot)
    with pytest.raises(TaskMismatchError, match="q1"):
        env.restore(task_of(env, "q2"), snapshot)


ACTIONS = ["search[Oslo]", "", "search[trap herring]", "search[zzz zzz]", "answer[Oslo]"]


def test_a_recalled_trajectory_replays_without_any_search(tmp_path: Path) -> None:
    env = environment(tmp_path)
    rows = play(env.start(task_of(env), 0), ACTIONS)
    retriever = DeadRetriever()
    offline = environment(tmp_path, retriever)
    offline.recall(task_of(offline), rows)
    assert play(offline.start(task_of(offline), 0), ACTIONS) == rows
    assert retriever.queries == []
    with pytest.raises(RetrievalFailed):
        offline.start(task_of(offline), 0).step("search[something else]")


def test_turns_of_another_corpus_are_not_recalled(tmp_path: Path) -> None:
    env = environment(tmp_path)
    rows = play(env.start(task_of(env), 0), ACTIONS)
    other = environment(tmp_path, SmallRetriever(corpus_hash="corpus-2"))
    with pytest.raises(TaskMismatchError, match="corpus corpus-1; now it is corpus-2"):
        other.recall(task_of(other), rows)


def test_a_recorded_text_that_is_not_of_this_form_is_searched_again(tmp_path: Path) -> None:
    env = environment(tmp_path)
    rows = play(env.start(task_of(env), 0), ACTIONS)
    rows[1]["observation"] = "something else"
    retriever = SmallRetriever()
    again = environment(tmp_path, retriever)
    again.recall(task_of(again), rows)
    again.start(task_of(again), 0).step("search[Oslo]")
    assert retriever.queries == ["Oslo"]


MOVES = st.lists(
    st.sampled_from(["search[Oslo]", "search[Mara]", "search[without]", "", "answer[Oslo]"]),
    max_size=6,
)


@settings(max_examples=60)
@given(first=MOVES, second=MOVES, future=MOVES)
def test_equal_keys_mean_equal_futures(
    tmp_path_factory: pytest.TempPathFactory, first: list[str], second: list[str], future: list[str]
) -> None:
    env = environment(tmp_path_factory.getbasetemp())
    sessions = [env.start(task_of(env), 0) for _ in range(2)]
    for session, actions in zip(sessions, (first, second), strict=True):
        for action in actions:
            session.step(action)
    if len({session.observe().state_key for session in sessions}) == 1:
        outcomes = [[session.step(action) for action in future] for session in sessions]
        assert outcomes[0] == outcomes[1]


def test_the_key_knows_turns_evidence_and_end_but_not_the_order(tmp_path: Path) -> None:
    env = environment(tmp_path, topk=1)

    def key(*actions: str) -> str:
        session = env.start(task_of(env), 0)
        for action in actions:
            session.step(action)
        return session.observe().state_key

    assert key("search[without]", "search[capital]") == key("search[capital]", "search[without]")
    different = [(), ("",), ("", ""), ("search[without]",), ("search[capital]",), ("answer[x]",)]
    assert len({key(*actions) for actions in different}) == len(different)
