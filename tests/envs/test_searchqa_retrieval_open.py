"""Engines are opened by name, and options that do not go together are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs.searchqa.retrieval.documents import document_of
from prover_cli.envs.searchqa.retrieval.open import open_retriever
from prover_cli.errors import UsageError
from tests.envs.searchqa_retrieval import PASSAGES, serving


class Watching:
    """A progress that keeps what it was told."""

    def __init__(self) -> None:
        self.started: dict[str, int] = {}
        self.done = 0

    def start(self, what: str, total: int, unit: str) -> None:
        self.started[f"{what} {unit}"], self.done = total, 0

    def advance(self, n: int = 1, facts: str = "") -> None:
        self.done += n

    def note(self, text: str) -> None: ...


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f"{json.dumps(document_of(passage))}\n" for passage in PASSAGES))
    return str(path)


def test_one_corpus_is_one_corpus_wherever_it_comes_from(corpus: str) -> None:
    engines = [
        open_retriever("bm25", corpus=corpus),
        open_retriever("bm25", passages=PASSAGES),
        open_retriever("bm25", passages=PASSAGES, cache="disk"),
    ]
    with serving(engines[0]) as url:
        engines.append(open_retriever("http", url=url, attempts=2))
        results = [engine.search("analytical engine", 2) for engine in engines]
    assert all(result == results[0] for result in results) and len(results[0]) == 2
    assert len({(engine.name, engine.corpus_hash) for engine in engines}) == 1


def test_parameters_reach_the_engine() -> None:
    assert open_retriever("bm25", passages=PASSAGES, k1=2, b=0).name == "bm25(k1=2.0, b=0.0)"


def test_building_tells_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f'{{"id": "{i}", "text": "{"word " * 80}"}}\n' for i in range(5000)))
    progress = Watching()
    open_retriever("bm25", corpus=str(path), progress=progress)
    assert progress.started == {"reading MB": 3, "indexing passages": 5000}
    assert progress.done == 5000
    again = Watching()
    open_retriever("bm25", corpus=str(path), progress=again)
    assert again.started == {}


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("google", {}, "no retriever called 'google'; known: bm25, dense, http"),
        ("bm25", {}, "needs one corpus"),
        ("bm25", {"passages": PASSAGES, "corpus": "x"}, "needs one corpus"),
        ("bm25", {"passages": PASSAGES, "url": "http://x"}, "has no url"),
        ("bm25", {"passages": PASSAGES, "k2": 1}, "no option k2; it has: b, k1"),
        ("bm25", {"passages": PASSAGES, "cache": "ram"}, "memory or disk"),
        ("bm25", {"passages": []}, "holds no passage"),
        ("dense", {"passages": PASSAGES}, "needs model"),
        ("http", {}, "takes a url"),
        ("http", {"url": "http://x", "passages": PASSAGES}, "no corpus"),
        ("http", {"url": "http://x", "k1": 1}, "no option k1"),
    ],
)
def test_what_does_not_go_together_is_refused(
    kind: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        open_retriever(kind, **options)
