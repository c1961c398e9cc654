"""What a reply says, apart from the thinking before it.

Reasoning models write their thinking between `<think>` and `</think>`. Some chat templates open the
block in the generation prompt; the reply then has only the closing tag.
"""

from __future__ import annotations

from prover_cli.errors import UsageError

OPEN, CLOSE = "<think>", "</think>"
POLICIES = ("keep", "strip", "off")
UNFINISHED = "the reply ended before its thinking did"


def check_policy(thinking: str) -> None:
    """`UsageError` for anything but a declared policy for thinking."""
    if thinking not in POLICIES:
        raise UsageError(f"--thinking is {', '.join(POLICIES[:-1])} or off, not {thinking!r}")


def answer(reply: str, opened: bool) -> str | None:
    """The text after the last closing tag; None for a reply that ends inside its thinking.

    `opened` says that the reply began inside thinking. A reply without any is returned as it is.
    """
    if ends_inside(reply, opened):
        return None
    closed = reply.rfind(CLOSE)
    return reply if closed < 0 else reply[closed + len(CLOSE) :].lstrip("\n")


def ends_inside(text: str, opened: bool) -> bool:
    """Whether thinking goes on at the end of a text that began inside it, or not."""
    last_open, last_close = text.rfind(OPEN), text.rfind(CLOSE)
    return opened if last_open == last_close else last_open > last_close


def find_outside(text: str, wanted: str, opened: bool) -> int:
    """Where `wanted` first stands outside thinking; -1 where it does not."""
    place = 0
    while True:
        if opened:
            closed = text.find(CLOSE, place)
            if closed < 0:
                return -1
            place = closed + len(CLOSE)
        found, begins = text.find(wanted, place), text.find(OPEN, place)
        if begins < 0 or 0 <= found < begins:
            return found
        place, opened = begins + len(OPEN), True
