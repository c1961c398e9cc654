"""The vault, panels, and environments by name."""

from __future__ import annotations

import itertools
import json
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover_cli.envs import load, names
from prover_cli.envs.base import StepResult, Task
from prover_cli.envs.panel import SPLITS
from prover_cli.envs.toy import COLOURS, ToyEnvironment, ToySession
from prover_cli.errors import UsageError


def _futures(env: ToyEnvironment, task: Task, seed: int, n: int = 12) -> list[str]:
    """What `n` attempts to go on show, from the start of the task."""
    session = env.start(task, 0)
    session.reseed(seed)
    return [session.step("go").observation.text for _ in range(n)]


def _task_with_key_ahead(env: ToyEnvironment) -> Task:
    return next(task for task in env.tasks("all") if task.payload["key_room"] > 0)


@pytest.mark.parametrize("rooms", [2, 3, 5])
def test_the_expert_opens_every_vault(rooms: int) -> None:
    env = ToyEnvironment(n_tasks=40, rooms=rooms)
    for task in env.tasks("all"):
        session = env.start(task, 0)
        results: list[StepResult] = []
        while not results or not results[-1].done:
            results.append(session.step(env.expert(task, session)))
            assert len(results) <= env.max_turns
        assert all(result.valid for result in results)
        assert (results[-1].reward, results[-1].success) == (1.0, True)
        assert session.observe().admissible == ()


def test_a_wrong_key_cannot_be_changed_after_leaving_its_room() -> None:
    env = ToyEnvironment(rooms=4)
    for task in env.tasks("all"):
        wrong = next(colour for colour in COLOURS if colour != task.payload["colour"])
        session = env.start(task, 0)
        for _ in range(task.payload["key_room"]):
            session.step("go")
        assert session.step(f"take {wrong}").valid
        session.step("go")
        assert not session.step(f"take {task.payload['colour']}").valid
        while not (result := session.step(env.expert(task, session))).done:
            assert result.reward == 0.0
        assert (result.reward, result.success) == (0.0, False)


def test_a_wrong_key_can_be_changed_in_its_room() -> None:
    env = ToyEnvironment()
    task = next(task for task in env.tasks("all") if task.payload["key_room"] == 0)
    session = env.start(task, 0)
    for colour in COLOURS:
        assert session.step(f"take {colour}").valid
    while not (result := session.step(env.expert(task, session))).done:
        pass
    assert result.success


@pytest.mark.parametrize("action", ["", "open", "take red", "go ", "GO", "take pink", "fly"])
def test_an_impossible_action_changes_nothing(action: str) -> None:
    env = ToyEnvironment(rooms=4)
    session = env.start(_task_with_key_ahead(env), 0)
    before = session.observe()
    result = session.step(action)
    assert (result.valid, result.reward, result.done) == (False, 0.0, False)
    assert result.observation == before == session.observe()


def test_futures_differ_between_seeds_and_repeat_for_a_seed() -> None:
    env = ToyEnvironment(rooms=8, slip=0.5)
    task = env.tasks("all")[0]
    futures = [_futures(env, task, seed) for seed in range(8)]
    assert len(set(map(tuple, futures))) > 4
    assert futures == [_futures(env, task, seed) for seed in range(8)]


def test_restored_sessions_have_futures_of_their_own_after_reseeding() -> None:
    env = ToyEnvironment(rooms=8, slip=0.5)
    task = env.tasks("all")[0]
    session = env.start(task, 3)
    session.step("go")
    snapshot = session.snapshot()
    ends = set()
    for seed in range(8):
        copy = env.restore(task, snapshot)
        assert copy.observe() == session.observe()
        copy.reseed(seed)
        ends.add(tuple(copy.step("go").observation.text for _ in range(8)))
    assert len(ends) > 4


def test_without_slip_the_seed_does_not_matter() -> None:
    env = ToyEnvironment(rooms=8)
    task = env.tasks("all")[0]
    assert _futures(env, task, 1) == _futures(env, task, 2)


def _copy(env: ToyEnvironment, task: Task, session: ToySession) -> ToySession:
    snapshot = session.snapshot()
    json.loads(snapshot)
    copy = env.restore(task, snapshot)
    assert copy.snapshot() == snapshot
    return copy


