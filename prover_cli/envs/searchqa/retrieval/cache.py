"""Results remembered by (engine, corpus, query, k), in memory and, if wanted, on disk.

Search is a pure function of these four, so a remembered result is the result. Failures are never
remembered. Threads that ask the same at the same time share one search.
"""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from threading import Lock

from prover_cli.envs.searchqa.types import Hit, Passage, Retriever
from prover_cli.errors import StorageError
from prover_cli.ids import canonical_json, digest

REMEMBERED = 1 << 14
"""Results kept in memory."""
WAIT_SECONDS = 60.0
"""How long a process waits for another that writes to the same file."""
_TABLE = "create table if not exists results (key text primary key, hits text not null)"


class CachedRetriever:
    """Another retriever's results, each searched for once; thread safe.

    `file` is an SQLite file that any number of processes and corpora share.
    Raises `StorageError` when it cannot be used.
    """

    def __init__(
        self, inner: Retriever, *, size: int = REMEMBERED, file: Path | None = None
    ) -> None:
        self.inner = inner
        self.n_searches = 0
        """Searches that the inner retriever was asked for."""
        self._size = size
        self._lock = Lock()
        self._known: OrderedDict[tuple[str, int], tuple[Hit, ...]] = OrderedDict()
        self._asked: dict[tuple[str, int], Future[tuple[Hit, ...]]] = {}
        self._disk = None if file is None else _Disk(file, inner.name, inner.corpus_hash)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def corpus_hash(self) -> str:
        return self.inner.corpus_hash

    def search(self, query: str, k: int) -> list[Hit]:
        """What the inner retriever answers. Raises what it raises."""
        key = (query, k)
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return list(known)
            asked = self._asked.get(key)
            mine: Future[tuple[Hit, ...]] | None = None
            if asked is None:
                asked = mine = self._asked[key] = Future()
        if mine is not None:
            self._answer(key, mine)
        return list(asked.result())

    def _answer(self, key: tuple[str, int], promise: Future[tuple[Hit, ...]]) -> None:
        try:
            hits = self._find(*key)
        except BaseException as error:
            with self._lock:
                del self._asked[key]
            promise.set_exception(error)
            return
        with self._lock:
            self._remember(key, hits)
            del self._asked[key]
        promise.set_result(hits)

    def _find(self, query: str, k: int) -> tuple[Hit, ...]:
        if self._disk is not None and (kept := self._disk.get(query, k)) is not None:
            return kept
        with self._lock:
            self.n_searches += 1
        hits = tuple(self.inner.search(query, k))
        if self._disk is not None:
            self._disk.put(query, k, hits)
        return hits

    def _remember(self, key: tuple[str, int], hits: tuple[Hit, ...]) -> None:
        self._known[key] = hits
        self._known.move_to_end(key)
        if len(self._known) > self._size:
            self._known.popitem(last=False)

    def close(self) -> None:
        self.inner.close()


class _Disk:
    """Results of one engine on one corpus in a file. What goes wrong later switches it off."""

    def __init__(self, file: Path, name: str, corpus_hash: str) -> None:
        self._file, self._engine, self._off = file, [name, corpus_hash], False
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connection()) as store:
                store.execute("pragma journal_mode=wal")
                store.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(
                f"search results cannot be kept in {file}: {error}",
                hint=f"remove {file}, or go on without it",
            ) from error

    def get(self, query: str, k: int) -> tuple[Hit, ...] | None:
        if self._off:
            return None
        try:
            with closing(self._connection()) as store:
                found = store.execute(
                    "select hits from results where key = ?", (self._key(query, k),)
                )
                row = found.fetchone()
            if row is None:
                return None
            return tuple(
                Hit(Passage(str(identity), str(title), str(text)), float(score))
                for identity, title, text, score in json.loads(row[0])
            )
        except (sqlite3.Error, ValueError, TypeError) as error:
            self._give_up(error)
            return None

    def put(self, query: str, k: int, hits: Sequence[Hit]) -> None:
        if self._off:
            return
        rows = [[h.passage.passage_id, h.passage.title, h.passage.text, h.score] for h in hits]
        try:
            with closing(self._connection()) as store, store:
                row = (self._key(query, k), canonical_json(rows))
                store.execute("insert or ignore into results values (?, ?)", row)
        except sqlite3.Error as error:
            self._give_up(error)

    def _key(self, query: str, k: int) -> str:
        plain = query.encode("utf-8", "backslashreplace").decode()
        return digest([*self._engine, plain, k], 32)

    def _connection(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=WAIT_SECONDS)

    def _give_up(self, error: Exception) -> None:
        self._off = True
        warnings.warn(f"{self._file} is no longer used: {error}", RuntimeWarning, stacklevel=3)
