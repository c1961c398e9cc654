"""Ways of showing WebShop to a policy and of reading its replies.

`compact` is for small policies: one short page a turn and products named by one-token aliases,
because copying ten random characters is out of reach for a model of a million parameters. `tags`
and `react` are for instruction-tuned models: the official observation, the actions that are
possible now, and a reply that ends in an action (in tags, or after `Action:`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prover_cli.envs.base import Message, Observation, ParsedAction, PastTurn, Task
from prover_cli.envs.webshop.world import PAGE_SIZE

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
            return ParsedAction(text, valid, None if valid else "not an action")
        products = observation.page.get("products", ())
        number = ALIASES.index(alias.group(1))
        if number >= len(products):
            return ParsedAction(text, False, f"no product {alias.group(1)} on this page")
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


_INTRODUCTION = """You are shopping in a web shop. Buy the product that fits the instruction: \
the right kind of thing, every attribute, every option chosen, within the price limit.
Actions: search[keywords] and click[something that can be clicked now]. Buying ends the task.
{how}"""


class TagsStyle:
    """Thinking is free; the action stands in <action></action>."""

    name = "tags"
    history = None
    max_new_tokens = 512
    how = "Think, then give one action as <action>...</action>."
    pattern = re.compile(r"<action>(.*?)</action>", re.DOTALL)

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return [
            Message("system", _INTRODUCTION.format(how=self.how)),
            Message("user", self._text(observation)),
        ]

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", self._text(observation))]

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        system, user = self.opening(task, observation)
        if not past:
            return [system, user]
        before = "\n".join(f"Observation: {p.observation}\nAction: {p.action}" for p in past)
        return [system, Message("user", f"Before:\n{before}\nNow:\n{user.content}")]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        found = self.pattern.findall(reply)
        if not found:
            return ParsedAction(reply.strip(), False, f"no action found; expected: {self.how}")
        action = found[-1].strip()
        valid = _ACTION.fullmatch(action) is not None
        return ParsedAction(action, valid, None if valid else "not an action")

    def _text(self, observation: Observation) -> str:
        possible = [a for a in observation.admissible or () if a != "click[search]"]
        listed = ", ".join(["search[keywords]", *possible])
        return f"{observation.text}\nYou can: {listed}"


class ReactStyle(TagsStyle):
    """`Thought:` and `Action:` lines."""

    name = "react"
    how = "Answer with a line `Thought: ...` and then a line `Action: ...`."
    pattern = re.compile(r"^Action:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
