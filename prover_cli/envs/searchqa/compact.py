"""SearchQA for small policies: few words, all in lower case, nothing that need not be read.

A policy of a million parameters learns to copy words, not to write essays. It is shown the
question, what its earlier searches found first (one short line each) and the beginnings of the
passages just found. Its reply is one line, `search QUERY` or `answer TEXT`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from prover_cli.envs.base import Message, Observation, ParsedAction, PastTurn, Task
from prover_cli.envs.searchqa.session import as_action, parts_of
from prover_cli.envs.searchqa.texts import cut

FIRST_WORDS = 32
"""Words shown of the first passage just found: the facts stand at the front."""
OTHER_WORDS = 5
"""Words shown of each of the others: enough to see what they are about."""
REMEMBERED_WORDS = 14
"""Words shown of the first passage of an earlier search."""
EXPECTED = "expected `search QUERY` or `answer TEXT`"
_FIRST = re.compile(r"Doc 1\(Title: (.*?)\) (.*)")
_VERB = re.compile(r"(search|answer)(?:\s+|$)", re.IGNORECASE | re.ASCII)


class CompactStyle:
    """One short page a turn; the reply is the action."""

    name = "compact"
    history: int | None = 3
    max_new_tokens = 32

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return self.window(task, [], observation)

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", _page(observation.page))]

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        found = [turn.observation for turn in past[1:]]
        lines = [task.instruction.lower()]
        for turn, text in zip(past, [*found, ""], strict=False):
            lines.append(f"did {compact_reply(turn.action).lower() or 'nothing'}")
            if first := _remembered(text):
                lines.append(first)
        return [Message("user", "\n".join([*lines, _page(observation.page)]))]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        text = reply.strip()
        verb = _VERB.match(text)
        if verb is None:
            return ParsedAction("", False, f"{'no action' if text else 'empty reply'}; {EXPECTED}")
        if len(text.splitlines()) > 1:
            return ParsedAction("", False, f"more than one line; {EXPECTED}")
        content = text[verb.end() :].strip()
        if not content:
            return ParsedAction("", False, f"nothing after {verb.group(1).lower()}; {EXPECTED}")
        return ParsedAction(as_action(verb.group(1).lower(), content), True)


def compact_reply(action: str) -> str:
    """An environment action as a policy of this style would write it; empty for none."""
    parts = parts_of(action)
    return f"{parts[0]} {' '.join(parts[1].split())}" if parts else ""


def _page(page: Mapping[str, object]) -> str:
    """What the last turn found, in few words."""
    kind, passages = page["kind"], page["passages"]
    assert isinstance(passages, Sequence)
    if kind == "start":
        return "no search yet"
    if kind == "search":
        lengths = (FIRST_WORDS, *[OTHER_WORDS] * len(passages))
        lines = (_line(p["title"], p["text"], n) for p, n in zip(passages, lengths, strict=False))
        return "\n".join(lines) or "nothing"
    return "answer now" if kind == "refused" else "not an action"


def _remembered(text: str) -> str:
    """The first passage in a text of results; empty for any other text."""
    first = _FIRST.match(text)
    return _line(first.group(1), first.group(2), REMEMBERED_WORDS) if first else ""


def _line(title: str, text: str, words: int) -> str:
    """A passage in one line; the title is left out where the text begins with it."""
    title, text = title.strip('"').lower(), text.lower()
    short = cut(text, words).removesuffix(" ...")
    return f"- {short if not title or text.startswith(title) else f'{title}: {short}'}"
