r"""Text of environments and policies as data in a prompt.

A judge reads pages and replies that others wrote, and some of them say what a judge should do. Two
things keep them apart from what we say. Every text is one JSON string on one line, in which line
breaks are `\n`, so no text can begin a line of its own: it cannot forge a turn, a tool's result or
the end of a record. And a record's first and last line end with a mark that occurs in no text of
the group. Characters that chat templates build control tokens from, and those that hide or reorder
text, are written as escapes; a server would take `<|im_end|>` in a message for its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import count

from prover_cli.ids import digest

_ESCAPED = re.compile(
    "[<\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
    r"|\[(?=/?(?:INST|TOOL|AVAILABLE|SYSTEM|IMG|PREFIX|SUFFIX|MIDDLE|THINK))"
)
_HEAD = 0.6
"""Share of a shortened text that comes from its beginning."""


def quoted(text: str, limit: int | None = None) -> str:
    """A text as a JSON string; of more than `limit` characters the middle is left out."""
    if limit is None or len(text) <= limit:
        return _dumped(text)
    left_out = f" (+{len(text) - limit} characters)"
    if limit < 8:
        return _dumped(text[:limit]) + left_out
    head = int(limit * _HEAD)
    return _dumped(f"{text[:head]} … {text[len(text) - (limit - head) :]}") + left_out


def mark(texts: Iterable[str], *parts: str | int) -> str:
    """A word that no text has, the same for the same texts and `parts`."""
    everything = list(texts)
    for number in count():
        word = digest(["mark", number, *parts], 8)
        if not any(word in text for text in everything):
            return word
    raise AssertionError("unreachable")


def record(title: str, lines: Iterable[str], word: str) -> str:
    """A block of data. Nothing in `title` and `lines` but quotations may come from outside."""
    return "\n".join([f"<<< {title} {word}", *lines, f">>> {word}"])


def _dumped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"\\u{ord(found.group()):04x}", _json(text))


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
