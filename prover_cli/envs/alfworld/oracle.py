"""An expert with full knowledge: the next command on a way to the goal, from any state.

It reads from the goal what has to lie where, in what condition, or be looked at under which lamp.
Every choice is for the fewest commands, and among equals for the first in the order of ids, so
that a choice stands until it is carried out: the commands left become fewer with every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prover_cli.envs.alfworld import rules
from prover_cli.envs.alfworld.facts import Facts
from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.errors import UsageError


class NoPlanError(UsageError):
    """The expert knows no way to the goal; the message says why."""


@dataclass(frozen=True)
class Wish:
    """What the goal asks for."""

    thing: int
    """The type of the objects."""
    n: int
    receptacle: int | None
    """The type of the receptacle to put them in; None where one is to be looked at in light."""
    treatment: str | None
    """The action that has to be done to them first."""
    lamp: int | None


def next_command(session: AlfworldSession) -> str:
    """The next command; `NoPlanError` where there is none, also where the goal is reached."""
    if session.won:
        raise NoPlanError("the goal is reached: there is nothing left to do")
    command = session.game.command(_Planner(session.game, session.facts).move())
    if command not in session.possible:
        raise NoPlanError(f"the expert would {command}, which is not possible here")
    return command


def wish(game: Game) -> Wish:
    """The goal in the expert's terms; `NoPlanError` for a goal of another kind."""
    atoms, number = game.goal_source.atoms, game.number
    things = {a[1]: a[2] for a in atoms if a[0] == "objecttype"}
    places = {a[2] for a in atoms if a[0] == "receptacletype"}
    lamps = {a[1] for a in atoms if a[0] == "istoggled"}
    wanted = {kind for variable, kind in things.items() if variable not in lamps}
    done = [name for name, (_, becomes, _) in rules.TREATMENTS.items() if _asks(game, becomes)]
    known = len(wanted) == 1 and len(done) <= 1 and len(lamps) <= 1 and not game.goal_source.never
    if not known or (len(places) != 1 and not lamps):
        raise NoPlanError("the goal is of a kind that the expert does not know")
    (kind,) = wanted
    return Wish(
        thing=number.get(kind, -1),
        n=sum(variable not in lamps for variable in things),
        receptacle=None if lamps else number.get(places.pop(), -1),
        treatment=done[0] if done else None,
        lamp=number.get(things.get(lamps.pop(), ""), -1) if lamps else None,
    )


def _asks(game: Game, name: str) -> bool:
    return any(atom[0] == name for atom in game.goal_source.atoms)


