"""Noisy expert demonstrations of WebShop in the compact prompt style.

The expert is right nearly always; a policy that copied it would leave nothing to learn from. So it
errs here: it takes a wrong product and buys it, or notices and goes back, or forgets an option.
Catalogues for demonstrations are generated from seeds of their own: no product, goal or price of
the environment's splits is ever shown.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from prover_cli.envs.base import Message, PastTurn, Task
from prover_cli.envs.webshop.environment import WebShopEnvironment
from prover_cli.envs.webshop.prompts import compact_reply
from prover_cli.envs.webshop.session import WebShopSession

FIRST_CATALOGUE_SEED = 1000


@dataclass(frozen=True)
class Noise:
    """Chances per episode of each error."""

    wrong_product: float = 0.15
    wrong_then_back: float = 0.10
    missed_option: float = 0.07


@dataclass(frozen=True)
class Demo:
    """One turn: what the policy is shown, what it should reply, and the kind of page."""

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
        yield Demo(tuple(shown), reply, observation.page["kind"])
        past.append(PastTurn(observation.text, reply, action))
        if session.step(action).done:
            return


class _Shopper:
    """The expert with this episode's errors."""

    def __init__(
        self, environment: WebShopEnvironment, task: Task, noise: Noise, generator: random.Random
    ) -> None:
        self._environment, self._task, self._generator = environment, task, generator
        draw = generator.random()
        self._buys_wrong = draw < noise.wrong_product
        self._tries_wrong = draw < noise.wrong_product + noise.wrong_then_back
        self._forgets = generator.random() < noise.missed_option

    def act(self, session: WebShopSession) -> str:
        action = self._environment.expert(self._task, session)
        state = session.state
        if state.kind == "results" and self._tries_wrong:
            return self._wrong_product(session, action)
        if action == "click[< prev]" and state.kind == "item" and self._buys_wrong:
            action = self._settle(session)
        if self._forgets and state.kind == "item" and action.startswith("click["):
            values = {v for vs in self._options(session).values() for v in vs}
            if action[6:-1] in values:
                self._forgets = False
                return self._next_after(session, action)
        return action

    def _wrong_product(self, session: WebShopSession, action: str) -> str:
        others = [f"click[{product.asin.lower()}]" for product in session.page.listed()]
        others = [other for other in others if other != action]
        self._tries_wrong = False
        return self._generator.choice(others) if others else action

    def _settle(self, session: WebShopSession) -> str:
        """In a wrong item: choose what can be chosen, then buy."""
        wanted = set(self._task.payload["options"])
        for name, values in self._options(session).items():
            for value in values:
                if value in wanted and session.state.options.get(name) != value:
                    return f"click[{value}]"
        return "click[buy now]"

    def _next_after(self, session: WebShopSession, forgotten: str) -> str:
        """What follows when one value is forgotten: another wanted value, or the purchase."""
        wanted = set(self._task.payload["options"]) - {forgotten[6:-1]}
        chosen = set(session.state.options.values())
        for values in self._options(session).values():
            for value in values:
                if value in wanted - chosen:
                    self._forgets = True
                    return f"click[{value}]"
        return "click[buy now]"

    def _options(self, session: WebShopSession) -> dict[str, tuple[str, ...]]:
        asin = session.state.asin
        assert asin is not None
        return dict(self._environment.shop.by_asin[asin].options)
