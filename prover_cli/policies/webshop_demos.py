"""A shopper that errs.

It opens a wrong product and buys it, or sees that an option is missing and goes back, or clicks
what is not there, or forgets an option.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from prover_cli.envs.base import Observation, Task
from prover_cli.envs.webshop.environment import WebShopEnvironment
from prover_cli.envs.webshop.prompts import compact_reply
from prover_cli.envs.webshop.session import WebShopSession
from prover_cli.policies.demos import FIRST_SEED, Choice, Player


@dataclass(frozen=True)
class WebShopDemos:
    """Kinds of decisions are the kinds of pages, and `lacking`: an item without a wanted option."""

    wrong_product: float = 0.35
    """Per episode: opens a product that is not the goal's."""
    impossible_click: float = 0.5
    """In a product without a wanted option: clicks it all the same, once."""
    settles: float = 0.4
    """In such a product: buys it with what it has, instead of going back for the right one."""
    missed_option: float = 0.05
    """Per episode: forgets an option."""

    def world(self, seed: int) -> WebShopEnvironment:
        return WebShopEnvironment(catalogue_seed=seed, price_seed=seed - FIRST_SEED)

    def player(
        self, environment: WebShopEnvironment, task: Task, generator: random.Random
    ) -> Player:
        return _Shopper(environment, task, self, generator)

    def reply(self, action: str, observation: Observation) -> str:
        return compact_reply(action, observation)


class _Shopper:
    """The expert with this episode's errors."""

    def __init__(
        self,
        environment: WebShopEnvironment,
        task: Task,
        noise: WebShopDemos,
        generator: random.Random,
    ) -> None:
        self._environment, self._task, self._generator = environment, task, generator
        self._strays = generator.random() < noise.wrong_product
        self._clicks_impossible = generator.random() < noise.impossible_click
        self._settles = generator.random() < noise.settles
        wanted = task.payload["options"]
        forgets = wanted and generator.random() < noise.missed_option
        self._forgotten = generator.choice(wanted) if forgets else None

    def choose(self, session: WebShopSession) -> Choice:
        kind = session.state.kind
        if kind == "item":
            lacking = self._lacking(session)
            return Choice(self._in_item(session, lacking), "lacking" if lacking else kind)
        if kind == "results" and self._strays:
            self._strays = False
            return Choice(self._stray(session), kind)
        return Choice(self._environment.expert(self._task, session), kind)

    def _lacking(self, session: WebShopSession) -> list[str]:
        """The wanted option values that the open product does not have."""
        offered = {value for values in self._offered(session).values() for value in values}
        return [value for value in self._task.payload["options"] if value not in offered]

    def _stray(self, session: WebShopSession) -> str:
        right = self._environment.expert(self._task, session)
        others = [f"click[{product.asin.lower()}]" for product in session.page.listed()]
        return self._generator.choice([other for other in others if other != right] or [right])

    def _in_item(self, session: WebShopSession, lacking: list[str]) -> str:
        if lacking and self._clicks_impossible:
            self._clicks_impossible = False
            return f"click[{lacking[0]}]"
        if lacking and not self._settles:
            return "click[< prev]"
        for name, values in self._offered(session).items():
            for value in values:
                wanted = value in self._task.payload["options"] and value != self._forgotten
                if wanted and session.state.options.get(name) != value:
                    return f"click[{value}]"
        return "click[buy now]"

    def _offered(self, session: WebShopSession) -> Mapping[str, tuple[str, ...]]:
        asin = session.state.asin
        assert asin is not None
        return self._environment.shop.product(asin).options
