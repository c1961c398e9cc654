"""BM25 as Lucene computes it, in its 32-bit arithmetic and with its one-byte document lengths.

    score(d) = sum over distinct query terms of  w - w / (1 + tf / (k1 (1 - b + b L(d) / avg)))
    w = count in query * ln(1 + (N - df + 0.5) / (df + 0.5))

`L(d)` is the length that Lucene's length code keeps: exact below 24, then 4 significant bits of
what exceeds 24. Equal scores are ordered by insertion.

The index is a handful of arrays: for the terms in sorted order, where each one's postings begin,
the documents that hold it and how often. In memory or mapped from files it is the same thing, so an
index of a million documents opens at once and is shared by all processes that read it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prover_cli.envs.bm25_build import ARRAYS, TERMS, Arrays, IndexBuilder
from prover_cli.envs.cache import mapped_array
from prover_cli.envs.lucene import tokens
from prover_cli.errors import UsageError

K1, B = 0.9, 0.4


class BM25Index:
    """A read-only index; documents are known by their position."""

    def __init__(self, arrays: Arrays, *, k1: float = K1, b: float = B) -> None:
        self._arrays = arrays
        one, k1_, b_ = np.float32(1), np.float32(k1), np.float32(b)
        stored = np.asarray(arrays.lengths, dtype=np.float32)
        self._inverse_norm = one / (k1_ * ((one - b_) + b_ * stored / arrays.average_length))

    @classmethod
    def of(cls, documents: Iterable[str], *, k1: float = K1, b: float = B) -> BM25Index:
        """An index in memory."""
        builder = IndexBuilder()
        for text in documents:
            builder.add(text)
        return cls(builder.finish(), k1=k1, b=b)

    @classmethod
    def open(cls, folder: Path, *, k1: float = K1, b: float = B) -> BM25Index:
        """The index that an `IndexBuilder` left in a folder, mapped into memory.

        Raises `UsageError` when the files are not one whole index.
        """
        try:
            parts: dict[str, Any] = {name: mapped_array(folder / f"{name}.npy") for name in ARRAYS}
            table = pa.ipc.open_file(pa.memory_map(str(folder / TERMS))).read_all()
            parts["terms"] = table["term"].chunk(0) if len(table) else pa.array([], pa.string())
            arrays = Arrays(**parts)
            arrays.check()
        except (OSError, ValueError, KeyError, IndexError, pa.ArrowInvalid) as error:
            raise UsageError(f"{folder} is not a whole search index: {error}") from error
        return cls(arrays, k1=k1, b=b)

    def __len__(self) -> int:
        return len(self._arrays.lengths)

    def search(self, query: str, k: int) -> list[int]:
        """Positions of the `k` best documents that share a term with the query."""
        return [position for position, _ in self.ranked(query, k)]

    def ranked(self, query: str, k: int) -> list[tuple[int, float]]:
        """The `k` best documents that share a term with the query: position and score."""
        if k < 1:
            return []
        scores = self.scores(query)
        matching = np.flatnonzero(scores > 0)
        found = scores[matching]
        if len(found) > k:
            # All documents that tie with the k-th stay in, for insertion order to decide.
            enough = found >= np.partition(found, len(found) - k)[len(found) - k]
            matching, found = matching[enough], found[enough]
        order = np.argsort(-found, kind="stable")[:k]
        return [(int(matching[place]), float(found[place])) for place in order]

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of every document (float32)."""
        total = np.zeros(len(self), dtype=np.float64)
        for term, count in Counter(tokens(query)).items():
            found, frequency = self._postings(term)
            if not len(found):
                continue
            df, n = len(found), len(self)
            weight = np.float32(count) * np.float32(np.log(1 + (n - df + 0.5) / (df + 0.5)))
            inverse = self._inverse_norm[found]
            part = weight - weight / (np.float32(1) + frequency.astype(np.float32) * inverse)
            total[found] += part
        return total.astype(np.float32)

    def _postings(self, term: str) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        """The documents that hold a term, ascending, and how often each does."""
        arrays, terms = self._arrays, self._arrays.terms
        place = bisect_left(range(len(terms)), term, key=lambda i: str(terms[i].as_py()))
        if place == len(terms) or terms[place].as_py() != term:
            return arrays.documents[:0], arrays.counts[:0]
        start, end = arrays.offsets[place], arrays.offsets[place + 1]
        return arrays.documents[start:end], arrays.counts[start:end]