class _Planner:
    """One decision. The methods return the next move towards what their name says."""

    def __init__(self, game: Game, facts: Facts) -> None:
        self._game, self._facts, self._wish = game, facts, wish(game)
        self._spot = rules.place(game, facts)
        self._held = rules.in_hand(game, facts)

    def move(self) -> rules.Move:
        if self._held is not None and not self._is_wanted(self._held):
            return self._put_down(self._held)
        if self._wish.receptacle is None:
            return self._look_in_light()
        return self._bring()

    def _bring(self) -> rules.Move:
        """Get an object that is missing, treat it, put it where it belongs."""
        goals = self._destinations()
        inside = {r: self._wanted_in(r) for r in goals}
        fullest = max(map(len, inside.values()))
        begun = [r for r in goals if len(inside[r]) == fullest] if self._wish.n > 1 else goals
        # With one of two in place, the receptacle must not change with where the agent stands.
        fixed = begun[0] if self._wish.n > 1 and fullest else None
        if self._held is None:
            settled = set(inside[fixed]) if fixed is not None else set[int]()
            return self._fetch(settled)
        treatment = self._wish.treatment
        if treatment is not None and not self._is_treated(self._held):
            return self._treat(self._held, treatment)
        target = fixed if fixed is not None else self._nearest(begun)
        return self._put(self._held, target)

    def _destinations(self) -> list[int]:
        found = [
            r
            for r in self._facts.firsts("receptacletype", self._wish.receptacle or 0)
            if self._takes_wanted(r) and self._is_placed(r)
        ]
        if not found:
            raise NoPlanError("no receptacle of the wanted type takes the object")
        return found

    def _look_in_light(self) -> rules.Move:
        if self._held is None:
            return self._fetch(set())
        lamps = [
            (r, lamp)
            for lamp in self._facts.firsts("objecttype", self._wish.lamp or 0)
            if lamp in self._facts.members("toggleable")
            for r in self._facts.seconds("inreceptacle", lamp)
            if self._is_placed(r)
        ]
        if not lamps:
            raise NoPlanError("no lamp of the wanted type stands in a receptacle")
        lit = self._facts.members("istoggled")
        r, lamp = min(
            lamps, key=lambda pair: (self._distance(pair[0]) + (pair[1] not in lit), pair)
        )
        if not self._is_here(r):
            return self._go(r)
        return "toggleobject", (self._game.agent, self._spot, lamp, r)

    def _fetch(self, settled: Iterable[int]) -> rules.Move:
        """Take the wanted object that costs least, not one that lies where it should stay."""
        sources = [
            (self._reach(r) + (self._wish.treatment is not None and not self._is_treated(o)), o, r)
            for o in sorted(self._wanted() - set(settled))
            if o in self._facts.members("pickupable")
            for r in self._facts.seconds("inreceptacle", o)
            if self._is_placed(r)
        ]
        if not sources:
            raise NoPlanError("no object of the wanted type and condition can be taken")
        _, o, r = min(sources)
        return self._access(r) or ("pickupobject", (self._game.agent, self._spot, o, r))

    def _treat(self, thing: int, treatment: str) -> rules.Move:
        stations = [
            r
            for kind in sorted(self._game.types[treatment])
            for r in self._facts.firsts("receptacletype", kind)
            if self._is_placed(r)
        ]
        if not stations:
            raise NoPlanError(f"there is no place for {treatment}")
        r = self._nearest(stations, self._distance)
        if not self._is_here(r):
            return self._go(r)
        return treatment, (self._game.agent, self._spot, r, thing)

    def _put_down(self, thing: int) -> rules.Move:
        """Put away what is in the way."""
        places = [r for r in self._game.receptacles if rules.accepts(self._facts, r, thing)]
        if not places:
            raise NoPlanError(f"nothing takes the {self._game.names[thing]} in the hand")
        return self._put(thing, self._nearest(places))

    def _put(self, thing: int, receptacle: int) -> rules.Move:
        step = self._access(receptacle)
        if step is not None:
            return step
        facts = self._facts
        pairs = (
            (ot, rt)
            for rt in facts.seconds("receptacletype", receptacle)
            for ot in facts.seconds("objecttype", thing)
            if facts.holds("cancontain", rt, ot)
        )
        return "putobject", (self._game.agent, self._spot, thing, receptacle, *next(pairs))

    def _access(self, receptacle: int) -> rules.Move | None:
        """Go to a receptacle and open it; None when that is done."""
        if not self._is_here(receptacle):
            return self._go(receptacle)
        if not rules.accessible(self._facts, receptacle):
            return "openobject", (self._game.agent, self._spot, receptacle)
        return None

    def _go(self, receptacle: int) -> rules.Move:
        there = self._facts.seconds("receptacleatlocation", receptacle)[0]
        return "gotolocation", (self._game.agent, self._spot, there, receptacle)

    def _nearest(self, receptacles: Iterable[int], cost: Callable[[int], int] | None = None) -> int:
        measure = cost or self._reach
        return min(receptacles, key=lambda r: (measure(r), r))

    def _distance(self, receptacle: int) -> int:
        return 0 if self._is_here(receptacle) else 1

    def _reach(self, receptacle: int) -> int:
        return self._distance(receptacle) + (not rules.accessible(self._facts, receptacle))

    def _is_here(self, receptacle: int) -> bool:
        return self._facts.holds("receptacleatlocation", receptacle, self._spot)

    def _is_placed(self, receptacle: int) -> bool:
        return bool(self._facts.seconds("receptacleatlocation", receptacle))

    def _wanted(self) -> set[int]:
        """Objects of the wanted type that can be brought into the wanted condition."""
        things = set(self._facts.firsts("objecttype", self._wish.thing))
        if self._wish.treatment is not None:
            things &= self._facts.members(rules.TREATMENTS[self._wish.treatment][0])
        return things

    def _is_wanted(self, thing: int) -> bool:
        return thing in self._wanted()

    def _wanted_in(self, receptacle: int) -> set[int]:
        return self._wanted().intersection(self._facts.firsts("inreceptacle", receptacle))

    def _is_treated(self, thing: int) -> bool:
        treatment = self._wish.treatment
        return treatment is None or thing in self._facts.members(rules.TREATMENTS[treatment][1])

    def _takes_wanted(self, receptacle: int) -> bool:
        kinds = self._facts.seconds("receptacletype", receptacle)
        return any(self._facts.holds("cancontain", kind, self._wish.thing) for kind in kinds)
