"""Passages as text that a policy reads.

A passage is data. It is shown on one line, cut to a length, and without anything that reads as one
of the tags in which policies and environment speak; such a tag stays visible in square brackets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from prover_cli.envs.searchqa.types import Hit, RetrievalFailed

NOTHING_FOUND = "No passage was found."
CHARACTERS_PER_WORD = 8
"""A passage of W words is cut to W times as many characters, whatever its words look like."""
_CONTROLS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_TAG = re.compile(
    r"<\s*+(/?+)\s*+(think|search|information|answer|action)\s*+>", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A passage as the policy sees it."""

    passage_id: str
    title: str
    text: str
    score: float


def without_controls(text: str) -> str:
    """On one line: blanks, line breaks, control characters and lone surrogates become one blank."""
    return _CONTROLS.sub(" ", text).strip()


def without_tags(text: str) -> str:
    """With square brackets in place of the angles of `<search>`, `</information>` and the like."""
    return _TAG.sub(r"[\1\2]", text)


def shown(hit: Hit, words: int) -> Shown:
    """A hit, its text cut to so many words. A score that is no number is a `RetrievalFailed`."""
    passage, score = hit.passage, float(hit.score)
    if not math.isfinite(score):
        raise RetrievalFailed(f"passage {passage.passage_id} has the score {score}")
    title = without_tags(without_controls(passage.title))
    text = cut(without_tags(without_controls(passage.text)), words)
    return Shown(without_controls(passage.passage_id), title, text, score)


def cut(text: str, words: int) -> str:
    """The first words of a text that is on one line, with an ellipsis where something is left out.

    Never more than `CHARACTERS_PER_WORD` times as many characters.
    """
    head = text[: words * CHARACTERS_PER_WORD]
    kept = " ".join(head.split(" ", words)[:words])
    return text if kept == text else f"{kept.rstrip()} ..."


def result_text(passages: Sequence[Shown]) -> str:
    """Search-R1's layout: `Doc 1(Title: "...") text`, a line for each passage."""
    lines = [
        f"{_label(number, passage.title)}{passage.text}"
        for number, passage in enumerate(passages, start=1)
    ]
    return "\n".join(lines) or NOTHING_FOUND


def read_results(
    text: str, ids: Sequence[str], titles: Sequence[str], scores: Sequence[float]
) -> tuple[Shown, ...] | None:
    """The passages in a text that `result_text` made, given what was noted about them.

    None when the text is not of that form.
    """
    lines = text.split("\n") if text != NOTHING_FOUND else []
    if not len(lines) == len(ids) == len(titles) == len(scores):
        return None
    passages: list[Shown] = []
    for number, (line, title) in enumerate(zip(lines, titles, strict=True), start=1):
        label = _label(number, title)
        if not line.startswith(label):
            return None
        found = Shown(ids[number - 1], title, line.removeprefix(label), scores[number - 1])
        passages.append(found)
    return tuple(passages)


def _label(number: int, title: str) -> str:
    # The quotes are those of the corpus of Search-R1, in which every title has them.
    return f'Doc {number}(Title: "{title}") '
