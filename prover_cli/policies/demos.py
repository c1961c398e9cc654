"""Noisy expert demonstrations of WebShop in the compact prompt style.

The expert is right nearly always; a policy that copied it would leave nothing to learn from. So it
errs here: it opens a wrong product and buys it, or sees that an option is missing and goes back, or
clicks what is not there, or forgets an option.
Catalogues for demonstrations are generated from seeds of their own: no product, goal or price of
the environment's splits is ever shown.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prover_cli.envs.base import Message, PastTurn, Task
from prover_cli.envs.webshop.environment import WebShopEnvironment
from prover_cli.envs.webshop.prompts import compact_reply
from prover_cli.envs.webshop.session import WebShopSession

FIRST_CATALOGUE_SEED = 1000


@dataclass(frozen=True)
class Noise:
    """Chances of each error."""

    wrong_product: float = 0.35
    """Per episode: opens a product that is not the goal's."""
    impossible_click: float = 0.5
    """In a product without a wanted option: clicks it all the same, once."""
    settles: float = 0.4
    """In such a product: buys it with what it has, instead of going back for the right one."""
    missed_option: float = 0.05
    """Per episode: forgets an option."""


@dataclass(frozen=True)
class Demo:
    """One turn: what the policy is shown, what it should reply, and the kind of page (`lacking`:
    an item without a wanted option)."""

    messages: tuple[Message, ...]
    reply: str
    kind: str


def demonstrations(n_catalogues: int, noise: Noise, seed: int) -> Iterator[Demo]:
    """Demonstrations of every goal of `n_catalogues` catalogues."""
    for number in range(n_catalogues):
        environment = WebShopEnvironment(
            catalogue_seed=FIRST_CATALOGUE_SEED + number, price_seed=number
        )
        for task in environment.tasks("all"):
            yield from _episode(environment, task, noise, random.Random(f"{seed}/{task.task_id}"))


def _episode(
    environment: WebShopEnvironment, task: Task, noise: Noise, generator: random.Random
) -> Iterator[Demo]:
    session = environment.start(task, 0)
    style = environment.prompts["compact"]
    shopper = _Shopper(environment, task, noise, generator)
    past: list[PastTurn] = []
    for _ in range(environment.max_turns):
        observation = session.observe()
        action = shopper.act(session)
        reply = compact_reply(action, observation)
        shown = style.window(task, past[-1:], observation)
        kind = observation.page["kind"]
        lacking = kind == "item" and shopper.lacks(session)
        yield Demo(tuple(shown), reply, "lacking" if lacking else kind)
        past.append(PastTurn(observation.text, reply, action))
        if session.step(action).done:
            return


class _Shopper:
    """The expert with this episode's errors."""

    def __init__(
        self, environment: WebShopEnvironment, task: Task, noise: Noise, generator: random.Random
    ) -> None:
        self._environment, self._task, self._generator = environment, task, generator
        self._strays = generator.random() < noise.wrong_product
        self._clicks_impossible = generator.random() < noise.impossible_click
        self._settles = generator.random() < noise.settles
        wanted = task.payload["options"]
        forgets = wanted and generator.random() < noise.missed_option
        self._forgotten = generator.choice(wanted) if forgets else None

    def act(self, session: WebShopSession) -> str:
        kind = session.state.kind
        if kind == "results" and self._strays:
            self._strays = False
            return self._stray(session)
        if kind == "item":
            return self._in_item(session)
        return self._environment.expert(self._task, session)

    def lacks(self, session: WebShopSession) -> list[str]:
        """The wanted option values that the open product does not have."""
        offered = {value for values in self._offered(session).values() for value in values}
        return [value for value in self._task.payload["options"] if value not in offered]

    def _stray(self, session: WebShopSession) -> str:
        right = self._environment.expert(self._task, session)
        others = [f"click[{product.asin.lower()}]" for product in session.page.listed()]
        return self._generator.choice([other for other in others if other != right] or [right])

    def _in_item(self, session: WebShopSession) -> str:
        lacking = self.lacks(session)
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
