"""The engine against the official one: both get the same commands and must answer alike.

The official one is TextWorld, with ALFWorld's names for things (the extra `alfworld-reference`).
A game is played once, because TextWorld needs seconds to open it: first what can be said at the
start, then the expert's plan, then commands at random, then the expert's plan from there. After
the first difference the two are in different states, so the game ends.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

from prover_cli.envs.alfworld import official
from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.oracle import NoPlanError, next_command
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.envs.base import Progress
from prover_cli.errors import NothingToDoError, UsageError

INSTALL = "pip install 'prover-cli[alfworld-reference]'"
PACKAGES = ("textworld", "alfworld", "fast-downward-textworld")
SPLITS = (*official.EXPECTED, "valid_train")
OPENING = ("look", "inventory", "help", "examine nothing 1")
"""Said where the agent starts, a place to which no command leads back."""
LONGEST_PLAN = 50
LISTED = 10
"""Differences that are given in full."""


@dataclass(frozen=True)
class Answer:
    """What an engine says to a command."""

    observation: str
    admissible: frozenset[str]
    won: bool


@dataclass
class Tally:
    """What was compared, and with what result."""

    games: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    """By what the command did: something, or nothing because it was not possible."""
    wins: int = 0
    """How often a goal was reached: mostly twice a game."""
    unsolved: int = 0
    """Games in which it never was, because the expert knows no way or the engines differed."""
    skipped: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, Any]] = field(default_factory=list)


def verify(
    progress: Progress, *, data: str, games: int | None = None, seed: int = 0, steps: int = 30
) -> dict[str, Any]:
    """Play games of every split in both engines and compare every answer.

    `games` of each split are drawn, or all are taken; `seed` also draws the commands, of which
    `steps` are at random. What TextWorld cannot open is counted as skipped, by reason.
    """
    root = official.data_folder(Path(data))
    chosen = [path for split in SPLITS for path in _draw(root, split, games, seed)]
    with _contained():
        reference = TextWorld()
    tally = Tally()
    progress.start("comparing", len(chosen), "games")
    for path in chosen:
        _compare(reference, root, path, tally, random.Random(f"{path}/{seed}"), steps)
        done = f"{tally.steps.total():,} steps, {len(tally.differences)} differences"
        progress.advance(1, done)
    if not tally.games:
        reasons = ", ".join(tally.skipped) or "there are none"
        raise NothingToDoError(f"no game in {root} could be compared: {reasons}")
    return {
        "versions": {name: version(name) for name in PACKAGES},
        "games": dict(tally.games),
        "steps": dict(tally.steps),
        "wins": tally.wins,
        "unsolved": tally.unsolved,
        "skipped": dict(sorted(tally.skipped.items())),
        "n_differences": len(tally.differences),
        "differences": tally.differences[:LISTED],
    }


def _draw(root: Path, split: str, n: int | None, seed: int) -> list[str]:
    """Game files of a split, whatever they say of themselves, below the data folder."""
    files = (root / split).rglob(official.GAME_FILE)
    paths = sorted(path.relative_to(root).as_posix() for path in files)
    if n is None or n >= len(paths):
        return paths
    return sorted(random.Random(f"{split}/{seed}").sample(paths, n))


def _compare(
    reference: TextWorld, root: Path, path: str, tally: Tally, draw: random.Random, steps: int
) -> None:
    """Play one game until everything is said or the answers differ."""
    with _contained():
        try:
            theirs = reference.open(root / path)
        except Exception as error:  # whatever the planner stumbles over
            tally.skipped[f"TextWorld: {type(error).__name__}: {error}"] += 1
            return
    tally.games[path.split("/", 1)[0]] += 1
    try:
        session = AlfworldSession(Game.read(root / path), show_help=True)
    except UsageError as error:
        tally.differences.append({"game": path, "what": "opens", "ours": error.message})
        return
    wins = 0
    said: str | None = None
    commands = _commands(session, draw, steps)
    for number in count():
        if found := _differences(session, theirs):
            where = {"game": path, "step": number, "command": said}
            tally.differences += [where | each for each in found]
            break
        said = next(commands, None)
        if said is None:
            break
        was_won = session.won
        tally.steps["possible" if session.step(said).valid else "impossible"] += 1
        wins += session.won and not was_won
        with _contained():
            theirs = reference.step(said)
    tally.wins += wins
    tally.unsolved += not wins


def _differences(session: AlfworldSession, theirs: Answer) -> list[dict[str, Any]]:
    """In what the answers of the engines differ; of the commands, those that only one has."""
    ours = Answer(session.text, frozenset(session.admissible), session.won)
    found: list[dict[str, Any]] = []
    for what in ("observation", "won"):
        mine, other = getattr(ours, what), getattr(theirs, what)
        if mine != other:
            found.append({"what": what, "ours": mine, "theirs": other})
    if ours.admissible != theirs.admissible:
        extra = sorted(ours.admissible - theirs.admissible)
        lacking = sorted(theirs.admissible - ours.admissible)
        found.append({"what": "admissible", "ours": extra, "theirs": lacking})
    return found


def _commands(session: AlfworldSession, draw: random.Random, steps: int) -> Iterator[str]:
    """What to say, given that the session hears it too."""
    yield from OPENING
    yield from _plan(session)
    known: dict[str, None] = {}
    for _ in range(steps):
        known |= dict.fromkeys(sorted(session.possible))
        yield _at_random(session, draw, list(known))
    yield from _plan(session)


def _plan(session: AlfworldSession) -> Iterator[str]:
    """The expert's commands to the goal, as far as it knows a way."""
    with contextlib.suppress(NoPlanError):
        for _ in range(LONGEST_PLAN):
            if session.won:
                return
            yield next_command(session)


