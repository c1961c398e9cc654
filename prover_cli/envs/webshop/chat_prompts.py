"""WebShop for instruction-tuned models: the official observation and the actions possible now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from prover_cli.envs.base import Observation, Task
from prover_cli.envs.chat import Chat, ReactPrompts, TagsPrompts
from prover_cli.envs.replies import Reply

_SEARCH = "search[<keywords>]"
_FORMS = f"{_SEARCH} or click[<button>]"
_SEARCH_BAR = "click[search]"
_CLICK = re.compile(r"click\[([^\[\n]+)\]")
"""The clicks that WebShop can read: a label with a bracket or a line break never matches there."""
_VERB = re.compile(r"\b(?:search|click)\s*+\[", re.IGNORECASE | re.ASCII)
_SHOWN_CHARACTERS = 80


class ShopChat(Chat):
    """The rules of the shop and the forms of its actions."""

    rules = """\
You are shopping in a web shop. Find and buy a product that fits the task: the right kind of \
product with every attribute, within the price limit. Choose every option that the task names \
before you buy.
search[<keywords>] searches the shop from a page with a search bar. click[<button>] presses a \
button of the page: a product, an option, a way back, or click[buy now], which buys the product \
as it is and ends the task."""

    def offered(self, observation: Observation) -> Sequence[str]:
        """A search where there is a search bar, then the clicks."""
        search = [_SEARCH] if _SEARCH_BAR in (observation.admissible or ()) else []
        return [*search, *(f"click[{label}]" for label in _labels(observation))]

    def shown(self, task: Task, text: str) -> str:
        """The page without the instruction, which every official page repeats."""
        repeated = rf"Instruction:\s*(\[SEP\]\s*)?{re.escape(task.instruction.strip())}\s*"
        return re.sub(rf"{repeated}(\[SEP\]\s*)?", "", text, count=1)

    def read(self, action: str, observation: Observation) -> Reply:
        """Case and blanks do not matter; a click must be on a button of the page."""
        verb, bracket, rest = (part.strip() for part in action.partition("["))
        verb = _plain(verb)
        if len(_VERB.findall(action)) > 1:
            return Reply(action, f"more than one action: {_cut(action)}; expected one {_FORMS}")
        if verb not in ("search", "click"):
            return Reply(action, f"unknown action {_cut(verb)}; expected {_FORMS}")
        if not bracket or not rest.endswith("]"):
            missing = "no ] at the end of" if bracket else "no [ in"
            return Reply(action, f"{missing} {_cut(action)}; expected {_FORMS}")
        argument = _plain(rest[:-1])
        if not argument:
            return Reply(action, f"nothing in the brackets of {verb}; expected {_FORMS}")
        if "[" in argument:
            return Reply(action, f"WebShop cannot read a [ inside the brackets: {_cut(action)}")
        return _click(argument, observation) if verb == "click" else Reply(f"search[{argument}]")


class TagsStyle(ShopChat, TagsPrompts):
    """`<think>` and `<action>`, the last two turns quoted."""


class ReactStyle(ShopChat, ReactPrompts):
    """`Thought:` and `Action:` in a conversation."""


def _click(label: str, observation: Observation) -> Reply:
    buttons = {_plain(button): button for button in _labels(observation)}
    if label in buttons:
        return Reply(f"click[{buttons[label]}]")
    reason = f"no button {_cut(label)} on this page"
    if closest := get_close_matches(label[:_SHOWN_CHARACTERS], buttons, n=1):
        reason += f"; the closest is {closest[0]!r}"
    elif _SEARCH_BAR in (observation.admissible or ()):
        reason += f"; expected {_SEARCH}"
    return Reply(label, reason)


def _labels(observation: Observation) -> list[str]:
    """The buttons that can be pressed. The search bar is not one: WebShop rejects that click."""
    clicks = (_CLICK.fullmatch(action) for action in observation.admissible or ())
    return [click.group(1) for click in clicks if click and click.group() != _SEARCH_BAR]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}...")
