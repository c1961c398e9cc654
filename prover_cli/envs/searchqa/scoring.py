"""How answers are compared with the accepted ones.

Exact match, containment and token F1 after the normalisation of SQuAD's evaluation (Rajpurkar et
al. 2016), which open-domain question answering uses throughout. All functions take time linear in
the length of the prediction: policies write nonsense of any shape.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

METRICS = ("em", "f1", "sub_em")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_OPEN, _CLOSE = "<answer>", "</answer>"


@dataclass(frozen=True, slots=True)
class Scores:
    """Each between 0 and 1, the best over the accepted answers."""

    em: float
    sub_em: float
    f1: float

    def __getitem__(self, metric: str) -> float:
        return float(getattr(self, metric))


def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, single blanks."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def score(prediction: str | None, answers: Sequence[str]) -> Scores:
    """A prediction against all accepted answers; no prediction (None) scores 0 throughout."""
    if prediction is None:
        return Scores(0.0, 0.0, 0.0)
    words = normalise(prediction)
    targets = [normalise(answer) for answer in answers]
    return Scores(
        em=float(words in targets),
        sub_em=float(any(_contains(words, target) for target in targets)),
        f1=max((_f1(words, target) for target in targets), default=0.0),
    )


def _contains(words: str, target: str) -> bool:
    # Nothing is left of an answer like "A"; an empty text would be part of every prediction.
    return target in words if target else not words


def _f1(words: str, target: str) -> float:
    """Harmonic mean of precision and recall over the tokens, with their multiplicities."""
    mine, theirs = words.split(), target.split()
    if not mine or not theirs:
        return float(mine == theirs)
    common = sum((Counter(mine) & Counter(theirs)).values())
    return 2 * common / (len(mine) + len(theirs))


def extract_answer(model_turns: Sequence[str]) -> str | None:
    """The last `<answer>` block in what the policy wrote, stripped, or None.

    Only the policy's own turns belong here: prompts, passages and feedback may contain the tags.
    """
    for turn in reversed(model_turns):
        if blocks := answer_blocks(turn):
            return blocks[-1]
    return None


def answer_blocks(text: str) -> list[str]:
    """The contents of all answer blocks of a text, stripped, from left to right."""
    blocks: list[str] = []
    begin = text.find(_OPEN)
    while begin >= 0:
        end = text.find(_CLOSE, begin + len(_OPEN))
        if end < 0:
            break
        blocks.append(text[begin + len(_OPEN) : end].strip())
        begin = text.find(_OPEN, end + len(_CLOSE))
    return blocks