def _at_random(session: AlfworldSession, draw: random.Random, known: Sequence[str]) -> str:
    """A command: mostly possible, of any kind alike, else one that is spoilt or out of place."""
    possible = sorted(session.possible)
    if draw.random() < 0.2:
        command = draw.choice(possible)
        spoilt = ("", command.capitalize(), f" {command} ", f"{command}.", _other_way(command))
        elsewhere = [one for one in known if one not in session.possible]
        return draw.choice((*spoilt, *draw.choices(elsewhere or [""], k=len(spoilt))))
    verb = draw.choice(sorted({command.split(" ", 1)[0] for command in possible}))
    return draw.choice([one for one in possible if one.split(" ", 1)[0] == verb])


def _other_way(command: str) -> str:
    """The same wish in the words of another version of the data."""
    if command.startswith("put "):
        return command.replace("put ", "move ", 1).replace(" in/on ", " to ", 1)
    return command.replace("move ", "put ", 1).replace(" to ", " in/on ", 1)


class TextWorld:
    """The official engine with one game at a time.

    Every game gets an environment of its own: the planner's library keeps state.
    """

    def __init__(self) -> None:
        try:
            import fast_downward
            from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
            from textworld import EnvInfos
            from textworld.envs import PddlEnv
        except ImportError as error:
            raise UsageError(
                f"comparing needs the official engine, which is not installed: {error}",
                hint=INSTALL,
            ) from error
        wanted = EnvInfos(won=True, admissible_commands=True)
        self._new: Callable[[], Any] = lambda: AlfredDemangler(PddlEnv(wanted))
        self._release: Callable[[Any], None] = fast_downward.close_lib
        self._env: Any = None

    def open(self, path: Path) -> Answer:
        """A new game; raises whatever TextWorld raises."""
        if self._env is not None:
            self._release(self._env.unwrapped.downward_lib)
        self._env = None
        env = self._new()
        env.load(str(path))
        self._env = env
        return self._answer(env.reset())

    def step(self, command: str) -> Answer:
        return self._answer(self._env.step(command)[0])

    @staticmethod
    def _answer(state: Any) -> Answer:
        return Answer(state.feedback, frozenset(state["admissible_commands"]), state["won"])


@contextlib.contextmanager
def _contained() -> Iterator[None]:
    """TextWorld overwrites the program's arguments, and has nothing to say on stdout."""
    arguments = sys.argv
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.argv = arguments
