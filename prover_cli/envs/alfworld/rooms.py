"""Scenes: rooms with their receptacles, each drawn once from its number, a level and a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from prover_cli.envs.alfworld.vocabulary import MAY_HOLD, OPENABLE, ROOMS, Room

SCENES_OF_A_ROOM = 30
HELD_OUT = frozenset({8, 10, 19, 23, 24})
"""Places among a room's scenes that only valid_unseen uses; the official ones are among them."""
_CELLS = tuple((x, z) for x in range(-12, 13) for z in range(-12, 13))
_HORIZONS = (-30, 0, 15, 30, 45, 60)
_MAY_SHARE = frozenset({"Cabinet", "Drawer"})


@dataclass(frozen=True)
class Level:
    """How large games are."""

    receptacles: tuple[int, int] | None
    """The fewest and the most in a room; None for as many as official rooms have."""
    of_a_kind: int
    share: int
    """Objects rarer than this (per cent of the official games) do not occur."""
    others: tuple[int, int] | None
    """The fewest and the most kinds beside the wanted one; None for each with its share."""
    copies: tuple[int, int]
    """The fewest and the most objects of each of these kinds."""
    hidden: float
    """How often wanted objects and their goals are behind doors, where there is a choice."""


LEVELS: Mapping[int, Level] = MappingProxyType(
    {
        1: Level((4, 6), 2, 85, (2, 4), (1, 1), 0.2),
        2: Level((10, 12), 3, 40, (7, 10), (1, 2), 0.5),
        3: Level(None, 30, 0, None, (0, 3), 0.7),
    }
)


@dataclass(frozen=True)
class Receptacle:
    """A receptacle and where one stands to use it."""

    kind: str
    name: str
    spot: str
    position: tuple[int, int, int]
    """In centimetres."""

    @property
    def is_openable(self) -> bool:
        return self.kind in OPENABLE


@dataclass(frozen=True)
class Scene:
    """A room without its loose objects."""

    room: Room
    number: int
    receptacles: tuple[Receptacle, ...]
    start: str
    """The spot where the agent begins, away from all receptacles."""

    @property
    def kinds(self) -> list[str]:
        return sorted({each.kind for each in self.receptacles})

    def holding(self, thing: str) -> list[Receptacle]:
        """The receptacles in which a kind of object may lie."""
        return [each for each in self.receptacles if thing in MAY_HOLD[each.kind]]


def numbers(room: Room, split: str, seed: int) -> list[int]:
    """The scene numbers of a split, in the order in which its games use them."""
    is_unseen = split == "valid_unseen"
    places = [place for place in range(1, SCENES_OF_A_ROOM + 1) if (place in HELD_OUT) == is_unseen]
    random.Random(f"order of scenes/{room.name}/{seed}").shuffle(places)
    return [room.first_scene - 1 + place for place in places]


@lru_cache(maxsize=1024)
def scene(room_name: str, number: int, level: int, seed: int, shared_spots: bool) -> Scene:
    """A scene; with `shared_spots` several of its cabinets or drawers are used from one place."""
    room = ROOMS[room_name]
    kinds = _kinds(room, number, level, seed)
    draw = random.Random(f"scene/{number}/{level}/{seed}")
    spots = _spots(len(kinds) + 1, draw)
    start = spots.pop()
    if shared_spots:
        _share(kinds, spots, draw)
    taken: set[str] = set()
    receptacles = tuple(
        _receptacle(kind, spot, draw, taken) for kind, spot in zip(kinds, spots, strict=True)
    )
    return Scene(room, number, receptacles, _spot_name(start))


def _kinds(room: Room, number: int, level: int, seed: int) -> tuple[str, ...]:
    """The receptacles of a scene; no unseen scene has just the same ones as a scene of train."""
    known = frozenset[tuple[str, ...]]()
    if number - room.first_scene + 1 in HELD_OUT:
        known = _kinds_of_train(room.name, level, seed)
    draw = random.Random(f"receptacles/{number}/{level}/{seed}")
    while True:
        kinds = tuple(sorted(_counts(room, LEVELS[level], draw).elements()))
        if kinds not in known:
            return kinds


@lru_cache(maxsize=64)
def _kinds_of_train(room_name: str, level: int, seed: int) -> frozenset[tuple[str, ...]]:
    room = ROOMS[room_name]
    return frozenset(_kinds(room, n, level, seed) for n in numbers(room, "train", seed))


def _counts(room: Room, level: Level, draw: random.Random) -> Counter[str]:
    counts = Counter(draw.choice(group) for group in room.core)
    most = {each.name: min(each.most, level.of_a_kind) for each in room.furniture}
    if level.receptacles is None:
        for each in room.furniture:
            if counts[each.name] or draw.random() * 100 < each.share:
                # Few of a kind are common, many are rare.
                more = int((each.most - each.least + 1) * draw.random() ** 2)
                counts[each.name] = each.least + more
        return counts
    wanted = draw.randint(*level.receptacles)
    while counts.total() < wanted:
        open_kinds = [each for each in room.furniture if counts[each.name] < most[each.name]]
        chosen = draw.choices(open_kinds, [each.share for each in open_kinds])[0]
        counts[chosen.name] += 1
    return counts


Spot = tuple[int, int, int, int]
"""Steps to the east and to the north, the direction looked in, and how far down."""


def _spots(n: int, draw: random.Random) -> list[Spot]:
    return [(x, z, draw.randrange(4), draw.choice(_HORIZONS)) for x, z in draw.sample(_CELLS, n)]


def _share(kinds: Sequence[str], spots: list[Spot], draw: random.Random) -> None:
    """Let about every second cabinet and drawer be used from where the one before it is."""
    for i in range(1, len(kinds)):
        if kinds[i] in _MAY_SHARE and kinds[i] == kinds[i - 1] and draw.random() < 0.5:
            spots[i] = spots[i - 1]


def _receptacle(kind: str, spot: Spot, draw: random.Random, taken: set[str]) -> Receptacle:
    x, z = 25 * spot[0], 25 * spot[1]
    while True:
        position = (x + draw.randint(-60, 60), draw.randint(5, 180), z + draw.randint(-60, 60))
        name = thing_name(kind, position)
        if name not in taken:
            taken.add(name)
            return Receptacle(kind, name, _spot_name(spot), position)


def thing_name(kind: str, position: tuple[int, int, int]) -> str:
    """The id of a thing in the official spelling; a basin is named as a part of its frame."""
    frame = kind.removesuffix("Basin")
    parts = [frame, *(f"{part / 100:+06.2f}" for part in position)]
    return _mangled([*parts, kind] if frame != kind else parts)


def _spot_name(spot: Spot) -> str:
    return _mangled(["loc", *map(str, spot)])


def _mangled(parts: Sequence[str]) -> str:
    """Parts of an id joined, without the characters that PDDL reserves."""
    return "_bar_".join(
        part.replace("-", "_minus_").replace("+", "_plus_").replace(".", "_dot_") for part in parts
    )
