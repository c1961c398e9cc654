"""Search engines by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prover_cli.envs.base import Progress
from prover_cli.envs.cache import cache_home
from prover_cli.envs.searchqa.retrieval import corpus as corpora
from prover_cli.envs.searchqa.retrieval.cache import CachedRetriever
from prover_cli.envs.searchqa.types import Passage, Retriever
from prover_cli.errors import UsageError

KINDS = ("bm25", "dense", "http")
CACHES = ("memory", "disk")


def open_retriever(
    kind: str,
    *,
    corpus: str | None = None,
    passages: Sequence[Passage] | None = None,
    url: str | None = None,
    progress: Progress | None = None,
    cache: str = "memory",
    **options: Any,
) -> CachedRetriever:
    """The search engine `kind` over a corpus file or a list of passages, or behind `url` (http).

    `cache` is where results are remembered: memory, or disk for those of other processes too.
    Other options are the engine's own: k1, b (bm25); model and those of `DenseRetriever`; timeout,
    attempts, corpus_hash (http). Without `progress`, a large corpus file that nobody has prepared
    is refused. Raises `UsageError` for what does not go together, and what the engine raises.
    """
    if kind not in KINDS:
        raise UsageError(f"there is no retriever called {kind!r}; known: {', '.join(KINDS)}")
    if cache not in CACHES:
        raise UsageError(f"results are cached in {' or '.join(CACHES)}, not in {cache!r}")
    if kind == "http":
        inner = _behind(url, corpus or passages, options)
    else:
        inner = _local(kind, _corpus(kind, corpus, passages, url, progress), progress, options)
    return CachedRetriever(inner, file=_results_file() if cache == "disk" else None)


def options_of(kind: str) -> set[str]:
    """The options of an engine's own and `cache`."""
    return {p.name for p in _own(_factory(kind))} | {"cache"}


def _results_file() -> Path:
    return cache_home() / "searchqa" / "results.sqlite"


def _corpus(
    kind: str,
    file: str | None,
    passages: Sequence[Passage] | None,
    url: str | None,
    progress: Progress | None,
) -> corpora.Corpus:
    if url is not None:
        raise UsageError(f"retriever {kind} has no url", hint="retriever http has one")
    if (file is None) == (passages is None):
        raise UsageError(f"retriever {kind} needs one corpus", hint="name it: --corpus FILE")
    if passages is not None:
        return corpora.from_passages(passages)
    return corpora.from_file(Path(str(file)).expanduser(), progress)


def _local(
    kind: str, corpus: corpora.Corpus, progress: Progress | None, options: Mapping[str, Any]
) -> Retriever:
    factory = _factory(kind)
    _check_options(kind, factory, options)
    retriever: Retriever = factory(corpus, progress=progress, **options)
    return retriever


def _behind(url: str | None, corpus: object, options: Mapping[str, Any]) -> Retriever:
    if url is None or corpus:
        raise UsageError(
            "retriever http takes a url and no corpus, which is the server's",
            hint="start a server: prover serve-retriever --corpus FILE --port 8000",
        )
    factory = _factory("http")
    _check_options("http", factory, options)
    retriever: Retriever = factory(url, **options)
    return retriever


def _factory(kind: str) -> Callable[..., Any]:
    if kind == "bm25":
        from prover_cli.envs.searchqa.retrieval.bm25 import BM25Retriever

        return BM25Retriever
    if kind == "dense":
        from prover_cli.envs.searchqa.retrieval.dense import DenseRetriever

        return DenseRetriever
    from prover_cli.envs.searchqa.retrieval.http import HttpRetriever

    return HttpRetriever


def _own(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(factory).parameters.values()
    return [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "progress"]


def _check_options(kind: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """`UsageError` for options that an engine lacks or that it needs and did not get."""
    own = _own(factory)
    known = {p.name for p in own}
    if unknown := sorted(set(options) - known):
        raise UsageError(
            f"retriever {kind} has no option {', '.join(unknown)}; "
            f"it has: {', '.join(sorted(known))}"
        )
    needed = {p.name for p in own if p.default is p.empty}
    if lacking := sorted(needed - set(options)):
        raise UsageError(f"retriever {kind} needs {', '.join(lacking)}")
