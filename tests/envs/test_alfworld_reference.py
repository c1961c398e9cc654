"""The engine against recordings of the official one on real games."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs.alfworld import AlfworldEnvironment, play_file, rules
from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.oracle import NoPlanError
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.envs.base import Task

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def folder() -> Path:
    """The folder of recordings and games; skips where it is absent."""
    found = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "alfworld"
    if not found.is_dir():
        pytest.skip("the ALFWorld reference data is not beside the repository")
    return found


@pytest.fixture(scope="module")
def recorded(folder: Path) -> Any:
    return json.loads((folder / "reference_traces.json").read_bytes())


@pytest.fixture(scope="module")
def alfworld(folder: Path) -> AlfworldEnvironment:
    return AlfworldEnvironment(data=str(folder))


def test_every_recorded_step_is_the_same(folder: Path, recorded: Any) -> None:
    n_steps = 0
    for episode in recorded:
        session = play_file(folder / episode["game"])
        for step in episode["steps"]:
            where = (episode["game"], n_steps, step["action"])
            if step["action"] is not None:
                session.step(step["action"])
            observation = session.observe()
            assert observation.text == step["observation"], where
            assert list(observation.admissible or ()) == step["admissible"], where
            assert session.won == step["won"], where
            n_steps += 1
    assert (len(recorded), n_steps) == (31, 840)


def test_sessions_restored_at_every_recorded_step_go_on_the_same(
    folder: Path, recorded: Any
) -> None:
    for episode in recorded:
        game = Game.read(folder / episode["game"])
        session = AlfworldSession(game)
        for step in episode["steps"]:
            if step["action"] is not None:
                session.step(step["action"])
            snapshot = session.snapshot()
            assert len(snapshot) < 6000
            session = AlfworldSession.restored(game, snapshot)
            assert session.text == step["observation"]
            assert (list(session.admissible), session.won) == (step["admissible"], step["won"])


def test_equal_state_keys_have_equal_commands_and_views(folder: Path, recorded: Any) -> None:
    seen: dict[str, Any] = {}
    n_again = 0
    for episode in recorded:
        if not episode["steps"]:
            continue
        session = play_file(folder / episode["game"])
        for step in episode["steps"]:
            if step["action"] is not None:
                session.step(step["action"])
            state = (step["admissible"], step["won"], session.copy().step("look").observation.text)
            n_again += session.state_key in seen
            assert seen.setdefault(session.state_key, state) == state
    assert n_again > 100


def test_the_selection_is_the_official_one(alfworld: AlfworldEnvironment) -> None:
    assert [len(alfworld.tasks(split)) for split in ("train", "valid", "test")] == [6, 3, 6]
    assert alfworld.tasks("valid_seen").skipped == {"unsolvable": 1}
    kinds = {task.payload["task_type"] for task in alfworld.tasks("all")}
    assert len(kinds) == 6
    first = alfworld.tasks("train")[1]
    assert first.instruction == "put a alarmclock in desk."


def _wander(session: AlfworldSession, generator: random.Random, n: int) -> None:
    for _ in range(n):
        if session.won:
            return
        session.step(generator.choice(session.admissible))


def _hand_is_stuck(session: AlfworldSession) -> bool:
    held = rules.in_hand(session.game, session.facts)
    places = session.game.receptacles
    return held is not None and not any(rules.accepts(session.facts, r, held) for r in places)


def test_the_expert_solves_every_game_from_anywhere(alfworld: AlfworldEnvironment) -> None:
    lengths: list[int] = []
    for task in alfworld.tasks("all"):
        for seed in range(16):
            session = alfworld.start(task, 0)
            generator = random.Random(seed)
            _wander(session, generator, generator.randrange(100) if seed else 0)
            n = 0
            try:
                while not session.won:
                    assert session.step(alfworld.expert(task, session)).valid
                    n += 1
                    assert n <= 20, (task.payload["game"], seed)
            except NoPlanError as error:
                assert _hand_is_stuck(session), error
            if not seed:
                lengths.append(n)
    assert 3 <= min(lengths) <= max(lengths) <= 11


def test_threads_that_share_games_see_what_one_sees(alfworld: AlfworldEnvironment) -> None:
    def texts(task: Task) -> list[str]:
        session, generator = alfworld.start(task, 0), random.Random(task.task_id)
        steps = (session.step(generator.choice(session.admissible)) for _ in range(30))
        return [result.observation.text for result in steps]

    tasks = [*alfworld.tasks("all")] * 4
    alone = [texts(task) for task in tasks[:15]] * 4
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(texts, tasks)) == alone


def test_a_game_flagged_unsolvable_can_be_played_and_is_refused_by_the_expert(
    folder: Path, alfworld: AlfworldEnvironment
) -> None:
    (path,) = folder.glob("json_2.1.1/valid_seen/*FloorLamp*/*/game.tw-pddl")
    session = play_file(path)
    assert not session.won and "go to sofa 1" in session.admissible
    session.step("go to sofa 1")
    with pytest.raises(NoPlanError, match="no lamp of the wanted type"):
        for _ in range(6):
            session.step(alfworld.expert(alfworld.tasks("test")[0], session))
