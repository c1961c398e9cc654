"""A housekeeper that searches, and errs.

The environment's expert knows where everything lies; a policy cannot. This one acts only on what
the compact prompt shows: it visits places that it has not looked into, first those where such
things may lie, until it sees what it needs. It errs by walking elsewhere, by taking what is not
there or not wanted, and by forgetting to clean, heat or cool.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prover_cli.envs.alfworld.environment import AlfworldEnvironment
from prover_cli.envs.alfworld.oracle import wish
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.envs.alfworld.vocabulary import LAMP, LAMP_STANDS, MAY_HOLD
from prover_cli.envs.base import Observation, Task
from prover_cli.policies.demos import Choice, Player

_TREATMENTS = {
    "cleanobject": ("clean", "clean"),
    "heatobject": ("heat", "hot"),
    "coolobject": ("cool", "cool"),
}
"""Treatment -> its verb, and how a treated object is called."""
_LIKELY = {kind.lower(): {thing.lower() for thing in things} for kind, things in MAY_HOLD.items()}


@dataclass(frozen=True)
class AlfworldDemos:
    """Kinds of decisions: `search` and `carry` (walks and doors), `take`, `use`, `put`."""

    detour: float = 0.2
    """Per walk: goes to any other place."""
    absent_object: float = 0.15
    """Per place where the object is not seen: tries to take it all the same."""
    wrong_object: float = 0.3
    """Per episode: takes something that is not wanted, and puts it back."""
    forgotten_treatment: float = 0.4
    """Per episode: brings the object untreated, and only then begins again."""

    def world(self, seed: int) -> AlfworldEnvironment:
        return AlfworldEnvironment(seed=seed)

    def player(
        self, environment: AlfworldEnvironment, task: Task, generator: random.Random
    ) -> Player:
        return Housekeeper(environment.start(task, 0), self, generator)

    def reply(self, action: str, observation: Observation) -> str:
        return action


class Housekeeper:
    """The searching expert with this episode's errors."""

    def __init__(
        self, begun: AlfworldSession, noise: AlfworldDemos, generator: random.Random
    ) -> None:
        self._noise, self._generator = noise, generator
        self._grabs = self._errs(noise.wrong_object)
        self._forgets = self._errs(noise.forgotten_treatment)
        game, facts, goal = begun.game, begun.facts, wish(begun.game)

        def names(relation: str, kinds: Iterable[int | None]) -> list[str]:
            found = {o for kind in kinds if kind is not None for o in facts.firsts(relation, kind)}
            return sorted((game.names[one] for one in found), key=_order)

        self._wanted = names("objecttype", [goal.thing])
        self._lamps = names("objecttype", [goal.lamp])
        self._goals = names("receptacletype", [goal.receptacle])
        self._treatment = goal.treatment
        self._stations = names("receptacletype", sorted(game.types.get(goal.treatment or "", ())))
        self._several = goal.n > 1

    def choose(self, session: AlfworldSession) -> Choice:
        page = session.observe().page
        if page["holding"] is None:
            return self._find(page, session.admissible)
        if page["holding"] not in self._wanted:
            return Choice(f"move {page['holding']} to {page['at']}", "put")
        if self._lamps:
            return self._light(page)
        return self._bring(page)

    def _find(self, page: Mapping[str, Any], possible: Iterable[str]) -> Choice:
        """Look for the object; one of several that lies where it belongs is left there."""
        here = page["at"]
        if page["closed"] and here not in page["seen"]:
            return Choice(f"open {here}", "search")
        settled = self._several and here in self._goals
        takes = [command for command in possible if command.startswith("take ")]
        right = [f"take {thing} from {here}" for thing in self._wanted]
        if not settled and (found := [command for command in right if command in takes]):
            return Choice(found[0], "take")
        if takes and self._grabs and not settled:
            self._grabs = False
            return Choice(self._generator.choice(takes), "take")
        if here is not None and self._errs(self._noise.absent_object):
            return Choice(right[0], "take")
        return self._search(page, _kind(self._wanted[0]))

    def _light(self, page: Mapping[str, Any]) -> Choice:
        """Look for a lamp and use it."""
        here = page["at"]
        for lamp in self._lamps:
            if lamp in (page["things"] or ()):
                return Choice(f"use {lamp}", "use")
        if page["closed"] and here not in page["seen"]:
            return Choice(f"open {here}", "search")
        return self._search(page, LAMP.lower())

    def _bring(self, page: Mapping[str, Any]) -> Choice:
        """Treat the object in the hand and put it where it belongs."""
        here, held, goal = page["at"], page["holding"], self._goals[0]
        verb, treated = _TREATMENTS.get(self._treatment or "", ("", ""))
        if verb and treated not in page["held_is"] and not self._forgets:
            if here in self._stations:
                return Choice(f"{verb} {held} with {here}", "use")
            return self._go(page, self._stations[0], "carry")
        if here != goal:
            return self._go(page, goal, "carry")
        if page["closed"]:
            return Choice(f"open {goal}", "carry")
        self._forgets = False
        return Choice(f"move {held} to {goal}", "put")

    def _search(self, page: Mapping[str, Any], thing: str) -> Choice:
        """Go to the first likely place that was not looked into; after all, around once more."""
        places = sorted(page["places"], key=_order)
        likely = [place for place in places if _may_hold(_kind(place), thing)]
        is_new = [place for place in [*likely, *places] if place not in page["seen"]]
        around = [place for place in likely or places if place != page["at"]] or places
        here = _order(page["at"]) if page["at"] else ("", 0)
        after = [place for place in around if _order(place) > here]
        return self._go(page, [*is_new, *after, *around][0], "search")

    def _errs(self, chance: float) -> bool:
        return self._generator.random() < chance

    def _go(self, page: Mapping[str, Any], place: str, kind: str) -> Choice:
        if self._errs(self._noise.detour):
            place = self._generator.choice(page["places"])
        if place == page["at"]:
            return Choice(f"examine {place}", kind)
        return Choice(f"go to {place}", kind)


def _may_hold(place: str, thing: str) -> bool:
    if thing == LAMP.lower():
        return place in {stand.lower() for stand in LAMP_STANDS}
    return thing in _LIKELY.get(place, ())


def _kind(name: str) -> str:
    return name.rpartition(" ")[0]


def _order(name: str) -> tuple[str, int]:
    """The order in which the prompt lists places."""
    kind, _, number = name.rpartition(" ")
    return kind, int(number)
