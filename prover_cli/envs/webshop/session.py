"""One shopping episode: WebShop's state machine."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

from prover_cli.envs.base import Observation, StepResult
from prover_cli.envs.webshop.goals import Goal
from prover_cli.envs.webshop.pages import SUB_PAGES, PageState, PageView
from prover_cli.envs.webshop.world import Shop
from prover_cli.ids import digest

_ACTION = re.compile(r"(.+)\[(.+)\]")


class WebShopSession:
    """A visit to the shop with one goal. Deterministic: there is nothing to reseed."""

    def __init__(
        self, shop: Shop, goal: Goal, rich: bool, show_attributes: bool, state: PageState
    ) -> None:
        self._shop, self._goal, self._state = shop, goal, state
        self._rich = rich
        self._page = PageView(shop, goal.text, state, show_attributes)

    @property
    def state(self) -> PageState:
        """The dynamic state; read it, do not change it."""
        return self._state

    @property
    def page(self) -> PageView:
        return self._page

    def observe(self) -> Observation:
        return Observation(
            text=self._page.rich() if self._rich else self._page.text(),
            state_key=self._state_key(),
            admissible=tuple(f"click[{label}]" for label in self._page.clickables()),
            page=self._page.structure(),
        )

    def _state_key(self) -> str:
        """Equal for states with equal futures.

        Searches that find the same are one state, and so are choices made in another order. Only
        the pages of text_rich show what was searched for and looked at before.
        """
        state = self._state
        found = self._page.hits() if state.keywords else ()
        seen = [state.keywords, sorted(state.visited)] if self._rich else []
        place = [state.kind, state.number, state.asin, sorted(state.options.items())]
        return digest([self._goal.asin, self._goal.text, place, state.reward, found, seen])

    def step(self, action: str) -> StepResult:
        match = _ACTION.match(action)
        name, argument = match.groups() if match else ("", "")
        info: dict[str, Any] = {}
        if name == "search":
            valid = self._search(argument.lower())
        elif name == "click":
            valid = self._click(argument.lower(), info)
        else:
            valid = False
        done = self._state.kind == "done" and valid
        reward = (self._state.reward or 0.0) if done else 0.0
        return StepResult(self.observe(), reward, done, done and reward == 1.0, valid, info)

    def snapshot(self) -> bytes:
        # Not in sorted order: the receipt prints the options in the order they were chosen.
        return json.dumps(asdict(self._state), ensure_ascii=False).encode()

    def reseed(self, seed: int) -> None:
        pass

    @staticmethod
    def state_of(snapshot: bytes) -> PageState:
        """The dynamic state in a snapshot."""
        return PageState(**json.loads(snapshot))

    def _search(self, query: str) -> bool:
        state = self._state
        state.kind, state.keywords, state.number = "results", query.split(" "), 1
        state.asin, state.options, state.reward = None, {}, None
        return True

    def _click(self, label: str, info: dict[str, Any]) -> bool:
        clickables = self._page.clickables()
        if label not in clickables or label == "search":
            return False
        state, option = self._state, clickables[label]
        if option is not None:
            state.options[option] = label
        elif label == "back to search":
            state.kind, state.keywords, state.number = "index", [], 1
            state.asin, state.visited, state.options = None, [], {}
        elif label in ("next >", "< prev") and state.kind == "results":
            state.number += 1 if label == "next >" else -1
        elif label == "< prev":
            self._leave()
        elif label in SUB_PAGES:
            state.kind = label
        elif label == "buy now":
            self._buy(info)
        else:
            # The reference takes the label in upper case, which loses asins that are not.
            asin = next(p.asin for p in self._page.listed() if p.asin.lower() == label)
            state.kind, state.asin, state.options = "item", asin, {}
            if state.asin not in state.visited:
                state.visited.append(state.asin)
        return True

    def _leave(self) -> None:
        """From a sub page to its item, from an item to the results it came from."""
        state = self._state
        if state.kind in SUB_PAGES:
            state.kind = "item"
        else:
            state.kind, state.asin, state.options = "results", None, {}

    def _buy(self, info: dict[str, Any]) -> None:
        state = self._state
        assert state.asin is not None
        purchase = self._shop.purchase(self._goal, state.asin, state.options)
        state.kind, state.reward = "done", purchase.reward
        info.update(purchase.info)
