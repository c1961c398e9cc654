"""Passages as JSON documents, the same in corpus files and in the answers of search servers.

Search-R1 keeps a passage as `contents`: the title in double quotes on the first line, then the
text. Others keep `title` and `text` apart. Where both are there, `contents` counts.
"""

from __future__ import annotations

from typing import Any

from prover_cli.envs.searchqa.types import Passage
from prover_cli.ids import text_hash


class NoPassage(ValueError):
    """A JSON value that is no passage; the message says why."""


def passage_of(document: Any, *, needs_id: bool = True) -> Passage:
    """The passage of a document; its title is without the quotes of `contents`.

    A first line without quotes is a title too if other lines follow. Without `needs_id`, a document
    that has no id gets a hash of its content. Raises `NoPassage`.
    """
    if not isinstance(document, dict):
        raise NoPassage(f"a {type(document).__name__} where an object with id and contents belongs")
    title, text = _title_and_text(document)
    identity = document.get("id")
    if identity is None and not needs_id:
        identity = text_hash(f"{title}\n{text}")
    if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
        raise NoPassage(f"no id that is a text or a whole number, but {identity!r}")
    return Passage(str(identity), title, text)


def _title_and_text(document: dict[str, Any]) -> tuple[str, str]:
    contents, title, text = (document.get(name) for name in ("contents", "title", "text"))
    if contents is None and text is not None:
        return _text("title", "" if title is None else title), _text("text", text)
    if contents is None:
        known = ", ".join(sorted(map(str, document))[:8]) or "none"
        raise NoPassage(f"neither contents nor text among its fields ({known})")
    first, newline, rest = _text("contents", contents).partition("\n")
    quoted = len(first) >= 2 and first[0] == first[-1] == '"'
    if quoted:
        return first[1:-1], rest
    return (first, rest) if newline else ("", first)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise NoPassage(f"{name} is a {type(value).__name__}, not a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise NoPassage(f"{name} holds half of a surrogate pair") from error
    return value


def document_of(passage: Passage) -> dict[str, str]:
    """The document that search servers answer with; `passage_of` undoes it."""
    return {
        "id": passage.passage_id,
        "contents": f'"{passage.title}"\n{passage.text}',
        "title": passage.title,
        "text": passage.text,
    }
