"""Nearest passages by the inner product of embeddings, computed exactly with faiss.

The embeddings of a corpus are made once, by a model on this machine, and kept beside it as one
float32 file, which is mapped: faiss reads it in place, so opening takes no time and processes share
the memory. An interrupted build goes on where it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prover_cli.envs.base import Progress
from prover_cli.envs.cache import mapped_array
from prover_cli.envs.searchqa.retrieval.corpus import Corpus, Silent
from prover_cli.envs.searchqa.types import Hit
from prover_cli.errors import StorageError, UsageError
from prover_cli.ids import digest
from prover_cli.shards.lock import stage_lock

INSTALL = "pip install 'prover-cli[searchqa-dense]'"
LAYOUT = 1
VECTORS, DONE = "vectors.npy", "done.json"
PASSAGES_PER_NOTE = 4096
"""Passages after which a build notes how far it is."""


class DenseRetriever:
    """Searches a corpus with the embedding model in the folder `model`.

    Queries and passages get the prefixes that E5 models were trained with; other models take
    others, or none. Texts are cut to `max_length` tokens. Raises `UsageError` when faiss is not
    installed, for a folder without a model, and for embeddings that are damaged.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        model: str,
        pooling: str = "mean",
        query_prefix: str = "query: ",
        passage_prefix: str = "passage: ",
        max_length: int = 256,
        batch_size: int = 64,
        device: str = "auto",
        progress: Progress | None = None,
    ) -> None:
        self._faiss = _faiss()
        from prover_cli.envs.searchqa.retrieval.embedder import Embedder

        if max_length < 1 or batch_size < 1:
            raise UsageError("max_length and batch_size are at least 1")
        folder = Path(model).expanduser()
        embedder = Embedder(folder, pooling=pooling, max_length=max_length, device=device)
        self._embedder, self._query_prefix = embedder, query_prefix
        self.corpus = corpus
        rules = [LAYOUT, embedder.model_id, pooling, passage_prefix, max_length]
        self.name = f"dense({embedder.model_id}, {digest([rules, query_prefix], 8)})"

        def embed(texts: list[str]) -> NDArray[np.float32]:
            return embedder.embed([passage_prefix + text for text in texts])

        place = corpus.folder / f"dense-{digest(rules)}"
        self._vectors = _vectors(
            place, corpus, embedder.size, embed, batch_size, progress or Silent()
        )

    @property
    def corpus_hash(self) -> str:
        return self.corpus.hash

    def search(self, query: str, k: int) -> list[Hit]:
        """The `k` passages with the highest inner product; equal ones in corpus order."""
        wanted = min(k, len(self.corpus))
        if wanted < 1:
            return []
        vector = self._embedder.embed([self._query_prefix + query])
        inner = self._faiss.METRIC_INNER_PRODUCT
        scores, places = self._faiss.knn(vector, self._vectors, wanted, metric=inner)
        found = sorted(zip(places[0].tolist(), scores[0].tolist(), strict=True))
        best = sorted(found, key=lambda pair: -pair[1])
        return [Hit(self.corpus[place], score) for place, score in best]

    def close(self) -> None:
        """Nothing is held but mapped files."""


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise UsageError("dense retrieval needs faiss, which is missing", hint=INSTALL) from error
    return faiss


def _vectors(
    folder: Path,
    corpus: Corpus,
    size: int,
    embed: Callable[[list[str]], NDArray[np.float32]],
    batch_size: int,
    progress: Progress,
) -> NDArray[np.float32]:
    """The mapped embeddings of a corpus: [passages, size]; made on the first call."""
    shape = (len(corpus), size)
    if not folder.is_dir():
        partial = folder.with_name(f"{folder.name}.partial")
        with stage_lock(partial):
            if not folder.is_dir():
                _build(partial, corpus, shape, embed, batch_size, progress)
                partial.rename(folder)
    try:
        vectors = mapped_array(folder / VECTORS)
    except UsageError as error:
        raise _damaged(folder, error.message) from error
    if vectors.shape != shape or vectors.dtype != np.float32:
        raise _damaged(folder, f"{vectors.dtype} {vectors.shape}, not float32 {shape}")
    return vectors


def _damaged(folder: Path, why: str) -> UsageError:
    return UsageError(
        f"the embeddings in {folder} are damaged: {why}",
        hint=f"remove {folder} and repeat the command: they are made again",
    )


def _build(
    folder: Path,
    corpus: Corpus,
    shape: tuple[int, int],
    embed: Callable[[list[str]], NDArray[np.float32]],
    batch_size: int,
    progress: Progress,
) -> None:
    """Fill a folder from where an earlier build left it."""
    path, note = folder / VECTORS, folder / DONE
    try:
        done = _done(path, note, shape)
        vectors = np.lib.format.open_memmap(
            path, mode="r+" if done else "w+", dtype=np.float32, shape=shape
        )
        if not done:
            _reserve(path)
        progress.start("embedding", len(corpus), "passages")
        progress.advance(done)
        while done < len(corpus):
            end = min(done + PASSAGES_PER_NOTE, len(corpus))
            for start in range(done, end, batch_size):
                stop = min(start + batch_size, end)
                texts = [f"{p.title}\n{p.text}" for p in corpus[start:stop]]
                vectors[start:stop] = embed(texts)
                progress.advance(stop - start)
            done = end
            vectors.flush()
            note.write_text(json.dumps(done), encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"the embeddings {path} cannot be written: {error.strerror or error}",
            hint="name a folder with room: export PROVER_CACHE=DIR",
        ) from error


def _reserve(path: Path) -> None:
    """Take the room on disk now: writing to mapped memory cannot report a full disk."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _done(path: Path, note: Path, shape: tuple[int, int]) -> int:
    """How many passages an earlier build embedded."""
    try:
        done = int(json.loads(note.read_bytes()))
        kept = np.load(path, mmap_mode="r")
    except (OSError, ValueError, TypeError):
        return 0
    return done if kept.shape == shape and 0 < done <= shape[0] else 0
