"""A search server is asked in both dialects; what it does wrong is an infrastructure error."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from prover_cli.envs.searchqa.retrieval import corpus as corpora
from prover_cli.envs.searchqa.retrieval import http as http_module
from prover_cli.envs.searchqa.retrieval.bm25 import BM25Retriever
from prover_cli.envs.searchqa.retrieval.http import PROBES, HttpRetriever, RetrieverUnavailable
from prover_cli.envs.searchqa.types import Hit, RetrievalFailed
from prover_cli.errors import EnvironmentFault, UsageError
from tests.envs.searchqa_retrieval import (
    ANSWER,
    PASSAGES,
    Answer,
    SlowRetriever,
    foreign,
    good,
    serving,
)

OPENED = len(PROBES)
"""Requests that opening takes."""
QUICK: dict[str, Any] = {"timeout": 5.0, "attempts": 3, "first_wait": 0.01}


def engine() -> BM25Retriever:
    return BM25Retriever(corpora.from_passages(PASSAGES))


@pytest.fixture
def url() -> Iterator[str]:
    with serving(engine()) as url:
        yield url


def after_opening(answer: Answer) -> Answer:
    """A server that is well until it was opened; numbers count from there."""

    def answers(request: dict[str, Any], number: int) -> tuple[int, bytes]:
        return good(request, number) if number < OPENED else answer(request, number - OPENED)

    return answers


def test_a_served_engine_answers_as_the_engine_itself(url: str) -> None:
    local, served = engine(), HttpRetriever(url, **QUICK)
    for query in ("analytical engine", "Greece", "the", "", 'quotes " and \n lines é 漢'):
        assert served.search(query, 3) == local.search(query, 3)
    assert (served.name, served.corpus_hash) == (local.name, local.corpus_hash)


@pytest.mark.parametrize("path", ["/retrieve", "/search/v2"])
def test_another_projects_server_is_asked_so_that_either_kind_understands(path: str) -> None:
    with foreign(good) as server:
        retriever = HttpRetriever(server.url + path, **QUICK)
        (hit,) = retriever.search("capital of Greece", 3)
        assert server.requests[-1] == {
            "queries": ["capital of Greece"],
            "query": "capital of Greece",
            "topk": 3,
            "return_scores": True,
        }
    assert (hit.passage.title, hit.passage.text, hit.score) == ("Athens", "A capital.", 1.5)
    assert retriever.corpus_hash.startswith("answers-")


def test_documents_without_scores_or_ids_are_taken_as_they_are() -> None:
    documents: list[Any] = [
        {"document": {"contents": '"A"\nx'}},
        {"id": "2", "title": "B", "text": "y"},
        {"id": "3", "contents": "one more than was asked for"},
    ]
    with foreign(lambda *_: (200, json.dumps({"result": [documents]}).encode())) as server:
        hits = HttpRetriever(server.url, **QUICK).search("q", 2)
    assert [(hit.passage.title, hit.score) for hit in hits] == [("A", 0.0), ("B", 0.0)]


HTML = b"<html><body>Sign in</body></html>"
NONSENSE = {
    "html": (200, HTML, "is HTML"),
    "no json": (200, b'{"result": [[', "not JSON"),
    "nothing": (200, b"", "not JSON"),
    "no result": (200, b'{"detail": "loading"}', "no `result`"),
    "two lists": (200, b'{"result": [[], []]}', "no `result`"),
    "no passage": (200, b'{"result": [[{"document": {"id": "1"}, "score": 1}]]}', "hit 1 is not"),
    "not a number": (
        200,
        b'{"result": [[{"document": {"id": "1", "contents": "x"}, "score": NaN}]]}',
        "score is nan",
    ),
    "no such page": (404, HTML, "status 404"),
    "not understood": (422, b'{"detail": "queries"}', "status 422"),
    "moved": (302, b"", "status 302"),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_an_answer_that_is_none_fails_at_once_with_the_fact(kind: str) -> None:
    status, body, fact = NONSENSE[kind]
    with foreign(after_opening(lambda *_: (status, body))) as server:
        retriever = HttpRetriever(server.url, **QUICK)
        with pytest.raises(RetrievalFailed, match=fact) as error:
            retriever.search("q", 3)
        assert len(server.requests) == OPENED + 1
    assert isinstance(error.value, EnvironmentFault)
    assert server.url in str(error.value)


def test_an_answer_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "LARGEST_ANSWER", 10_000)
    with foreign(after_opening(lambda *_: (200, b" " * 10**7))) as server:
        retriever = HttpRetriever(server.url, **QUICK)
        with pytest.raises(RetrievalFailed, match="larger than 10,000 bytes"):
            retriever.search("q", 3)


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_server_that_recovers_is_asked_again(status: int) -> None:
    def answer(request: dict[str, Any], number: int) -> tuple[int, bytes]:
        return (status, b"not now") if number < 2 else good(request, number)

    with foreign(after_opening(answer)) as server:
        assert len(HttpRetriever(server.url, **QUICK).search("q", 3)) == 1
        assert len(server.requests) == OPENED + 3


def test_a_server_that_does_not_recover_fails_the_search() -> None:
    with foreign(after_opening(lambda *_: (503, b"overloaded"))) as server:
        retriever = HttpRetriever(server.url, **QUICK)
        with pytest.raises(RetrievalFailed, match=r"3 tries.*status 503.*overloaded"):
            retriever.search("q", 3)


def test_a_server_that_hangs_fails_the_search_in_time() -> None:
    released = threading.Event()

    def hang(request: dict[str, Any], number: int) -> tuple[int, bytes]:
        released.wait(20)
        return 200, b""

    with foreign(after_opening(hang)) as server:
        retriever = HttpRetriever(server.url, timeout=0.3, attempts=2, first_wait=0.01)
        began = time.monotonic()
        with pytest.raises(RetrievalFailed, match=r"no answer within 0\.3 s"):
            retriever.search("q", 3)
        assert time.monotonic() - began < 5
        released.set()


def test_a_server_that_drips_fails_the_search_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RetrieverUnavailable, match=r"longer than 0\.3 s"):
            HttpRetriever(address, timeout=0.3, attempts=1)


def drip(listener: socket.socket) -> None:
    """One answer, a byte at a time."""
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            try:
                connection.sendall(b" ")
            except OSError:
                return
            time.sleep(0.02)


def test_a_server_that_dies_and_returns_is_waited_for() -> None:
    with foreign(good) as server:
        retriever = HttpRetriever(server.url, timeout=5, attempts=8, first_wait=0.1)
        port = server.server_port
        assert retriever.search("q", 3)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(retriever.search, "q", 3)
        time.sleep(0.3)
        assert not waiting.done()
        with foreign(good, port):
            assert waiting.result(timeout=20)


def test_a_server_that_is_down_at_opening_ends_the_command() -> None:
    with foreign(good) as server:
        gone = server.url
    with pytest.raises(RetrieverUnavailable) as error:
        HttpRetriever(gone, **QUICK)
    assert error.value.exit_code == 3
    assert gone in error.value.message and "serve-retriever" in str(error.value.hint)


def test_a_server_of_something_else_is_refused_at_opening() -> None:
    with (
        foreign(lambda *_: (200, HTML)) as server,
        pytest.raises(RetrieverUnavailable, match="HTML"),
    ):
        HttpRetriever(server.url, **QUICK)


def test_several_servers_take_turns_and_stand_in_for_each_other() -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(foreign(good)) for _ in range(2))
        retriever = HttpRetriever(f"{first.url}, {second.url}", **QUICK)
        for number in range(6):
            retriever.search(f"q{number}", 3)
        assert len(first.requests) == len(second.requests) == OPENED + 3
        second.die()
        for number in range(6):
            assert retriever.search(f"r{number}", 3)


def test_servers_of_different_corpora_are_refused() -> None:
    other = json.dumps(ANSWER).replace("Athens", "Sparta").encode()
    with foreign(good) as first, foreign(lambda *_: (200, other)) as second:
        with pytest.raises(UsageError, match="answers as search server on answers-"):
            HttpRetriever(f"{first.url},{second.url}", **QUICK)
        named = HttpRetriever(f"{first.url},{second.url}", corpus_hash="the web", **QUICK)
        assert named.corpus_hash == "the web"


@pytest.mark.parametrize("url", ["", " , ", "localhost:8000", "ftp://x/", "http://", "http://[x"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        HttpRetriever(url)


def test_forty_clients_at_once_get_the_right_answers() -> None:
    local = engine()
    queries = [f"{word} {number}" for number in range(4) for word in ("engine", "Ada", "capital")]
    expected = [local.search(query, 2) for query in queries]
    with serving(engine()) as url:
        retriever = HttpRetriever(url, **QUICK)

        def ask(_: int) -> list[list[Hit]]:
            return [retriever.search(query, 2) for query in queries]

        with ThreadPoolExecutor(40) as pool:
            assert all(answers == expected for answers in pool.map(ask, range(40)))


def test_the_server_speaks_both_dialects(url: str) -> None:
    batch = httpx2.post(
        f"{url}/retrieve", json={"queries": ["Greece", "zzz"], "topk": 1, "return_scores": True}
    ).json()
    assert [len(hits) for hits in batch["result"]] == [1, 0]
    document = batch["result"][0][0]["document"]
    assert document["contents"] == '"Greece"\nA country whose capital is Athens.'
    single = httpx2.post(f"{url}/retrieve", json={"query": "Greece", "topk": 0}).json()
    assert [d["id"] for d in single["result"][0]] == ["p3", "p2"]
    assert httpx2.get(f"{url}/health").json()["status"] == "ok"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"not json", 400),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"queries": "Greece"}', 422),
        (b'{"queries": [1]}', 422),
        (b'{"query": "Greece", "topk": -1}', 422),
        (b'{"query": "Greece", "topk": "3"}', 422),
        (b'{"query": "Greece", "topk": 100000}', 422),
        (b'{"query": "\\ud800"}', 400),
        (b" " * (9 * 2**20), 413),
    ],
)
def test_the_server_refuses_what_is_no_search(url: str, body: bytes, status: int) -> None:
    with httpx2.Client() as client:
        answer = client.post(f"{url}/retrieve", content=body)
        assert answer.status_code == status and answer.json()["detail"]
        assert client.post(f"{url}/retrieve", json={"query": "Greece"}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/retrieve", 405), ("POST", "/health", 405), ("PUT", "/", 501)],
)
def test_other_pages_are_refused_in_json(url: str, method: str, path: str, status: int) -> None:
    answer = httpx2.request(method, url + path)
    assert answer.status_code == status and answer.json()["detail"]


def test_a_failed_search_is_a_status_and_never_a_result() -> None:
    class Broken(SlowRetriever):
        def search(self, query: str, k: int) -> list[Hit]:
            raise RetrievalFailed("secret") if query == "gone" else ZeroDivisionError

    with serving(Broken()) as url:
        for query, status in (("gone", 502), ("bug", 500)):
            answer = httpx2.post(f"{url}/retrieve", json={"query": query})
            assert answer.status_code == status
            assert "result" not in answer.json() and "secret" not in answer.text


def test_stopping_lets_a_search_in_progress_end() -> None:
    slow = SlowRetriever(seconds=0.5)
    with ThreadPoolExecutor(1) as pool:
        with serving(slow) as url:
            asked = pool.submit(httpx2.post, f"{url}/retrieve", json={"query": "q"})
            while not slow.asked:
                time.sleep(0.01)
        assert asked.result().status_code == 200
    assert slow.closed
