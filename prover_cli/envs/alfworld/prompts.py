"""Ways of showing ALFWorld to a policy and of reading its replies.

`compact` is for small policies: what one turn needs in a few short lines, without articles. `tags`
and `react` are for instruction-tuned models: the official observation and the actions that work
now. All read an action without regard to case and blanks, and want exactly one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import groupby
from typing import Any

from prover_cli.envs.base import Message, Observation, ParsedAction, PastTurn, Task
from prover_cli.envs.chat import Chat, ReactPrompts, TagsPrompts
from prover_cli.envs.replies import Reply

_WELCOME = re.compile(r"-= Welcome[^\n]*=-\s*")
_ARRIVAL = re.compile(r"You arrive at loc \d+\. (?=.)", re.DOTALL)
_LONGEST = 80


class CompactStyle:
    """The task, the last action and what is known of the place; the reply is the command."""

    name = "compact"
    history = 1
    max_new_tokens = 24

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", f"{task.instruction}\n{_scene(observation)}")]

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", _scene(observation))]

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        lines = [f"did {turn.action_text}" for turn in past]
        return [Message("user", "\n".join([task.instruction, *lines, _scene(observation)]))]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        found = _command(reply, observation)
        if found.reason is not None:
            return ParsedAction("", False, found.reason)
        return ParsedAction(found.action, True)


class HouseChat(Chat):
    """The rules of the house and the forms of its actions."""

    rules = """\
You are a robot in a house and act through short text commands. Do the household task. Things lie \
in or on receptacles; you see what a receptacle holds when you are there, some must be opened \
first. You can carry one thing at a time. A thing is cleaned at a sink basin, heated at a \
microwave and cooled at a fridge, always while you carry it. To look at a thing under a lamp, \
carry it to the lamp and use the lamp.
Copy an action from the list of available actions, with the numbers in the names."""

    def shown(self, task: Task, text: str) -> str:
        """The observation without the welcome and the task, which the prompt states anyway."""
        return _WELCOME.sub("", text).removesuffix(f"Your task is to: {task.instruction}").strip()

    def read(self, action: str, observation: Observation) -> Reply:
        return _command(action, observation)


class TagsStyle(HouseChat, TagsPrompts):
    """`<think>` and `<action>`, the last two turns quoted."""


class ReactStyle(HouseChat, ReactPrompts):
    """`Thought:` and `Action:` in a conversation; arrivals name no location."""

    def shown(self, task: Task, text: str) -> str:
        return _ARRIVAL.sub("", super().shown(task, text), count=1)


def _command(text: str, observation: Observation) -> Reply:
    """A command that works now, or the reason why the text is none."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return Reply("", "the reply is empty; expected one command")
    if len(lines) > 1:
        return Reply(text, f"{len(lines)} lines; expected one command")
    plain = _plain(lines[0])
    offered = {_plain(command): command for command in observation.admissible or ()}
    if plain in offered:
        return Reply(offered[plain])
    reason = f"{_cut(plain)} does not work here"
    if closest := get_close_matches(plain[:_LONGEST], offered, n=1):
        reason += f"; the closest that does is {offered[closest[0]]!r}"
    return Reply(text, reason)


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")


def _cut(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def _scene(observation: Observation) -> str:
    """The observation in short lines: the place, the hand, what was looked into, what there is."""
    page = observation.page
    lines = [_place(page), _hand(page)]
    if not page["valid"]:
        lines.insert(0, "nothing happened")
    lines += [f"been {_ranges(page['seen'])}"] if page["seen"] else []
    return "\n".join([*lines, f"house {_ranges(page['places'])}"])


def _place(page: Mapping[str, Any]) -> str:
    if page["at"] is None:
        return "at start"
    if page["closed"]:
        return f"at {page['at']} closed"
    if page["things"] is None:
        return f"at {page['at']}"
    return f"at {page['at']} see {' '.join(page['things']) or 'nothing'}"


def _hand(page: Mapping[str, Any]) -> str:
    if page["holding"] is None:
        return "hold nothing"
    return " ".join(["hold", *page["held_is"], page["holding"]])


def _ranges(names: Sequence[str]) -> str:
    """Names with their numbers drawn together: `bed 1 drawer 1-3 drawer 5`."""
    numbered = sorted((base, int(number)) for base, _, number in (n.rpartition(" ") for n in names))
    parts: list[str] = []
    for _, run in groupby(enumerate(numbered), key=lambda item: (item[1][0], item[1][1] - item[0])):
        (base, first), *rest = [each for _, each in run]
        parts.append(f"{base} {first}-{rest[-1][1]}" if rest else f"{base} {first}")
    return " ".join(parts)
