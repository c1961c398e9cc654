"""The action in a reply with the tags of Search-R1.

A reply is cut after its first `</search>`, or else after its first `</answer>`; the first complete
block in what is left is the action. Everything here takes time linear in the length of the reply.
"""

from __future__ import annotations

import re

from prover_cli.envs.searchqa.scoring import answer_blocks

ENDS = ("</search>", "</answer>")
"""Where a reply is cut, the most important first."""
EXPECTED = "expected <search>...</search> or <answer>...</answer>"
_EXACT = re.compile(r"<(/?)(search|answer)>")
_ANY_CASE = re.compile(r"<(/?)(search|answer)>", re.IGNORECASE | re.ASCII)


def first_block(reply: str, *, any_case: bool = False) -> tuple[str, str] | str:
    """Kind (search or answer) and stripped content of the action, or the reason for none.

    Where several answers stand in what is left, the last one counts, as it does when Search-R1
    scores an episode. With `any_case`, tags may be in any case and a search goes before an answer.
    """
    tags = _ANY_CASE if any_case else _EXACT
    if any_case:
        reply = tags.sub(lambda tag: tag.group().lower(), reply)
    text = _cut(reply)
    kind, begin = _opening(text, search_first=any_case)
    if not kind:
        return _why_none(text)
    if kind == "answer":
        return kind, answer_blocks(text)[-1]
    content = text[begin : text.find("</search>", begin)].strip()
    return (kind, content) if content else f"the query is empty; {EXPECTED}"


def both_kinds(reply: str) -> str | None:
    """Why verl-agent finds fault with a reply that has an action; None if it does not."""
    tags = list(_ANY_CASE.finditer(reply))
    if len({tag.group(2).lower() for tag in tags}) > 1:
        return "tags of a search and of an answer; expected one kind"
    opened = [tag for tag in tags if not tag.group(1)]
    return f"{len(opened)} opening tags; expected one" if len(opened) > 1 else None


def _cut(reply: str) -> str:
    for end in ENDS:
        head, found, _ = reply.partition(end)
        if found:
            return head + found
    return reply


def _opening(text: str, *, search_first: bool) -> tuple[str, int]:
    """Kind of the first opening tag that a closing one follows, and where its content begins."""
    last = {kind: text.rfind(f"</{kind}>") for kind in ("search", "answer")}
    complete = [
        (tag.group(2), tag.end())
        for tag in _EXACT.finditer(text)
        if not tag.group(1) and last[tag.group(2)] >= tag.end()
    ]
    if search_first:
        complete.sort(key=lambda block: block[0] != "search")
    return complete[0] if complete else ("", 0)


def _why_none(text: str) -> str:
    opened = [tag.group(2) for tag in _EXACT.finditer(text) if not tag.group(1)]
    fact = f"the reply ends before </{opened[-1]}>" if opened else "no action"
    return f"{fact}; {EXPECTED}"
