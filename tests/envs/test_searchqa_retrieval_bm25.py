"""BM25 over a stored corpus finds what BM25 over the same texts in memory finds."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs.bm25 import BM25Index
from prover_cli.envs.searchqa.retrieval import corpus as corpora
from prover_cli.envs.searchqa.retrieval.bm25 import BM25Retriever
from prover_cli.envs.searchqa.types import Passage
from prover_cli.errors import UsageError
from tests.envs.searchqa_retrieval import PASSAGES


def test_titles_and_texts_are_searched() -> None:
    retriever = BM25Retriever(corpora.from_passages(PASSAGES))
    hits = retriever.search("Lovelace", 3)
    assert {hit.passage.passage_id for hit in hits} == {"p0", "p2"}
    assert hits[0].score >= hits[1].score > 0
    assert retriever.name == "bm25(k1=0.9, b=0.4)"


@pytest.mark.parametrize("query", ["", "the of", "zzz", "\x00\ud800", "?!" * 1000])
def test_a_query_without_a_known_term_finds_nothing(query: str) -> None:
    assert BM25Retriever(corpora.from_passages(PASSAGES)).search(query, 3) == []


def test_equal_passages_come_in_the_order_of_the_corpus() -> None:
    twins = [Passage(str(i), "Twin", f"the same text{'' if i % 2 else ' the'}") for i in range(40)]
    hits = BM25Retriever(corpora.from_passages(twins)).search("twin", 7)
    assert [hit.passage.passage_id for hit in hits] == [str(i) for i in range(7)]


@pytest.mark.parametrize("k", [0, -1])
def test_no_hits_are_found_when_none_are_wanted(k: int) -> None:
    assert BM25Retriever(corpora.from_passages(PASSAGES)).search("Lovelace", k) == []


def test_many_threads_get_what_one_gets() -> None:
    passages = [
        Passage(str(i), f"Number {i}", f"divides {i % 7} and {i % 11}") for i in range(3000)
    ]
    retriever = BM25Retriever(corpora.from_passages(passages))
    queries = [f"number {i} divides {i % 5}" for i in range(200)]
    alone = [retriever.search(query, 5) for query in queries]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda query: retriever.search(query, 5), queries)) == alone


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="b between 0 and 1"):
        BM25Retriever(corpora.from_passages(PASSAGES), b=1.5)


@pytest.fixture(scope="module")
def shared() -> Path:
    folder = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "searchqa"
    if not folder.is_dir():
        pytest.skip("the SearchQA reference data is not beside the repository")
    return folder


@pytest.fixture(scope="module")
def retriever(shared: Path) -> BM25Retriever:
    return BM25Retriever(corpora.from_file(shared / "corpus_14347.jsonl.xz"))


def questions(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


@pytest.mark.reference
def test_results_equal_those_of_an_index_in_memory(shared: Path, retriever: BM25Retriever) -> None:
    corpus = retriever.corpus
    contents = [f'"{passage.title}"\n{passage.text}' for passage in islice(corpus, 3000)]
    index = BM25Index.of(contents)
    own = BM25Retriever(corpora.from_passages(corpus[:3000]))
    for question in islice(questions(shared / "questions_with_wiki18_support.jsonl"), 0, None, 20):
        expected = index.search(question["question"], 10)
        scores = index.scores(question["question"])
        hits = own.search(question["question"], 10)
        assert [hit.passage for hit in hits] == [corpus[place] for place in expected]
        assert [hit.score for hit in hits] == [float(scores[place]) for place in expected]


def normal(text: str) -> str:
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def share_answered(retriever: BM25Retriever, asked: Sequence[dict[str, Any]], k: int) -> float:
    """The share of questions with an answer in the first `k` passages."""

    def answered(question: dict[str, Any]) -> bool:
        hits = retriever.search(question["question"], k)
        seen = [normal(f"{hit.passage.title} {hit.passage.text}") for hit in hits]
        return any(normal(answer) in text for answer in question["golden_answers"] for text in seen)

    return sum(map(answered, asked)) / len(asked)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("file", "source", "expected"),
    [
        ("questions_with_wiki18_support", "nq", 0.90),
        ("questions_with_wiki18_support", "triviaqa", 0.95),
        ("questions_with_wiki18_support", "popqa", 0.90),
        ("questions_with_wiki18_support", "bamboogle", 0.88),
        ("twowiki_supported", None, 0.64),
        ("hotpot_distractor100", None, 0.57),
        ("adaptive_rag_musique", None, 0.45),
    ],
)
def test_answers_are_found_as_often_as_measured(
    shared: Path, retriever: BM25Retriever, file: str, source: str | None, expected: float
) -> None:
    asked = list(questions(shared / f"{file}.jsonl"))
    if source is not None:
        asked = [question for question in asked if question["data_source"] == source]
    assert share_answered(retriever, asked, 3) == pytest.approx(expected, abs=0.02)
