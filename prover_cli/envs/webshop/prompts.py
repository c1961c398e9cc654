"""WebShop for small policies, and the names of all ways of showing it.

`compact` shows one short page a turn and names products by one-token aliases, because copying ten
random characters is out of reach for a model of a million parameters. `tags` and `react`, for
instruction-tuned models, are in `chat_prompts`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prover_cli.envs.base import Message, Observation, ParsedAction, PastTurn, Task
from prover_cli.envs.webshop.chat_prompts import ReactStyle, TagsStyle
from prover_cli.envs.webshop.world import PAGE_SIZE

__all__ = ["ALIASES", "CompactStyle", "ReactStyle", "TagsStyle", "compact_reply"]

ALIASES = tuple(f"<I{i}>" for i in range(PAGE_SIZE))
"""Names of the products on a results page, top to bottom."""
_CLICK_ALIAS = re.compile(r"click\[(<I\d>)\]")
_ACTION = re.compile(r"(search|click)\[.+\]")


class CompactStyle:
    """The last action, then the page in few words; the reply is the action.

    Prices are rounded up to whole dollars: limits are whole dollars, so nothing is lost by it.
    """

    name = "compact"
    history = 1
    max_new_tokens = 24

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", f"{task.instruction}\n{_page(observation.page)}")]

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", _page(observation.page))]

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        lines = [f"did {turn.action_text}" for turn in past]
        return [Message("user", "\n".join([task.instruction, *lines, _page(observation.page)]))]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        text = reply.strip()
        alias = _CLICK_ALIAS.fullmatch(text)
        if alias is None:
            valid = _ACTION.fullmatch(text) is not None
            return ParsedAction(text, True) if valid else ParsedAction("", False, "not an action")
        products = observation.page.get("products", ())
        number = ALIASES.index(alias.group(1))
        if number >= len(products):
            return ParsedAction("", False, f"no product {alias.group(1)} on this page")
        return ParsedAction(f"click[{products[number]['asin'].lower()}]", True)


def compact_reply(action: str, observation: Observation) -> str:
    """An environment action as a policy of the compact style would write it."""
    for alias, product in zip(ALIASES, observation.page.get("products", ()), strict=False):
        if action == f"click[{product['asin'].lower()}]":
            return f"click[{alias}]"
    return action


def _page(page: Mapping[str, Any]) -> str:
    match page["kind"]:
        case "index":
            return "search page"
        case "results":
            lines = [f"results page {page['number']} of {-(-page['n_hits'] // PAGE_SIZE)}"]
            for alias, product in zip(ALIASES, page["products"], strict=False):
                lines.append(f"{alias} {product['title'].lower()} {_rounded(product['price'])}")
            return "\n".join(lines)
        case "done":
            return "bought"
        case kind:
            lines = [f"{kind} {page['title'].lower()} {_rounded(page['price'])}", *page["texts"]]
            for name, values in page["options"].items():
                chosen = page["chosen"].get(name)
                marked = (f"*{value}*" if value == chosen else value for value in values)
                lines.append(f"{name}: {', '.join(marked)}")
            return "\n".join(lines)


def _rounded(price_tag: str) -> str:
    return re.sub(r"\d+\.\d+", lambda number: str(math.ceil(float(number.group()))), price_tag)
