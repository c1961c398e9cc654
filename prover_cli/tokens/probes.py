"""What a chat template does, found out by rendering small conversations with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prover_cli.envs.base import Message
from prover_cli.errors import UsageError
from prover_cli.tokens.templates import ChatTemplate, Piece, Shape, Slot
from prover_cli.tokens.thinking import CLOSE, OPEN, ends_inside

_THOUGHT = "provers thought"
_DROPS_THINKING = (
    "The chat template drops the thinking of earlier replies: with `keep` it stays in the context, "
    "where the policy sampled it."
)
_REWRITES = (
    "The chat template rewrites earlier turns as a conversation goes on: the context keeps them as "
    "they were given and sampled."
)


@dataclass(frozen=True)
class Probe:
    """Facts about a template, with its variables as they are."""

    refuses_system: bool
    """It raises an error for system messages or leaves them out."""
    opens_thinking: bool
    """Its generation prompt ends inside a think block."""
    written: str
    """Its source and what it wrote: where its control tokens are found."""


def probe(template: ChatTemplate) -> Probe:
    """Raises `UsageError` when the template takes no conversation of user and assistant."""
    ask = _shape(template, "user")
    opened = template.render(ask, open_reply=True)
    talked = template.render(_shape(template, "user", "assistant"), open_reply=True)
    system, refuses = "", False
    try:
        pieces = template.pieces(_shape(template, "system", "user"), open_reply=True)
        system = "".join(piece for piece in pieces if isinstance(piece, str))
    except UsageError:
        refuses = True
        template.pieces(ask, open_reply=True)
    return Probe(
        refuses_system=refuses,
        opens_thinking=ends_inside(opened.rpartition(template.mark(0))[2], False),
        written="\n".join([template.source, opened, talked, system]),
    )


def _shape(template: ChatTemplate, *roles: str) -> Shape:
    return tuple((role, template.mark(i)) for i, role in enumerate(roles))


def after_reply(template: ChatTemplate, following: Shape, open_reply: bool) -> list[Piece]:
    """What the template writes after a reply when the messages of `following` come next.

    Their texts are numbered from 2. Raises `UsageError` when the reply is not there once, or the
    messages are not behind it.
    """
    shape = (*_shape(template, "user", "assistant"), *following)
    pieces = template.pieces(shape, open_reply)
    reply = Slot(1)
    if pieces.count(reply) != 1 or any(
        isinstance(piece, Slot) and piece.index > 1 for piece in pieces[: pieces.index(reply)]
    ):
        raise UsageError(
            f"the chat template of {template.where} does not write the messages after a reply "
            f"behind it, so a conversation cannot be continued",
            hint="render every turn anew: --thinking strip",
        )
    return pieces[pieces.index(reply) + 1 :]


def without_system(messages: Sequence[Message]) -> list[Message]:
    """System messages put at the beginning of the user messages that follow them."""
    found: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if message.role == "system":
            waiting.append(message.content)
        elif message.role == "user" and waiting:
            found.append(replace(message, content="\n\n".join([*waiting, message.content])))
            waiting = []
        else:
            found.append(message)
    return [*found, *(Message("user", text) for text in waiting)]


def check_switch(template: ChatTemplate) -> None:
    """`UsageError` when the template knows of thinking but nothing turns it off."""
    ask = _shape(template, "user")
    on, off = (template.render(ask, True, enable_thinking=value) for value in (True, False))
    if on == off and "think" in template.source.lower():
        raise UsageError(
            f"the chat template of {template.where} has no switch that turns thinking off",
            hint="--thinking keep or --thinking strip",
        )


def notes(template: ChatTemplate, found: Probe, thinking: str) -> tuple[str, ...]:
    """Sentences on where prompts are not what one would expect."""
    sentences: list[str] = []
    if found.refuses_system:
        sentences.append(
            "The chat template takes no system message: its text begins the user message."
        )
    if template.wrote_date:
        sentences.append(
            "The chat template writes the date: prompts have the same one every day, 26 Jul 2024."
        )
    if thinking != "strip":
        sentences += _rewrites(template, found, thinking)
    return tuple(sentences)


def _rewrites(template: ChatTemplate, found: Probe, thinking: str) -> list[str]:
    """How the template's rendering of a conversation differs from its being continued."""
    begin = _shape(template, *(("user",) if found.refuses_system else ("system", "user")))
    text = template.mark(5)

    def differs(reply: str, sampled: str) -> bool:
        # White space does not count: a reply brings what is around it itself.
        texts = (_talked(template, begin, reply), opened + sampled + suffix)
        return len({"".join(whole.split()) for whole in texts}) > 1

    try:
        opened = template.render(begin, open_reply=True)
        suffix = _continued(template)
        if not found.opens_thinking and differs(text, text):
            return [_REWRITES]
        if thinking == "keep":
            reply = f"{OPEN}\n{_THOUGHT}\n{CLOSE}\n\n{text}"
            given = OPEN + opened.rpartition(OPEN)[2] if found.opens_thinking else ""
            if differs(reply, reply.removeprefix(given)):
                kept = _THOUGHT in _talked(template, begin, reply)
                return [_REWRITES if kept else _DROPS_THINKING]
    except UsageError as error:
        return [f"Only prompts that begin anew can be rendered: {error.message}."]
    return []


def _talked(template: ChatTemplate, begin: Shape, reply: str) -> str:
    """A conversation of two turns as the template renders it."""
    then = (("assistant", reply), ("user", template.mark(2)))
    return template.render((*begin, *then), open_reply=True)


def _continued(template: ChatTemplate) -> str:
    """What follows the first reply of a conversation that is continued, as text."""
    pieces = after_reply(template, (("user", template.mark(2)),), open_reply=True)
    return "".join(template.mark(2) if isinstance(piece, Slot) else piece for piece in pieces)
