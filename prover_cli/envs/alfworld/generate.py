"""Household games drawn from a seed, in the official file format.

A game is an errand of one of the six types in a scene. Types take turns, and so do the scenes of
each kind of room; valid_seen goes through the scenes in the order of train, so that it knows only
scenes of train (as long as it has no more games), and valid_unseen has scenes of its own. Every
game is drawn from its own seed: the first games of a split do not depend on how many there are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from prover_cli.envs.alfworld import oracle, writer
from prover_cli.envs.alfworld.domain import DOMAIN
from prover_cli.envs.alfworld.errands import ROOMS_OF, choose, furnish
from prover_cli.envs.alfworld.game import Game, game_hash
from prover_cli.envs.alfworld.official import GAME_FILE, TASK_TYPES
from prover_cli.envs.alfworld.rooms import LEVELS, Scene, numbers, scene
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.envs.alfworld.texts import grammar
from prover_cli.envs.alfworld.vocabulary import ROOMS
from prover_cli.errors import UsageError

GENERATOR_VERSION = 1
"""Raised when the same seed gives other games."""
SIZES: Mapping[str, int] = MappingProxyType({"train": 300, "valid_seen": 60, "valid_unseen": 60})
"""How many games of each split there are unless it is said."""
MOST_COMMANDS = 50


@dataclass(frozen=True)
class GeneratedGame:
    """A game, the trajectory beside it, and where both lie below the data folder."""

    path: str
    game: dict[str, Any]
    """The content of the game file."""
    traj_data: dict[str, Any]

    def checked(self) -> GeneratedGame:
        """The same game with the commands that solve it.

        A game is solvable by the way it is made; this plays it, which takes longer than making it.
        """
        return replace(self, game={**self.game, "walkthrough": solve(self.game)})


def games(
    split: str, level: int, n: int, seed: int, *, shared_spots: bool = False
) -> list[GeneratedGame]:
    """The first `n` games of a split.

    With `shared_spots` some cabinets and drawers are used from the same place, as in many official
    games: one cannot go from one to the other there, nor needs to.
    """
    return list(islice(stream(split, level, seed, shared_spots=shared_spots), n))


def stream(
    split: str, level: int, seed: int, *, shared_spots: bool = False
) -> Iterator[GeneratedGame]:
    """The games of a split one by one, without end."""
    if level not in LEVELS:
        raise UsageError(f"alfworld levels are {', '.join(map(str, LEVELS))}, not {level}")
    if split not in SIZES:
        raise UsageError(f"no split {split!r}; generated splits: {', '.join(SIZES)}")
    for index, (task_type, room, number) in enumerate(_turns(split, seed)):
        where = scene(room, number, level, seed, shared_spots)
        draw = random.Random(f"game/{split}/{level}/{seed}/{index}")
        yield _game(f"{split}-{index}", split, task_type, where, level, draw)


def _turns(split: str, seed: int) -> Iterator[tuple[str, str, int]]:
    """Types, rooms and scenes in turn."""
    orders = {name: numbers(room, split, seed) for name, room in ROOMS.items()}
    used: Counter[str] = Counter()
    round_ = 0
    while True:
        for task_type in TASK_TYPES:
            rooms = ROOMS_OF[task_type]
            room = rooms[round_ % len(rooms)]
            yield task_type, room, orders[room][used[room] % len(orders[room])]
            used[room] += 1
        round_ += 1


def _game(
    title: str, split: str, task_type: str, where: Scene, level: int, draw: random.Random
) -> GeneratedGame:
    errand = choose(task_type, where, level, draw)
    things = furnish(errand, where, level, draw)
    game: dict[str, Any] = {
        "pddl_domain": DOMAIN,
        "grammar": grammar(writer.sentence(errand, draw)),
        "pddl_problem": writer.problem(title, errand, where, things),
    }
    trial = f"trial_T{game_hash(game)}"
    return GeneratedGame(
        f"{split}/{writer.folder_name(errand, where)}/{trial}/{GAME_FILE}",
        {**game, "solvable": True},
        writer.trajectory(errand, where, trial, draw),
    )


def solve(game: dict[str, Any]) -> list[str]:
    """The expert's commands; `ValueError` for a game that is won at once or not within the limit.

    Generated games are solvable by construction, so this is never seen.
    """
    session = AlfworldSession(Game.from_json(game))
    plan: list[str] = []
    while not session.won and len(plan) < MOST_COMMANDS:
        plan.append(oracle.next_command(session))
        session.step(plan[-1])
    if not plan or not session.won:
        raise ValueError(f"a generated game is no game: won after {plan}: {session.won}")
    return plan
