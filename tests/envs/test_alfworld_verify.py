"""Comparing the engine with TextWorld: with the real one where it is installed, else a stand-in."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs import registry
from prover_cli.envs.alfworld import play_file
from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.prepare import generate_files
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.envs.alfworld.verify import Answer
from prover_cli.errors import NothingToDoError, UsageError
from tests.cli.run import prover

INSTALLED = importlib.util.find_spec("textworld") is not None
"""The extra alfworld-reference is there."""


class Silence:
    """Progress that nobody watches."""

    def start(self, what: str, total: int, unit: str) -> None:
        self.left = total

    def advance(self, n: int = 1, facts: str = "") -> None:
        self.left -= n

    def note(self, text: str) -> None:
        pass


class StandIn:
    """The toolkit's own engine in TextWorld's place, with something changed."""

    change: Callable[[str, Answer], Answer] = staticmethod(lambda command, answer: answer)
    refused = ""
    heard: list[str]

    def __init__(self) -> None:
        type(self).heard = []

    def open(self, path: Path) -> Answer:
        if self.refused and self.refused in str(path):
            raise KeyError("val1")
        self.session = AlfworldSession(Game.read(path), show_help=True)
        return self._answer("")

    def step(self, command: str) -> Answer:
        self.heard.append(command)
        self.session.step(command)
        return self._answer(command)

    def _answer(self, command: str) -> Answer:
        session = self.session
        answer = Answer(session.text, frozenset(session.admissible), session.won)
        return type(self).change(command, answer)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with six generated games in train and two in each other split."""
    folder = tmp_path_factory.mktemp("alfworld") / "games"
    generate_files(Silence(), out=str(folder), games=6, held_out=2)
    return folder


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[StandIn]:
    """A class of its own for every test, used instead of TextWorld."""

    class Own(StandIn):
        pass

    monkeypatch.setattr("prover_cli.envs.alfworld.verify.TextWorld", Own)
    monkeypatch.setattr("prover_cli.envs.alfworld.verify.version", lambda name: "none")
    return Own


def _verify(data: Path, **options: Any) -> dict[str, Any]:
    return registry.run("alfworld", "verify", Silence(), data=str(data), **options)


@pytest.mark.skipif(not INSTALLED, reason="the extra alfworld-reference is not installed")
def test_textworld_plays_generated_games_alike(data: Path) -> None:
    arguments = list(sys.argv)
    facts = _verify(data, games=1, steps=12)
    assert facts["n_differences"] == 0, facts["differences"]
    assert facts["games"] == {"train": 1, "valid_seen": 1, "valid_unseen": 1}
    assert (facts["unsolved"], facts["skipped"]) == (0, {})
    assert sys.argv == arguments


@pytest.mark.skipif(INSTALLED, reason="the extra alfworld-reference is installed")
def test_without_the_extra_the_command_says_what_to_install(data: Path) -> None:
    result = prover("tasks", "verify", "alfworld", "--data", data, "--games", "1")
    assert (result.returncode, result.stdout) == (2, "")
    assert "which is not installed" in result.stderr
    assert "pip install 'prover-cli[alfworld-reference]'" in result.stderr


def test_every_split_is_played_to_the_goal_and_on(data: Path, stand_in: type[StandIn]) -> None:
    facts = _verify(data)
    assert facts["games"] == {"train": 6, "valid_seen": 2, "valid_unseen": 2}
    assert (facts["n_differences"], facts["unsolved"]) == (0, 0)
    assert facts["wins"] >= 10
    assert sum(facts["steps"].values()) == len(stand_in.heard) > 10 * 34
    assert facts["steps"]["impossible"] > 10 * 3


def test_the_seed_decides_what_is_played_and_said(data: Path, stand_in: type[StandIn]) -> None:
    runs = []
    for seed in (1, 1, 2):
        facts = _verify(data, games=2, seed=seed)
        assert sum(facts["games"].values()) == 6
        runs.append(stand_in.heard)
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("observation", lambda a: Answer(a.observation + " ", a.admissible, a.won)),
        ("admissible", lambda a: Answer(a.observation, a.admissible - {"look"} | {"sing"}, a.won)),
        ("won", lambda a: Answer(a.observation, a.admissible, not a.won)),
    ],
)
def test_a_game_ends_at_its_first_difference(
    data: Path, stand_in: type[StandIn], what: str, change: Callable[[Answer], Answer]
) -> None:
    stand_in.change = staticmethod(lambda said, a: change(a) if said == "inventory" else a)
    facts = _verify(data, games=1)
    assert facts["n_differences"] == facts["unsolved"] == 3
    assert stand_in.heard == ["look", "inventory"] * 3
    first = facts["differences"][0]
    assert (first["step"], first["command"], first["what"]) == (2, "inventory", what)
    if what == "admissible":
        assert (first["ours"], first["theirs"]) == (["look"], ["sing"])


def test_games_that_textworld_cannot_open_are_counted(data: Path, stand_in: type[StandIn]) -> None:
    stand_in.refused = "/train/"
    facts = _verify(data)
    assert facts["skipped"] == {"TextWorld: KeyError: 'val1'": 6}
    assert facts["games"] == {"valid_seen": 2, "valid_unseen": 2}
    stand_in.refused = "/"
    with pytest.raises(NothingToDoError, match="KeyError: 'val1'"):
        _verify(data, games=1)


def test_a_game_that_only_textworld_opens_is_a_difference(
    data: Path, stand_in: type[StandIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> Game:
        raise UsageError("unheard of")

    path = next(data.rglob("train/**/game.tw-pddl"))
    session = play_file(path)
    answer = Answer(session.text, frozenset(session.admissible), session.won)
    monkeypatch.setattr(stand_in, "open", lambda self, path: answer)
    monkeypatch.setattr("prover_cli.envs.alfworld.verify.Game.read", refuse)
    facts = _verify(data, games=1)
    assert facts["n_differences"] == 3
    assert facts["differences"][0]["ours"] == "unheard of"


def test_environments_without_an_official_engine_say_so() -> None:
    with pytest.raises(UsageError, match="toy has nothing to verify; these have: alfworld"):
        registry.run("toy", "verify", Silence())


def test_the_command_leaves_with_1_where_the_engines_differ(
    data: Path, stand_in: type[StandIn]
) -> None:
    from typer.testing import CliRunner

    from prover_cli.commands.tasks import app

    arguments = ["verify", "alfworld", "--data", str(data), "--games", "1"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    stand_in.change = staticmethod(lambda said, a: Answer("?", a.admissible, a.won))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "the engines of alfworld differ in 3 answers" in result.stderr
    assert '"what": "observation"' in result.stderr and result.stdout == ""
