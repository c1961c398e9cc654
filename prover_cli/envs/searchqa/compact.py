"""SearchQA for small policies: few words, all in lower case, nothing that need not be read.

A policy of a million parameters learns to copy words, not to write essays. It is shown the question
and, for each search, the one sentence of the first passage that has most words of the query, as a
search engine shows snippets; of the other passages just found, the titles. Its reply is one line,
`search QUERY` or `answer TEXT`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from prover_cli.envs.base import Message, Observation, ParsedAction, PastTurn, Task
from prover_cli.envs.searchqa.session import as_action, parts_of
from prover_cli.envs.searchqa.texts import cut

MOST_WORDS = 32
"""Words shown of a sentence."""
STEM = 4
"""Longer words are the same where they agree in so many letters: `married`, `marriage`."""
EXPECTED = "expected `search QUERY` or `answer TEXT`"
_FIRST = re.compile(r"Doc 1\(Title: (.*?)\) (.*)")
_SENTENCE = re.compile(r"(?<=[.;!?]) +")
_WORD = re.compile(r"\w+")
_VERB = re.compile(r"(search|answer)(?:\s+|$)", re.IGNORECASE | re.ASCII)


class CompactStyle:
    """One short page a turn; the reply is the action."""

    name = "compact"
    history: int | None = 3
    max_new_tokens = 32

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return self.window(task, [], observation)

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", _page(observation.page, ""))]

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        found = [turn.observation for turn in past[1:]]
        lines = [task.instruction.lower()]
        for turn, text in zip(past, [*found, ""], strict=False):
            reply = compact_reply(turn.action).lower()
            lines.append(f"did {reply or 'nothing'}")
            if first := _FIRST.match(text):
                lines.append(snippet(first.group(1), first.group(2), reply))
        query = compact_reply(past[-1].action) if past else ""
        return [Message("user", "\n".join([*lines, _page(observation.page, query)]))]

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


def _page(page: Mapping[str, object], query: str) -> str:
    """What the last turn found, in few words."""
    kind, passages = page["kind"], page["passages"]
    assert isinstance(passages, Sequence)
    if kind == "start":
        return "no search yet"
    if kind != "search":
        return "answer now" if kind == "refused" else "not an action"
    if not passages:
        return "nothing"
    first, *others = passages
    titles = [f"- {_plain(passage['title'])}" for passage in others]
    return "\n".join([snippet(first["title"], first["text"], query), *titles])


def snippet(title: str, text: str, query: str) -> str:
    """The sentence of a passage that has most words of the query beyond the title's; the first of
    equals. The title stands before it where it does not begin with it. In lower case."""
    title = _plain(title)
    wanted = _stems(query) - _stems(title)
    sentences = _SENTENCE.split(text.lower())
    best = max(sentences, key=lambda sentence: len(wanted & _stems(sentence)))
    short = cut(best, MOST_WORDS).removesuffix(" ...")
    return f"- {short if short.startswith(title) else f'{title}: {short}'}"


def _plain(title: object) -> str:
    return str(title).strip('"').lower()


def _stems(text: str) -> set[str]:
    return {word[:STEM] for word in _WORD.findall(text.lower())}
