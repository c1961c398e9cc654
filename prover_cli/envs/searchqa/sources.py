"""Names of the data sets, whatever a file calls them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

SOURCES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "2wikimultihopqa": ("2wikimultihopqa", "2wikimultihop", "2wikimqa", "2wiki", "twowiki"),
        "hotpotqa": ("hotpotqa", "hotpot"),
        "musique": ("musique",),
        "bamboogle": ("bamboogle",),
        "triviaqa": ("triviaqa", "trivia", "tq"),
        "popqa": ("popqa",),
        "nq": ("naturalquestions", "nqopen", "nq"),
    }
)
"""Names by data set; the first match counts."""
_SHORT = 2
"""Names as short as this must be a word of their own."""


def canonical_source(name: str) -> str:
    """The data set's usual name; an unknown name in lower case, as it is."""
    return known_source(name) or name.strip().lower()


@lru_cache(maxsize=1024)
def known_source(name: str) -> str | None:
    """The data set that a name (of a column or a file) contains, if it is one of the seven."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    joined = "".join(words)
    for source, names in SOURCES.items():
        if any(n in words if len(n) <= _SHORT else n in joined for n in names):
            return source
    return None
