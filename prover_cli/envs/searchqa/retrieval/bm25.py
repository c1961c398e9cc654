"""BM25 exactly as Lucene's over the titles and texts of a corpus."""

from __future__ import annotations

from pathlib import Path

from prover_cli.envs import bm25, bm25_build, lucene
from prover_cli.envs.base import Progress
from prover_cli.envs.bm25 import K1, B, BM25Index
from prover_cli.envs.bm25_build import IndexBuilder
from prover_cli.envs.cache import building, check
from prover_cli.envs.searchqa.retrieval.corpus import Corpus, Silent
from prover_cli.envs.searchqa.types import Hit
from prover_cli.errors import UsageError
from prover_cli.ids import digest, file_hash


class BM25Retriever:
    """Searches a corpus; its index is built on the first use and kept beside the corpus.

    Raises `UsageError` for parameters out of range and for an index that is damaged.
    """

    def __init__(
        self, corpus: Corpus, *, k1: float = K1, b: float = B, progress: Progress | None = None
    ) -> None:
        if not (k1 > 0 and 0 <= b <= 1):
            raise UsageError(f"BM25 takes k1 > 0 and b between 0 and 1, not k1={k1}, b={b}")
        self.corpus = corpus
        self.name = f"bm25(k1={float(k1)}, b={float(b)})"
        folder = _built(corpus, progress or Silent())
        check(folder)
        self._index = BM25Index.open(folder, k1=k1, b=b)

    @property
    def corpus_hash(self) -> str:
        return self.corpus.hash

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages that share a term with the query; ties in corpus order."""
        return [Hit(self.corpus[place], score) for place, score in self._index.ranked(query, k)]

    def close(self) -> None:
        """Nothing is held but mapped files."""


def _built(corpus: Corpus, progress: Progress) -> Path:
    """The folder of the corpus's index, made by the rules that are in force now."""
    rules = [file_hash(Path(str(module.__file__))) for module in (bm25, bm25_build, lucene)]
    folder = corpus.folder / f"bm25-{digest(rules)}"
    if folder.is_dir():
        return folder
    progress.start("indexing", len(corpus), "passages")
    with building(folder) as private:
        builder = IndexBuilder(private)
        for texts in corpus.searched_texts():
            for text in texts:
                builder.add(text)
            progress.advance(len(texts))
        builder.finish()
    return folder
