"""Building a search index of any size in bounded memory.

Postings are collected in blocks in the order of documents. A full block is sorted by term and, when
the index is written to a folder, put aside in a file; at the end every block is dealt out to its
terms. What stays in memory is one block, the vocabulary and one number per document.
"""

from __future__ import annotations

import errno
import os
import shutil
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prover_cli.envs.lucene import term, words

TERMS = "terms.arrow"
ARRAYS = ("offsets", "documents", "counts", "lengths", "totals")
WORDS_PER_BLOCK = 4_000_000
WORDS_REMEMBERED = 1_000_000
NO_TERM = -1
MOST_COUNTED = 2**16 - 1
_EXACT_BELOW = 24
_KEPT_BITS = 4


def stored_length(n: int) -> int:
    """The document length as Lucene's length code remembers it."""
    if n < _EXACT_BELOW:
        return n
    excess = n - _EXACT_BELOW
    shift = max(excess.bit_length() - _KEPT_BITS, 0)
    return _EXACT_BELOW + (excess >> shift << shift)


@dataclass(frozen=True)
class Arrays:
    """What an index consists of."""

    terms: Any
    """All terms, sorted (an Arrow array of strings)."""
    offsets: NDArray[np.int64]
    """Where each term's postings begin; one more than there are terms."""
    documents: NDArray[np.int32]
    counts: NDArray[np.uint16]
    lengths: NDArray[np.int32]
    """Per document, as Lucene remembers them (`stored_length`)."""
    totals: NDArray[np.int64]
    """Sum of the exact lengths, number of documents."""

    @property
    def average_length(self) -> np.float32:
        # Without a single term the average divides nothing that is asked for.
        total, n = (int(value) for value in self.totals)
        return np.float32(total / n) if total else np.float32(1)

    def check(self) -> None:
        """`ValueError` when the arrays do not belong together."""
        n_postings = int(self.offsets[-1])
        if len(self.offsets) != len(self.terms) + 1:
            raise ValueError(f"{len(self.terms)} terms have {len(self.offsets) - 1} lists")
        if not len(self.documents) == len(self.counts) == n_postings:
            raise ValueError(f"{n_postings} postings expected, {len(self.documents)} found")
        if len(self.lengths) != int(self.totals[1]):
            raise ValueError(f"{self.totals[1]} lengths expected, {len(self.lengths)} found")


class _TermNumbers(dict[str, int]):
    """The number of the term that a word stands for; `NO_TERM` for words that are not indexed."""

    def __init__(self) -> None:
        self._terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        found = term(word)
        number = NO_TERM if found is None else self._terms.setdefault(found, len(self._terms))
        self[word] = number
        return number

    def make_room(self) -> None:
        """Forget words, not terms, when there are many."""
        if len(self) > WORDS_REMEMBERED:
            self.clear()

    def in_order(self) -> tuple[list[str], NDArray[np.int64]]:
        """The terms sorted, and the place of each term number among them."""
        terms = sorted(self._terms)
        rank = np.empty(len(terms), dtype=np.int64)
        rank[[self._terms[name] for name in terms]] = np.arange(len(terms))
        return terms, rank


