"""Passages, and search servers that behave and misbehave, for the tests of retrieval."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prover_cli.envs.searchqa.retrieval.server import RetrieverServer
from prover_cli.envs.searchqa.types import Hit, Passage, Retriever

PASSAGES = [
    Passage("p0", "Ada Lovelace", "An English mathematician who wrote on the analytical engine."),
    Passage(
        "p1", "Charles Babbage", "He designed the analytical engine and the difference engine."
    ),
    Passage("p2", "Byron", "A poet, the father of Ada Lovelace.\nHe died in Greece."),
    Passage("p3", "Greece", "A country whose capital is Athens."),
]
ANSWER = {"result": [[{"document": {"id": "7", "contents": '"Athens"\nA capital.'}, "score": 1.5}]]}
Answer = Callable[[dict[str, Any], int], tuple[int, bytes]]
"""From the request and its number (from 0) to a status and a body."""


def good(request: dict[str, Any], number: int) -> tuple[int, bytes]:
    return 200, json.dumps(ANSWER).encode()


class SlowRetriever:
    """Counts its searches and takes a while for each."""

    name, corpus_hash = "slow", "c0"

    def __init__(self, seconds: float = 0.0) -> None:
        self.asked: list[tuple[str, int]] = []
        self.closed = False
        self._seconds = seconds

    def search(self, query: str, k: int) -> list[Hit]:
        self.asked.append((query, k))
        time.sleep(self._seconds)
        return [Hit(passage, 1.0 / (place + 1)) for place, passage in enumerate(PASSAGES[:k])]

    def close(self) -> None:
        self.closed = True


class ForeignServer(ThreadingHTTPServer):
    """Answers what a function says, and keeps the requests."""

    daemon_threads = True

    def __init__(self, answer: Answer, port: int = 0) -> None:
        self.answer, self.requests = answer, list[dict[str, Any]]()
        self.dead = False
        super().__init__(("127.0.0.1", port), _Handler)

    def die(self) -> None:
        """Answer nothing more, on open connections neither."""
        self.dead = True
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ForeignServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        self._send(*self.server.answer(request, len(self.server.requests) - 1))

    def do_GET(self) -> None:
        self._send(404, b"<html>no such page</html>")

    def _send(self, status: int, body: bytes) -> None:
        if self.server.dead:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def foreign(answer: Answer, port: int = 0) -> Iterator[ForeignServer]:
    """Another project's search server."""
    server = ForeignServer(answer, port)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.die()


@contextmanager
def serving(retriever: Retriever, **options: Any) -> Iterator[str]:
    """Our own server on a free port; gives its URL."""
    server = RetrieverServer(retriever, port=0, **options)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server.url
    finally:
        server.stop()
