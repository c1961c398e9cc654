"""The nouns of product titles, from which the reward tells what kind of thing a product is.

The official engine tags titles with a language model. Generated catalogues and prepared data carry
the tagged nouns with them. For titles without tags every word counts as a noun, which agrees with
the tagger on the resulting score for most pairs of titles but not all, so it is said aloud.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence


class TitleNouns(Mapping[str, Sequence[str]]):
    """Nouns by title: the tagged ones where known, else all words."""

    def __init__(self, tagged: Mapping[str, Sequence[str]]) -> None:
        self._tagged = tagged

    def __getitem__(self, title: str) -> Sequence[str]:
        known = self._tagged.get(title)
        return re.findall(r"\w+", title.lower()) if known is None else known

    def __iter__(self) -> Iterator[str]:
        return iter(self._tagged)

    def __len__(self) -> int:
        return len(self._tagged)
