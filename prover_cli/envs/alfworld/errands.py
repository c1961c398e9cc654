"""What a generated game asks for, and where its objects lie at first."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from prover_cli.envs.alfworld.rooms import LEVELS, Receptacle, Scene, thing_name
from prover_cli.envs.alfworld.vocabulary import LAMP, LAMP_STANDS, MAY_HOLD, OPENABLE, PROPERTIES

LIGHT, TWO = "look_at_obj_in_light", "pick_two_obj_and_place"
STATIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "pick_clean_then_place_in_recep": ("SinkBasin", "cleanable"),
        "pick_heat_then_place_in_recep": ("Microwave", "heatable"),
        "pick_cool_then_place_in_recep": ("Fridge", "coolable"),
    }
)
"""Task type -> where the object is treated, and what it must be for that."""
_ANYWHERE = ("kitchen", "living room", "bedroom", "bathroom")
ROOMS_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "pick_and_place_simple": _ANYWHERE,
        LIGHT: ("living room", "bedroom"),
        "pick_clean_then_place_in_recep": ("kitchen", "bathroom"),
        "pick_heat_then_place_in_recep": ("kitchen",),
        "pick_cool_then_place_in_recep": ("kitchen",),
        TWO: _ANYWHERE,
    }
)
"""Task type -> the kinds of rooms in which it occurs."""


@dataclass(frozen=True)
class Errand:
    """Bring a kind of object to a kind of receptacle, or look at it under a lamp."""

    task_type: str
    thing: str
    place: str

    @property
    def needed(self) -> int:
        """How many objects of the kind it takes."""
        return 2 if self.task_type == TWO else 1

    def sources(self, scene: Scene) -> list[Receptacle]:
        """Where the objects may lie at first: never where they belong."""
        return [each for each in scene.holding(self.thing) if each.kind != self.place]


@dataclass(frozen=True)
class Thing:
    """An object and the receptacle it lies in."""

    kind: str
    name: str
    receptacle: Receptacle


def choose(task_type: str, scene: Scene, level: int, draw: random.Random) -> Errand:
    """An errand of a type that can be done in a scene."""
    things = _common(scene, level)
    draw.shuffle(things)
    by_thing = (_errands(task_type, thing, scene) for thing in things)
    errands = next(each for each in by_thing if each)
    is_behind_doors = draw.random() < LEVELS[level].hidden
    preferred = [each for each in errands if (each.place in OPENABLE) == is_behind_doors]
    return draw.choice(preferred or errands)


def _common(scene: Scene, level: int) -> list[str]:
    """The kinds of objects of a scene at a level."""
    shares = scene.room.objects
    return [kind for kind in shares if shares[kind] >= LEVELS[level].share and scene.holding(kind)]


def _errands(task_type: str, thing: str, scene: Scene) -> list[Errand]:
    if task_type == LIGHT:
        return [Errand(task_type, thing, LAMP)]
    station, able = STATIONS.get(task_type, ("", ""))
    if able and thing not in PROPERTIES[able]:
        return []
    places = [kind for kind in scene.kinds if kind != station and thing in MAY_HOLD[kind]]
    errands = (Errand(task_type, thing, place) for place in places)
    return [errand for errand in errands if errand.sources(scene)]


def furnish(errand: Errand, scene: Scene, level: int, draw: random.Random) -> list[Thing]:
    """The objects of a game: those the errand needs, some more of them, and others."""
    size = LEVELS[level]
    n_wanted = max(errand.needed, draw.randint(1, max(1, size.copies[1])))
    counts = {errand.thing: n_wanted}
    for kind in _others(errand, scene, level, draw):
        counts[kind] = draw.randint(*size.copies)
    things: dict[str, Thing] = {}
    for kind in sorted(counts):
        for _ in range(counts[kind]):
            is_wanted = kind == errand.thing
            places = _sources(errand, scene, level, draw) if is_wanted else scene.holding(kind)
            _add(things, kind, draw.choice(places), draw)
    if errand.place == LAMP or draw.random() * 100 < scene.room.lamp:
        stands = [each for each in scene.receptacles if each.kind in LAMP_STANDS]
        weights = [LAMP_STANDS[each.kind] for each in stands]
        _add(things, LAMP, draw.choices(stands, weights)[0], draw)
    return [things[name] for name in sorted(things)]


def _sources(errand: Errand, scene: Scene, level: int, draw: random.Random) -> list[Receptacle]:
    """Where one of the wanted objects may lie: behind doors, or not."""
    is_hidden = draw.random() < LEVELS[level].hidden
    places = errand.sources(scene)
    return [each for each in places if each.is_openable == is_hidden] or places


def _others(errand: Errand, scene: Scene, level: int, draw: random.Random) -> Sequence[str]:
    size, shares = LEVELS[level], scene.room.objects
    known = [kind for kind in _common(scene, level) if kind != errand.thing]
    if size.others is None:
        return [kind for kind in known if draw.random() * 100 < shares[kind]]
    return draw.sample(known, min(len(known), draw.randint(*size.others)))


def _add(things: dict[str, Thing], kind: str, place: Receptacle, draw: random.Random) -> None:
    x, y, z = place.position
    while True:
        position = x + draw.randint(-25, 25), y + draw.randint(0, 15), z + draw.randint(-25, 25)
        name = thing_name(kind, position)
        if name not in things:
            things[name] = Thing(kind, name, place)
            return
