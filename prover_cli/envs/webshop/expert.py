"""A shopper who knows the goal's product and finds it with words of the instruction."""

from __future__ import annotations

import re

from prover_cli.envs.webshop.goals import Goal
from prover_cli.envs.webshop.pages import SUB_PAGES, PageState
from prover_cli.envs.webshop.session import WebShopSession
from prover_cli.envs.webshop.world import PAGE_SIZE, Shop

MAX_PAGES = 3
"""Pages of results worth leafing through before another search."""


def next_action(shop: Shop, goal: Goal, session: WebShopSession) -> str:
    """The next action on a shortest way to a purchase that scores 1."""
    state = session.state
    if state.kind == "index":
        return f"search[{query(shop, goal)}]"
    if state.kind == "results":
        return _on_results(shop, goal, session)
    if state.kind in SUB_PAGES or state.asin != goal.asin:
        return "click[< prev]"
    for label in _values(shop, goal):
        if label not in state.options.values():
            return f"click[{label}]"
    return "click[buy now]"


def query(shop: Shop, goal: Goal) -> str:
    """The words of the instruction that the title, the attributes or the wish list know."""
    product = shop.product(goal.asin)
    known = set(re.findall(r"\w+", " ".join((product.title, *goal.attributes)).lower()))
    asked = goal.text.split(", and price lower than")[0]
    words = [word for word in re.findall(r"\w+", asked.lower()) if word in known]
    return " ".join(dict.fromkeys(words)) or product.title.lower()


def _on_results(shop: Shop, goal: Goal, session: WebShopSession) -> str:
    state = session.state
    if goal.asin in [product.asin for product in session.page.listed()]:
        return f"click[{goal.asin.lower()}]"
    place = _place(shop, state, goal)
    if place is not None and place // PAGE_SIZE < MAX_PAGES:
        return "click[next >]" if place // PAGE_SIZE >= state.number else "click[< prev]"
    return f"search[{shop.product(goal.asin).title.lower()}]"


def _place(shop: Shop, state: PageState, goal: Goal) -> int | None:
    hits, wanted = shop.search(" ".join(state.keywords)), shop.catalogue.place(goal.asin)
    return hits.index(wanted) if wanted in hits else None


def _values(shop: Shop, goal: Goal) -> list[str]:
    """The labels to click for the goal's options, in the product's own order."""
    wanted = {option if isinstance(option, str) else option[1] for option in goal.options}
    product = shop.product(goal.asin)
    return [value for values in product.options.values() for value in values if value in wanted]
