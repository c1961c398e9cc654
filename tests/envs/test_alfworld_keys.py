"""Keys of states, snapshots, and episodes that do not touch each other."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.errors import UsageError
from tests.envs.test_alfworld_house import GOALS, play, tiny


@pytest.fixture(scope="module")
def game() -> Game:
    return Game.from_json(tiny())


def _explore(game: Game, seed: int, n: int) -> list[AlfworldSession]:
    generator, session = random.Random(seed), AlfworldSession(game)
    states: list[AlfworldSession] = []
    for _ in range(n):
        session.step(generator.choice(session.admissible))
        states.append(session.copy())
    return states


def _future(session: AlfworldSession, commands: Sequence[str]) -> list[Any]:
    twin = session.copy()
    return [
        (r.observation.text, r.observation.admissible, r.success) for r in map(twin.step, commands)
    ]


def test_equal_state_keys_mean_equal_futures(game: Game) -> None:
    by_key: dict[str, list[AlfworldSession]] = {}
    for seed in range(25):
        for session in _explore(game, seed, 40):
            by_key.setdefault(session.state_key, []).append(session)
    generator, n_pairs = random.Random(0), 0
    for states in by_key.values():
        for other in states[1:3]:
            commands = [generator.choice(states[0].admissible) for _ in range(3)]
            commands += [f"walk to {r}" for r in game.places] + ["peer", "pockets"]
            assert _future(states[0], commands) == _future(other, commands)
            n_pairs += 1
    assert n_pairs > 50


def test_different_facts_have_different_keys_whatever_the_way(game: Game) -> None:
    there = play(game, "walk to table 1")
    detour = play(game, "walk to fridge 1", "unlatch fridge 1", "latch fridge 1", "walk to table 1")
    left_open = play(game, "walk to fridge 1", "unlatch fridge 1", "walk to table 1")
    assert there.state_key == detour.state_key != left_open.state_key
    # The thing is back, but it is listed beside its old place in a way that later texts show.
    moved = ("walk to drawer 1", "grab mug 1 off drawer 1", "unlatch drawer 2")
    marked = play(game, *moved, "stow mug 1 at drawer 2")
    assert marked.state_key != play(game, "walk to drawer 1", "unlatch drawer 2").state_key
    other = Game.from_json(tiny(GOALS["two"]))
    assert AlfworldSession(other).state_key != AlfworldSession(game).state_key


def test_the_observable_key_tells_what_was_seen(game: Game) -> None:
    def key(*commands: str) -> str:
        return play(game, *commands).observable_key

    seen = key("walk to fridge 1", "unlatch fridge 1", "latch fridge 1", "walk to table 1")
    unseen = key("walk to fridge 1", "walk to table 1")
    assert seen != unseen != key("walk to table 1")
    assert key("walk to table 1", "walk to fridge 1") == key(
        "walk to fridge 1", "walk to table 1", "walk to fridge 1", "pockets"
    )
    session = play(game, "walk to table 1")
    before = session.observable_key
    result = session.step("abracadabra")
    assert result.info["observable_key"] == result.observation.page["observable_key"] == before
    assert session.step("unlatch drawer 1").info["observable_key"] != before


def test_a_snapshot_is_small_json_and_restores_an_equal_session(game: Game) -> None:
    for session in _explore(game, 7, 60):
        snapshot = session.snapshot()
        assert len(snapshot) < 4000 and json.loads(snapshot)["game"] == game.content
        twin = AlfworldSession.restored(game, snapshot)
        assert twin.observe() == session.observe()
        assert (twin.won, twin.moves, twin.snapshot()) == (session.won, session.moves, snapshot)
        commands = session.admissible[:6]
        assert _future(twin, commands) == _future(session, commands)


def test_a_snapshot_of_another_game_is_refused(game: Game) -> None:
    other = Game.from_json(tiny(GOALS["two"]))
    with pytest.raises(UsageError, match="snapshot is of game"):
        AlfworldSession.restored(other, AlfworldSession(game).snapshot())


CHILD = """
import json, sys
from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.session import AlfworldSession
data, snapshot, commands = json.load(sys.stdin)
session = AlfworldSession.restored(Game.from_json(data), snapshot.encode())
print(json.dumps([[r.observation.text, r.observation.state_key, r.info["observable_key"]]
                  for r in map(session.step, commands)]))
"""


def test_a_snapshot_continues_equally_in_another_process() -> None:
    data = tiny()
    session = _explore(Game.from_json(data), 3, 30)[-1]
    commands = ["peer", *session.admissible[::2]]
    given = json.dumps([data, session.snapshot().decode(), commands])
    there = subprocess.run(
        [sys.executable, "-c", CHILD], input=given, capture_output=True, text=True, check=True
    )
    here = [
        [r.observation.text, r.observation.state_key, r.info["observable_key"]]
        for r in map(session.step, commands)
    ]
    assert json.loads(there.stdout) == here


def _random_episode(game: Game, seed: int) -> list[tuple[str, str]]:
    generator, session = random.Random(seed), AlfworldSession(game)
    steps = (session.step(generator.choice(session.admissible)) for _ in range(60))
    return [(r.observation.text, r.observation.state_key) for r in steps]


def test_episodes_in_threads_and_interleaved_do_not_touch() -> None:
    alone = [_random_episode(Game.from_json(tiny()), seed) for seed in range(8)]
    shared = Game.from_json(tiny())
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda seed: _random_episode(shared, seed), range(8))) == alone
    first, second = AlfworldSession(shared), AlfworldSession(shared)
    for _ in range(3):
        first.step("walk to table 1")
        first.step("grab apple 1 off table 1")
        second.step("walk to table 1")
        assert "grab apple 1 off table 1" in second.admissible
        first.step("stow apple 1 at table 1")
    assert AlfworldSession(shared).observe() == AlfworldSession(Game.from_json(tiny())).observe()