class IndexBuilder:
    """Takes documents one by one; `finish` gives the index, in `folder` or in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._numbers = _TermNumbers()
        self._pending = array("i")
        """Term numbers of the documents since the last block, one document after the other."""
        self._n_words = array("i")
        """How many of them are each document's."""
        self._lengths: list[NDArray[np.int64]] = []
        """Numbers of indexed terms, a block of documents each."""
        self._n_documents = 0
        self._blocks: list[Path | NDArray[np.int32]] = []

    def add(self, text: str) -> None:
        """Add the next document."""
        numbers = list(map(self._numbers.__getitem__, words(text)))
        self._pending.extend(numbers)
        self._n_words.append(len(numbers))
        if len(self._pending) >= WORDS_PER_BLOCK:
            self._put_aside()

    def _put_aside(self) -> None:
        """Count the pending words by term and document, and make room for more."""
        n_words = np.frombuffer(self._n_words, dtype=np.int32)
        within = np.repeat(np.arange(len(n_words)), n_words)
        numbers = np.frombuffer(self._pending, dtype=np.int32)
        indexed = numbers != NO_TERM
        numbers, within = numbers[indexed].astype(np.int64), within[indexed]
        self._lengths.append(np.bincount(within, minlength=len(n_words)))
        found, counts = np.unique(numbers << 32 | within, return_counts=True)
        documents = (found & 0xFFFFFFFF) + self._n_documents
        block = np.array([found >> 32, documents, np.minimum(counts, MOST_COUNTED)], dtype=np.int32)
        self._n_documents += len(n_words)
        self._pending, self._n_words = array("i"), array("i")
        self._numbers.make_room()
        if self._folder is None:
            self._blocks.append(block)
            return
        path = self._folder / f"block-{len(self._blocks)}.npy"
        np.save(path, block)
        self._blocks.append(path)

    def finish(self) -> Arrays:
        """Deal the postings out to their terms."""
        if self._n_words:
            self._put_aside()
        terms, rank = self._numbers.in_order()
        frequency = np.zeros(len(terms), dtype=np.int64)
        for block in self._blocks:
            numbers, found = np.unique(_loaded(block)[0], return_counts=True)
            frequency[rank[numbers]] += found
        offsets = np.concatenate(([0], np.cumsum(frequency, dtype=np.int64)))
        documents = self._array("documents", int(offsets[-1]), np.int32)
        counts = self._array("counts", int(offsets[-1]), np.uint16)
        filled = offsets[:-1].copy()
        for block in self._blocks:
            _deal(_loaded(block), rank, filled, documents, counts)
            if isinstance(block, Path):
                block.unlink()
        exact = np.concatenate([np.empty(0, dtype=np.int64), *self._lengths])
        totals = np.array([exact.sum(), len(exact)], dtype=np.int64)
        names = pa.array(terms, pa.string())
        arrays = Arrays(names, offsets, documents, counts, _stored_lengths(exact), totals)
        self._save(arrays)
        return arrays

    def _array(self, name: str, size: int, kind: type[np.generic]) -> NDArray[Any]:
        if self._folder is None or not size:
            return np.empty(size, dtype=kind)
        path = self._folder / f"{name}.npy"
        if shutil.disk_usage(self._folder).free < size * np.dtype(kind).itemsize:
            # Writing to a mapped file on a full disk would kill the process.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=(size,))

    def _save(self, arrays: Arrays) -> None:
        if self._folder is None:
            return
        table = pa.table({"term": arrays.terms})
        with pa.ipc.new_file(str(self._folder / TERMS), table.schema) as writer:
            writer.write_table(table)
        for name in ARRAYS:
            content = getattr(arrays, name)
            if isinstance(content, np.memmap):
                content.flush()
            else:
                np.save(self._folder / f"{name}.npy", content)


def _stored_lengths(exact: NDArray[np.int64]) -> NDArray[np.int32]:
    values, places = np.unique(exact, return_inverse=True)
    return np.array([stored_length(int(n)) for n in values], dtype=np.int32)[places]


def _loaded(block: Path | NDArray[np.int32]) -> NDArray[np.int32]:
    if isinstance(block, Path):
        rows: NDArray[np.int32] = np.load(block)
        return rows
    return block


def _deal(
    block: NDArray[np.int32],
    rank: NDArray[np.int64],
    filled: NDArray[np.int64],
    documents: NDArray[np.int32],
    counts: NDArray[np.uint16],
) -> None:
    """Append a block's postings, sorted by term number, to the lists of their terms."""
    numbers, starts, found = np.unique(block[0], return_index=True, return_counts=True)
    places = rank[numbers]
    within = np.arange(block.shape[1]) - np.repeat(starts, found)
    target = np.repeat(filled[places], found) + within
    documents[target] = block[1]
    counts[target] = block[2].astype(np.uint16)
    filled[places] += found
