"""A corpus in files that open at once and are shared by every process that reads them.

It lives in the cache under a hash of what it was made from: a corpus file, or a list of passages.
What is derived from it later (a search index, embeddings) is put into the same folder.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from prover_cli.envs.base import Progress
from prover_cli.envs.cache import building, cache_home, check, remembered_hash
from prover_cli.envs.progress import MegabytesRead
from prover_cli.envs.rows import Rows, RowWriter
from prover_cli.envs.searchqa.retrieval import corpus_file
from prover_cli.envs.searchqa.types import Passage
from prover_cli.errors import UsageError
from prover_cli.ids import canonical_json, digest

LAYOUT = 1
"""Raise it when the files, or the rules that make their content, change."""
PASSAGES, SUMMARY = "passages.arrow", "corpus.json"
LARGE = 256 * 2**20
"""Bytes of a corpus file above which the user prepares it with a command of its own."""
_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in ("id", "title", "text")])


class Silent:
    """Reports nothing."""

    def start(self, what: str, total: int, unit: str) -> None: ...

    def advance(self, n: int = 1, facts: str = "") -> None: ...

    def note(self, text: str) -> None: ...


class Corpus(Sequence[Passage]):
    """The passages of a folder, read when asked for; thread safe.

    Raises `UsageError` for a folder that is damaged.
    """

    def __init__(self, folder: Path) -> None:
        check(folder)
        self.folder = folder
        self.summary: dict[str, Any] = json.loads((folder / SUMMARY).read_bytes())
        self._rows = Rows(folder / PASSAGES)
        self._lock = Lock()

    @property
    def hash(self) -> str:
        """Hash of all passages in order, however the file that held them was packed."""
        return str(self.summary["hash"])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        with self._lock:
            row = self._rows[range(len(self))[place]]
        return Passage(row["id"], row["title"], row["text"])

    def searched_texts(self) -> Iterator[list[str]]:
        """Title and text of all passages in order, some thousand at a time."""
        for batch in self._rows.batches(("title", "text")):
            titles, texts = (batch[name].to_pylist() for name in ("title", "text"))
            yield [f"{title}\n{text}" for title, text in zip(titles, texts, strict=True)]


def from_file(path: Path, progress: Progress | None = None) -> Corpus:
    """The corpus of a file (see `corpus_file`), stored on the first call.

    Without `progress`, a large file that is not stored yet is refused. Raises `UsageError` for it,
    for a file that cannot be used, and for an id that several passages have.
    """
    if not path.is_file():
        raise UsageError(
            f"there is no corpus file {path}", hint="name a .jsonl[.xz|.gz|.zst]: --corpus FILE"
        )
    folder = _folder([LAYOUT, remembered_hash(path)])
    if not folder.is_dir():
        size = path.stat().st_size
        if progress is None and size > LARGE:
            raise UsageError(
                f"{path} holds {size / 1e9:.1f} GB of passages that must be prepared once",
                hint=f"prover tasks prepare searchqa --corpus {path}",
            )
        told = progress or Silent()
        read = MegabytesRead(told, size)
        counts = Counter[str]()
        with building(folder) as private:
            passages = corpus_file.passages(path, counts, read.advance)
            _write(private, str(path), passages, counts)
        read.finish()
    return Corpus(folder)


def from_passages(passages: Sequence[Passage]) -> Corpus:
    """The corpus of a list, stored on the first call. Raises `UsageError` as `from_file` does."""
    content = hashlib.sha256()
    for passage in passages:
        content.update(canonical_json(_row(passage)).encode() + b"\n")
    folder = _folder([LAYOUT, content.hexdigest()])
    if not folder.is_dir():
        with building(folder) as private:
            _write(private, "a list of passages", passages, Counter())
    return Corpus(folder)


def _folder(key: list[Any]) -> Path:
    return cache_home() / "corpora" / digest(key)


def _row(passage: Passage) -> dict[str, str]:
    return {"id": passage.passage_id, "title": passage.title, "text": passage.text}


def _write(folder: Path, source: str, passages: Iterable[Passage], counts: Counter[str]) -> None:
    """Write a corpus into an empty folder. `counts` is read at the end."""
    ids = array("Q")
    with RowWriter(folder / PASSAGES, _SCHEMA) as writer:
        for passage in passages:
            writer.add(_row(passage))
            name = hashlib.blake2b(passage.passage_id.encode(), digest_size=8).digest()
            ids.append(int.from_bytes(name, "little"))
    if not writer.n_rows:
        raise UsageError(f"{source} holds no passage with a text ({dict(counts) or 'it is empty'})")
    _check_ids(source, Rows(folder / PASSAGES), ids)
    summary = {
        "layout": LAYOUT,
        "source": source,
        "hash": writer.content_hash,
        "n_passages": writer.n_rows,
        "counts": {reason: n for reason, n in sorted(counts.items()) if n},
    }
    text = json.dumps(summary, indent=1, ensure_ascii=False)
    (folder / SUMMARY).write_text(text, encoding="utf-8")


def _check_ids(source: str, rows: Rows, ids: array[int]) -> None:
    """`UsageError` when two passages have one id; records could not say which was seen."""
    hashes = np.frombuffer(ids, dtype=np.uint64)
    order = np.argsort(hashes, kind="stable")
    twice = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    for first, second in ((int(order[i]), int(order[i + 1])) for i in twice):
        if rows[first]["id"] == rows[second]["id"]:
            raise UsageError(
                f"{source}: passages {first + 1} and {second + 1} both have the id "
                f"{rows[first]['id']!r}; {len(twice)} such pairs in {len(rows)} passages",
                hint="give every passage an id of its own",
            )
