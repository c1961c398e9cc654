"""A search is made once; its result is the same from memory, from disk and from a record."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prover_cli.envs.searchqa.retrieval.cache import CachedRetriever
from prover_cli.envs.searchqa.types import Hit, RetrievalFailed
from prover_cli.errors import StorageError
from tests.envs.searchqa_retrieval import SlowRetriever


class Failing(SlowRetriever):
    def search(self, query: str, k: int) -> list[Hit]:
        super().search(query, k)
        raise RetrievalFailed("the server is gone")


def test_a_repeated_search_is_not_made_again() -> None:
    inner = SlowRetriever()
    cached = CachedRetriever(inner)
    first = cached.search("q", 2)
    first.clear()  # what a caller does to its list is its own affair
    assert len(cached.search("q", 2)) == 2
    assert len(cached.search("q", 3)) == 3
    assert inner.asked == [("q", 2), ("q", 3)]
    assert (cached.name, cached.corpus_hash) == ("slow", "c0")


def test_the_oldest_result_makes_room() -> None:
    inner = SlowRetriever()
    cached = CachedRetriever(inner, size=2)
    for query in ("a", "b", "a", "c", "a", "b"):
        cached.search(query, 1)
    assert [query for query, _ in inner.asked] == ["a", "b", "c", "b"]


def test_threads_that_ask_the_same_share_one_search() -> None:
    inner = SlowRetriever(seconds=0.2)
    cached = CachedRetriever(inner)
    with ThreadPoolExecutor(40) as pool:
        results = list(pool.map(lambda _: cached.search("q", 2), range(40)))
    assert inner.asked == [("q", 2)]
    assert all(result == results[0] for result in results)


def test_a_failure_is_not_remembered() -> None:
    inner = Failing()
    cached = CachedRetriever(inner)
    for _ in range(2):
        with pytest.raises(RetrievalFailed):
            cached.search("q", 1)
    assert len(inner.asked) == 2


def test_threads_that_wait_for_a_failed_search_fail_too() -> None:
    cached = CachedRetriever(Failing(seconds=0.1))
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(cached.search, "q", 1) for _ in range(8)]
    assert all(isinstance(future.exception(), RetrievalFailed) for future in futures)


def test_results_on_disk_serve_other_processes_of_the_same_engine_and_corpus(
    tmp_path: Path,
) -> None:
    file = tmp_path / "new" / "results.sqlite"
    found = CachedRetriever(SlowRetriever(), file=file).search("q\ud800", 2)
    again = SlowRetriever()
    assert CachedRetriever(again, file=file).search("q\ud800", 2) == found
    assert again.asked == []
    other = SlowRetriever()
    other.corpus_hash = "c1"
    CachedRetriever(other, file=file).search("q\ud800", 2)
    assert other.asked == [("q\ud800", 2)]


def test_many_writers_share_one_file(tmp_path: Path) -> None:
    file = tmp_path / "results.sqlite"

    def work(number: int) -> None:
        cached = CachedRetriever(SlowRetriever(), file=file)
        for query in range(20):
            cached.search(str(query % (number + 5)), 2)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with sqlite3.connect(file) as store:
        assert store.execute("select count(*) from results").fetchone() == (12,)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "results.sqlite"
    file.write_bytes(b"not a database, and long enough to be looked at" * 100)
    with pytest.raises(StorageError, match="cannot be kept in"):
        CachedRetriever(SlowRetriever(), file=file)


def test_a_file_that_breaks_later_is_given_up_aloud(tmp_path: Path) -> None:
    file = tmp_path / "results.sqlite"
    cached = CachedRetriever(SlowRetriever(), file=file)
    with sqlite3.connect(file) as store:
        store.execute("drop table results")
    with pytest.warns(RuntimeWarning, match="no longer used"):
        assert len(cached.search("q", 2)) == 2
    assert len(cached.search("r", 2)) == 2
