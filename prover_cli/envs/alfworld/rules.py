"""What can be done, and what it changes.

The rules of ALFWorld's domain, as its planner understands them rather than as it was meant: an
object can be examined only in the hand; heating, cooling and cleaning work through closed doors;
nothing is ever switched off; what is on two receptacles at once stays on the other when taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from prover_cli.envs.alfworld.facts import Facts

if TYPE_CHECKING:
    from prover_cli.envs.alfworld.game import Game

Move = tuple[str, tuple[int, ...]]
"""An action and the values of its parameters."""

PARAMETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "look": ("a", "l"),
        "inventory": ("a",),
        "help": ("a",),
        "examinereceptacle": ("a", "r"),
        "examineobject": ("a", "o"),
        "gotolocation": ("a", "lstart", "lend", "r"),
        "openobject": ("a", "l", "r"),
        "closeobject": ("a", "l", "r"),
        "pickupobject": ("a", "l", "o", "r"),
        "putobject": ("a", "l", "o", "r", "ot", "rt"),
        "cleanobject": ("a", "l", "r", "o"),
        "heatobject": ("a", "l", "r", "o"),
        "coolobject": ("a", "l", "r", "o"),
        "toggleobject": ("a", "l", "o", "r"),
        "sliceobject": ("a", "l", "co", "ko"),
    }
)
"""The names under which an action's feedback knows its parameters."""

DYNAMIC = frozenset(
    "atlocation inreceptacle objectatlocation holds holdsany opened"
    " isclean ishot iscool istoggled issliced".split()
)
"""Predicates whose facts change in play; marks (`not_...`) come on top."""

TREATMENTS: Mapping[str, tuple[str, str, str | None]] = MappingProxyType(
    {
        "cleanobject": ("cleanable", "isclean", None),
        "heatobject": ("heatable", "ishot", "iscool"),
        "coolobject": ("coolable", "iscool", "ishot"),
    }
)
"""Action -> what an object must be for it, what it becomes, and what it ceases to be."""


def accessible(facts: Facts, receptacle: int) -> bool:
    """Whether things can be put into and taken from a receptacle."""
    return receptacle not in facts.members("openable") or receptacle in facts.members("opened")


def place(game: Game, facts: Facts) -> int:
    """The agent's location."""
    return facts.seconds("atlocation", game.agent)[0]


def in_hand(game: Game, facts: Facts) -> int | None:
    """The object the agent holds."""
    held = facts.seconds("holds", game.agent)
    return held[0] if held else None


def qualities(facts: Facts, thing: int) -> list[str]:
    """In what ways an object was changed, in words."""
    words = (("ishot", "hot"), ("iscool", "cool"), ("isclean", "clean"), ("issliced", "sliced"))
    return [word for name, word in words if thing in facts.members(name)]


def possible(game: Game, facts: Facts) -> dict[str, Move]:
    """Every command that works now, with the move it stands for."""
    a, spot, held = game.agent, place(game, facts), in_hand(game, facts)
    moves: list[Move] = []
    if held is not None:
        moves.append(("examineobject", (a, held)))
        _add_cuts(game, facts, held, spot, moves)
    openable, opened = facts.members("openable"), facts.members("opened")
    toggleable = facts.members("toggleable")
    for r in facts.firsts("receptacleatlocation", spot):
        moves.append(("examinereceptacle", (a, r)))
        is_open = r in opened
        if r in openable:
            moves.append(("closeobject" if is_open else "openobject", (a, spot, r)))
        inside = facts.firsts("inreceptacle", r)
        for o in toggleable.intersection(inside):
            moves.append(("toggleobject", (a, spot, o, r)))
        if held is not None:
            _add_uses(game, facts, held, (spot, r), moves)
        if is_open or r not in openable:
            if held is not None:
                _add_puts(game, facts, held, (spot, r), moves)
            else:
                takeable = facts.members("pickupable").intersection(inside)
                moves += [("pickupobject", (a, spot, o, r)) for o in takeable]
    commands = dict(game.journeys(spot))
    command = game.command
    for move in moves:
        commands.setdefault(command(move), move)
    return commands


def _add_cuts(game: Game, facts: Facts, held: int, spot: int, moves: list[Move]) -> None:
    if game.types["sliceobject"].intersection(facts.seconds("objecttype", held)):
        sliceable = facts.members("sliceable").intersection(facts.firsts("objectatlocation", spot))
        moves += [("sliceobject", (game.agent, spot, o, held)) for o in sliceable]


def _add_uses(
    game: Game, facts: Facts, held: int, where: tuple[int, int], moves: list[Move]
) -> None:
    spot, r = where
    kinds = facts.seconds("receptacletype", r)
    for name, (able, _, _) in TREATMENTS.items():
        if game.types[name].intersection(kinds) and held in facts.members(able):
            moves.append((name, (game.agent, spot, r, held)))


def _add_puts(
    game: Game, facts: Facts, held: int, where: tuple[int, int], moves: list[Move]
) -> None:
    spot, r = where
    for rt in facts.seconds("receptacletype", r):
        for ot in facts.seconds("objecttype", held):
            if facts.holds("cancontain", rt, ot):
                moves.append(("putobject", (game.agent, spot, held, r, ot, rt)))


def accepts(facts: Facts, receptacle: int, thing: int) -> bool:
    """Whether a receptacle is of a type that may hold the object."""
    types = facts.seconds("objecttype", thing)
    return any(
        facts.holds("cancontain", rt, ot)
        for rt in facts.seconds("receptacletype", receptacle)
        for ot in types
    )


def apply(facts: Facts, move: Move) -> None:
    """Change the facts as a move does."""
    name, values = move
    a = values[0] if values else 0
    if name == "gotolocation":
        facts.drop("atlocation", a, values[1])
        facts.add("atlocation", a, values[2])
    elif name == "openobject":
        facts.add("opened", values[2])
    elif name == "closeobject":
        facts.drop("opened", values[2])
    elif name == "pickupobject":
        _, spot, o, r = values
        facts.drop("inreceptacle", o, r)
        facts.drop("objectatlocation", o, spot)
        facts.add("holds", a, o)
        facts.add("holdsany", a)
    elif name == "putobject":
        _, spot, o, r, _, _ = values
        facts.add("inreceptacle", o, r)
        facts.add("objectatlocation", o, spot)
        facts.drop("holds", a, o)
        facts.drop("holdsany", a)
    elif name == "toggleobject":
        facts.add("istoggled", values[2])
    elif name == "sliceobject":
        facts.add("issliced", values[2])
    elif name in TREATMENTS:
        _, becomes, ceases = TREATMENTS[name]
        facts.add(becomes, values[3])
        if ceases is not None:
            facts.drop(ceases, values[3])
