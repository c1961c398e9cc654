"""A model's chat template, rendered with marks in place of the texts.

No text of an environment or a policy is given to the template. It gets a mark for each, and its
output is cut at the marks, so what the template wrote and what others wrote is known from where it
stands. Only the white space around a text is shown to the template, because many trim it, and texts
that are empty, because some leave those out.

The template is compiled as Hugging Face compiles it: sandboxed, with the same globals, filters and
tags. Its date never changes, so that a prompt recorded today can be built again tomorrow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from prover_cli.envs.base import Message
from prover_cli.errors import UsageError

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TODAY = datetime(2024, 7, 26, tzinfo=UTC)
"""The date in every prompt; it is the one that Llama's templates write when they are told none."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a text: the index of its message."""

    index: int


Shape = tuple[tuple[str, str], ...]
"""Roles and marked contents: all that a template learns of a conversation."""
Piece = str | Slot


class ChatTemplate:
    """A compiled template with the variables that it is always given."""

    def __init__(self, source: str, variables: Mapping[str, Any], where: str) -> None:
        """Raises `UsageError` for a template that does not compile; `where` names it."""
        from jinja2 import TemplateError

        self.source, self.variables, self.where = source, dict(variables), where
        self.wrote_date = False
        mark = "PROVERTEXT"
        while mark in source:
            mark += "X"
        self._mark = mark
        self._slots = re.compile(f"{mark}([0-9]+)Z")
        try:
            self._template = self._compile(source)
        except TemplateError as error:
            raise UsageError(f"the chat template of {where} cannot be compiled: {error}") from None

    def mark(self, index: int) -> str:
        return f"{self._mark}{index}Z"

    def shape(self, messages: Sequence[Message], first: int = 0) -> Shape:
        """What the template is shown of the messages, whose texts are numbered from `first`."""
        return tuple(
            (message.role, self._shown(message, index))
            for index, message in enumerate(messages, start=first)
        )

    def _shown(self, message: Message, index: int) -> str:
        text, mark = message.content, self.mark(index)
        if message.max_tokens is not None:
            return mark
        core = text.strip()
        if len(core) == len(text):
            return mark if text else ""
        if not core:
            return text
        begin = len(text) - len(text.lstrip())
        return f"{text[:begin]}{mark}{text[begin + len(core) :]}"

    def pieces(self, shape: Shape, open_reply: bool) -> list[Piece]:
        """The rendered conversation, cut at the marks.

        `open_reply` adds the beginning of the next reply. Raises `UsageError` when the template
        refuses the conversation or leaves out a text.
        """
        parts = self._slots.split(self.render(shape, open_reply))
        found: list[Piece] = [Slot(int(p)) if i % 2 else p for i, p in enumerate(parts)]
        kept = {piece.index for piece in found if isinstance(piece, Slot)}
        for role, content in shape:
            if (mark := self._slots.search(content)) and int(mark.group(1)) not in kept:
                raise UsageError(
                    f"the chat template of {self.where} leaves out the text of a {role} message"
                )
        return [piece for piece in found if piece != ""]

    def render(self, shape: Shape, open_reply: bool, **variables: Any) -> str:
        """The template's own output."""
        from jinja2 import TemplateError

        messages = [{"role": role, "content": content} for role, content in shape]
        try:
            rendered: str = self._template.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=open_reply,
                **(self.variables | variables),
            )
            return rendered
        except (TemplateError, TypeError, LookupError) as error:
            roles = ", ".join(role for role, _ in shape)
            raise UsageError(
                f"the chat template of {self.where} refuses a conversation of {roles}: {error}"
            ) from None

    def _compile(self, source: str) -> Any:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def raise_exception(message: str) -> None:
            raise TemplateError(message)

        def strftime_now(form: str) -> str:
            self.wrote_date = True
            return TODAY.strftime(form)

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_generation_tag(), "jinja2.ext.loopcontrols"],
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = raise_exception
        environment.globals["strftime_now"] = strftime_now
        return environment.from_string(source)


def _generation_tag() -> type:
    """The tag `{% generation %}`, which marks replies and renders what it encloses."""
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser

    class GenerationTag(Extension):
        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            # A scope of its own, as the tag has it in Hugging Face.
            return nodes.Scope(body).set_lineno(line)

    return GenerationTag


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is, where jinja's own filter would escape HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