@given(st.integers(0, 23), st.integers(0, 2**31), st.lists(st.integers(0, 9), max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_restored_session_goes_on_like_the_original(
    number: int, seed: int, picks: list[int]
) -> None:
    env = ToyEnvironment(rooms=5, slip=0.4)
    task = env.tasks("all")[number]
    session = env.start(task, seed)
    copies = [_copy(env, task, session)]
    for pick in picks:
        possible = (*(session.observe().admissible or ()), "nonsense")
        action = possible[pick % len(possible)]
        expected = session.step(action)
        assert all(copy.step(action) == expected for copy in copies)
        copies.append(_copy(env, task, session))
        assert copies[-1].observe() == session.observe()


def test_state_keys_are_equal_exactly_when_the_facts_are() -> None:
    env = ToyEnvironment(rooms=4)
    task = _task_with_key_ahead(env)
    facts = itertools.product(range(4), (None, *COLOURS), (False, True))
    keys = set()
    for room, held, done in facts:
        state = {"room": room, "held": held, "done": done, "seed": 0, "draws": 0}
        twin = {**state, "seed": 5, "draws": 7}
        first, second = (env.restore(task, json.dumps(s).encode()) for s in (state, twin))
        assert first.observe().state_key == second.observe().state_key
        keys.add(first.observe().state_key)
    assert len(keys) == 4 * 5 * 2


def test_state_keys_tell_apart_tasks_whose_futures_differ() -> None:
    env = ToyEnvironment(n_tasks=40, rooms=4)
    starts = [(task, env.start(task, 0).observe()) for task in env.tasks("all")]
    for (task, first), (other, second) in itertools.combinations(starts, 2):
        same = all(task.payload[name] == other.payload[name] for name in ("colour", "key_room"))
        if not same:
            assert first.state_key != second.state_key, (task.instruction, other.instruction)


@pytest.mark.parametrize(
    "options", [{"rooms": 1}, {"n_tasks": 0}, {"slip": 1.0}, {"slip": -0.1}, {"rooms": -3}]
)
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="rooms >= 2"):
        load("toy", **options)


def test_an_unknown_split_names_the_known_ones() -> None:
    for name in ("toy", "webshop"):
        env = load(name)
        with pytest.raises(UsageError, match=r"dev.*train, valid, test, all"):
            env.tasks("dev")


def test_splits_are_disjoint_and_cover_all_tasks() -> None:
    env = ToyEnvironment(n_tasks=24)
    parts = {split: [task.task_id for task in env.tasks(split)] for split in SPLITS}
    joined = parts["train"] + parts["valid"] + parts["test"]
    assert len(joined) == len(set(joined)) == 24
    assert sorted(joined) == sorted(parts["all"])


def test_fingerprints_and_task_ids_tell_worlds_apart() -> None:
    worlds = [
        ToyEnvironment(),
        ToyEnvironment(rooms=4),
        ToyEnvironment(slip=0.1),
        ToyEnvironment(n_tasks=20),
    ]
    assert len({env.fingerprint for env in worlds}) == 4
    assert len({env.tasks("all").panel_hash for env in worlds}) == 4
    assert ToyEnvironment().tasks("all").panel_hash == worlds[0].tasks("all").panel_hash


def test_drawing_tasks_is_seeded_and_distinct() -> None:
    panel = ToyEnvironment().tasks("train")
    drawn = panel.draw(5, 1)
    assert drawn.items == panel.draw(5, 1).items != panel.draw(5, 2).items
    assert len({task.task_id for task in drawn}) == 5
    assert sorted(task.index for task in panel.draw(None, 3)) == [task.index for task in panel]
    assert panel.head(4).items == panel.items[:4]
    assert panel.head(None).panel_hash == panel.panel_hash != drawn.panel_hash


def test_plain_replies_are_actions() -> None:
    env = ToyEnvironment()
    style, observation = env.prompts["plain"], env.start(env.tasks("all")[0], 0).observe()
    assert style.parse(" go\n", observation).action == "go"
    assert style.parse("  ", observation).reason == "empty reply"


def test_registered_names_are_sorted_and_load() -> None:
    assert names() == sorted(names())
    assert {"toy", "webshop"} <= set(names())
    assert load("toy", rooms=5).max_turns == 12
    assert isinstance(load("webshop", products=20).prompts, MappingProxyType)
