"""BM25 as Lucene computes it, in its 32-bit arithmetic and with its one-byte document lengths.

    score(d) = sum over distinct query terms of  w - w / (1 + tf / (k1 (1 - b + b L(d) / avg)))
    w = count in query * ln(1 + (N - df + 0.5) / (df + 0.5))

`L(d)` is the length that Lucene's length code keeps: exact below 24, then 4 significant bits of
what exceeds 24. Equal scores are ordered by insertion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from prover_cli.envs.lucene import tokens

_EXACT_BELOW = 24
_KEPT_BITS = 4


def stored_length(n: int) -> int:
    """The document length as Lucene's length code remembers it."""
    if n < _EXACT_BELOW:
        return n
    excess = n - _EXACT_BELOW
    shift = max(excess.bit_length() - _KEPT_BITS, 0)
    return _EXACT_BELOW + (excess >> shift << shift)


class BM25Index:
    """A read-only index; documents are known by their position."""

    def __init__(self, documents: Iterable[str], *, k1: float = 0.9, b: float = 0.4) -> None:
        postings: dict[str, list[tuple[int, int]]] = {}
        lengths: list[int] = []
        for position, text in enumerate(documents):
            terms = tokens(text)
            lengths.append(len(terms))
            for term, count in Counter(terms).items():
                postings.setdefault(term, []).append((position, count))
        self._n_documents = len(lengths)
        self._postings = {t: np.array(rows, dtype=np.int32).T for t, rows in postings.items()}
        average = np.float32(sum(lengths) / max(len(lengths), 1))
        stored = np.array([stored_length(n) for n in lengths], dtype=np.float32)
        one, k1_, b_ = np.float32(1), np.float32(k1), np.float32(b)
        self._inverse_norm = one / (k1_ * ((one - b_) + b_ * stored / average))

    def search(self, query: str, k: int) -> list[int]:
        """Positions of the `k` best documents that share a term with the query."""
        scores = self.scores(query)
        matching = np.flatnonzero(scores > 0)
        order = np.argsort(-scores[matching], kind="stable")[:k]
        return [int(position) for position in matching[order]]

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of every document (float32)."""
        total = np.zeros(self._n_documents, dtype=np.float64)
        for term, count in Counter(tokens(query)).items():
            rows = self._postings.get(term)
            if rows is None:
                continue
            found, frequency = rows
            df, n = len(found), self._n_documents
            weight = np.float32(count) * np.float32(np.log(1 + (n - df + 0.5) / (df + 0.5)))
            inverse = self._inverse_norm[found]
            part = weight - weight / (np.float32(1) + frequency.astype(np.float32) * inverse)
            total[found] += part
        return total.astype(np.float32)
