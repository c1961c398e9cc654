"""A search server that speaks Search-R1's and verl-agent's protocol.

`POST /retrieve` takes `{"queries": [...]}` or `{"query": "..."}` (with both, `queries` counts), and
optionally `topk` (null or 0: the server's default) and `return_scores` (false: plain documents).
It answers `{"result": [...]}`, one list a query: documents `{"id", "contents", "title", "text"}`,
or `{"document": ..., "score": ...}` with scores. `GET /health` tells the engine and the corpus.
A request that is none of this gets a status and a JSON `detail` that says why.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from prover_cli.envs.searchqa.retrieval.documents import document_of
from prover_cli.envs.searchqa.types import Hit, RetrievalFailed, Retriever
from prover_cli.errors import UsageError

LARGEST_BODY = 8 * 2**20
MOST_QUERIES, MOST_HITS = 10_000, 1000
IDLE_SECONDS = 60.0
"""How long a connection may say nothing."""
GRACE_SECONDS = 10.0
"""How long requests in progress may take to end when the server stops."""
_log = logging.getLogger(__name__)


class Request(BaseModel, strict=True):
    """The body of a search."""

    queries: Annotated[list[str], Field(max_length=MOST_QUERIES)] | None = None
    query: str | None = None
    topk: Annotated[int, Field(ge=0, le=MOST_HITS)] | None = None
    return_scores: bool = False

    @model_validator(mode="after")
    def _asks_something(self) -> Request:
        if self.queries is None and self.query is None:
            raise ValueError("neither queries nor query is given")
        return self

    def all_queries(self) -> list[str]:
        return self.queries if self.queries is not None else [str(self.query)]


class RetrieverServer(ThreadingHTTPServer):
    """Serves one retriever, a thread a connection. `port` 0 takes a free one; see `url`.

    Raises `UsageError` when the address cannot be used.
    """

    daemon_threads = True
    request_queue_size = 1024

    def __init__(
        self, retriever: Retriever, *, host: str = "127.0.0.1", port: int = 8000, topk: int = 3
    ) -> None:
        self.retriever, self.topk = retriever, topk
        self._searching = threading.BoundedSemaphore(2 * (os.cpu_count() or 1))
        self._busy, self._idle = 0, threading.Condition()
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"{host}:{port} cannot be listened on: {error}",
                hint="choose another port (0 takes a free one): --port 0",
            ) from error

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_port}"

    def server_bind(self) -> None:
        """Bind without looking up the host's name, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no matter; anything else is a line on stderr."""
        if not isinstance(error := sys.exception(), ConnectionError | TimeoutError):
            _log.error("%s: %s: %s", client_address, type(error).__name__, error)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Holds a request that `stop` waits for."""
        with self._idle:
            self._busy += 1
        try:
            yield
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def results(self, asked: Request) -> list[list[Hit]]:
        """The hits of every query. Raises what the retriever raises."""
        k = asked.topk or self.topk
        with self._searching:
            return [self.retriever.search(query, k) for query in asked.all_queries()]

    def stop(self) -> None:
        """Accept nothing more, let what is in progress end (for some seconds), and close."""
        self.shutdown()
        with self._idle:
            self._idle.wait_for(lambda: not self._busy, GRACE_SECONDS)
        self.server_close()
        self.retriever.close()


def run(server: RetrieverServer, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `announce` gets the URL once searches are answered."""
    stopped = threading.Event()
    kept = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}).start()
    try:
        announce(server.url)
        stopped.wait()
    finally:
        server.stop()
        for number, handler in kept.items():
            signal.signal(number, handler)


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, detail: Any) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True
    error_content_type = "application/json"
    error_message_format = '{"detail": "%(message)s"}'
    server: RetrieverServer

    def do_POST(self) -> None:
        self._reply("/retrieve", self._found)

    def do_GET(self) -> None:
        self._reply("/health", self._health)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug(format, *args)  # a line a request would be too many

    def _reply(self, path: str, content: Callable[[], Any]) -> None:
        with self.server.working():
            try:
                self._check_path(path)
                status, answer = HTTPStatus.OK, content()
            except _Refused as refusal:
                status, answer = refusal.status, {"detail": refusal.detail}
            except (ConnectionError, TimeoutError):
                raise
            except Exception as error:
                failed = isinstance(error, RetrievalFailed)
                status = HTTPStatus.BAD_GATEWAY if failed else HTTPStatus.INTERNAL_SERVER_ERROR
                answer = {"detail": f"the search failed: {type(error).__name__}"}
                _log.error("the search failed: %s: %s", type(error).__name__, error)
            self._send(status, answer)

    def _check_path(self, path: str) -> None:
        asked = self.path.partition("?")[0]
        if asked == path:
            return
        self._leave()
        if asked in ("/retrieve", "/health"):
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{asked} has no {self.command}")
        raise _Refused(HTTPStatus.NOT_FOUND, "there are POST /retrieve and GET /health")

    def _leave(self) -> None:
        """Close the connection after this reply: its body was not read."""
        self.close_connection = True

    def _health(self) -> dict[str, Any]:
        retriever = self.server.retriever
        return {
            "status": "ok",
            "retriever": retriever.name,
            "corpus_hash": retriever.corpus_hash,
            "topk": self.server.topk,
        }

    def _found(self) -> dict[str, Any]:
        try:
            asked = Request.model_validate_json(self._body())
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            broken = any(problem["type"] == "json_invalid" for problem in problems)
            status = HTTPStatus.BAD_REQUEST if broken else HTTPStatus.UNPROCESSABLE_ENTITY
            raise _Refused(status, problems) from error
        results = self.server.results(asked)
        return {
            "result": [[_as_json(hit, asked.return_scores) for hit in hits] for hits in results]
        }

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._leave()
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "a body with a Content-Length is needed")
        if len(length) > 9 or int(length) > LARGEST_BODY:
            self._leave()
            raise _Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {LARGEST_BODY:,} bytes are read"
            )
        return self.rfile.read(int(length))

    def _send(self, status: HTTPStatus, answer: Any) -> None:
        body = json.dumps(answer, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _as_json(hit: Hit, with_score: bool) -> dict[str, Any]:
    document = document_of(hit.passage)
    return {"document": document, "score": hit.score} if with_score else dict(document)
