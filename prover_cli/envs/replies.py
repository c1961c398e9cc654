"""The one action in a model's reply.

Two ways of answering are read: in tags (`<think>...</think><action>...</action>`) and after a label
(`Thought: ...`, then `Action: ...`). A reply has exactly one action or a reason why it has not;
nothing is guessed from a reply that could mean two things. Every function here takes time linear in
the length of the reply: policies write nonsense of any shape.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EXPECTED_IN_TAGS = "expected exactly one <action>...</action>"
EXPECTED_AFTER_LABEL = "expected exactly one line `Action: ...`"

# ASCII, because "ignore case" would otherwise let other letters stand for i, k and s.
_FLAGS = re.IGNORECASE | re.ASCII
# Possessive, so that long runs of blanks are tried once.
_THINK = re.compile(r"<\s*+(/\s*+)?+think\s*+>", _FLAGS)
_TAG = re.compile(r"<\s*+(/\s*+)?+action\s*+>", _FLAGS)
_LABEL = re.compile(r"^[ \t]*+action[ \t]*+:", _FLAGS | re.MULTILINE)
_OBSERVATION = re.compile(r"^[ \t]*+observation[ \t]*+:", _FLAGS | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reply:
    """The action in a reply. With a `reason`, there is none and `action` is the whole reply."""

    action: str
    reason: str | None = None


def in_tags(reply: str) -> Reply:
    """The text between the only pair of action tags outside the thinking.

    Tag names may be in any case and have blanks around them. Text around the tags is ignored.
    """
    text, cut = _without_thinking(reply)
    tags = list(_TAG.finditer(text))
    opened = [tag for tag in tags if tag.group(1) is None]
    if not opened:
        return _no_action(reply, cut, EXPECTED_IN_TAGS)
    if len(opened) > 1:
        return _invalid(reply, f"{len(opened)} actions", EXPECTED_IN_TAGS)
    begin = opened[0].end()
    end = next((tag.start() for tag in tags if tag.start() >= begin), None)
    if end is None:
        return _invalid(reply, "the reply ends before </action>", EXPECTED_IN_TAGS)
    return _action(reply, text[begin:end], EXPECTED_IN_TAGS)


def after_label(reply: str) -> Reply:
    """The line after the only `Action:` that begins a line outside the thinking.

    The action stands on the line of the label or is the next line with text. What follows an empty
    line after it is comment and is ignored, and so is everything from `Observation:` on, even
    further actions: there the policy goes on with an episode it imagines. Lines that follow the
    action at once make the reply ambiguous.
    """
    text, cut = _without_thinking(reply)
    label = _LABEL.search(text)
    if label is None:
        return _no_action(reply, cut, EXPECTED_AFTER_LABEL)
    imagined = _OBSERVATION.search(text, label.end())
    text = text[: imagined.start()] if imagined else text
    n_labels = sum(1 for _ in _LABEL.finditer(text))
    if n_labels > 1:
        return _invalid(reply, f"{n_labels} actions", EXPECTED_AFTER_LABEL)
    lines: list[str] = []
    for line in _bare(text[label.end() :]).splitlines():
        if not line.strip():
            break
        lines.append(line)
    if len(lines) > 1:
        return _invalid(reply, f"{len(lines)} lines after Action:", EXPECTED_AFTER_LABEL)
    return _action(reply, "".join(lines), EXPECTED_AFTER_LABEL)


def _without_thinking(reply: str) -> tuple[str, bool]:
    """The reply without its think blocks, and whether it ends inside one.

    A closing tag that nothing opened ends thinking that began before the reply did.
    """
    kept: list[str] = []
    begin, thinking = 0, False
    for tag in _THINK.finditer(reply):
        closes = tag.group(1) is not None
        if not thinking and closes:
            kept.clear()
        elif not thinking:
            kept.append(reply[begin : tag.start()])
        begin, thinking = tag.end(), not closes
    if not thinking:
        kept.append(reply[begin:])
    return "\n".join(kept), thinking


def _bare(text: str) -> str:
    """Without blanks and backticks around it."""
    return text.strip().strip("`").strip()


def _action(reply: str, text: str, expected: str) -> Reply:
    action = _bare(text)
    return Reply(action) if action else _invalid(reply, "the action is empty", expected)


def _no_action(reply: str, cut: bool, expected: str) -> Reply:
    return _invalid(reply, "the reply ends before </think>" if cut else "no action", expected)


def _invalid(reply: str, fact: str, expected: str) -> Reply:
    return Reply(reply.strip(), f"{fact}; {expected}")
