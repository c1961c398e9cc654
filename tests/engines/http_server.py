"""A local server of the OpenAI API in front of one of our engines, which can be told to misbehave.

What it answers is what the engine answers, so an adapter is right when it gives the same. Faults
are told by name, for the next requests (`misbehave`) or for all (`always`); see `_FAULTS`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prover_cli.engines.base import Engine, FinishReason, GenerationRequest, Sampling
from prover_cli.engines.openai_loop import LoopThread
from prover_cli.envs.base import Message
from prover_cli.tokens.render import ChatRenderer


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256
    local: LocalServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""


class LocalServer:
    """Serves `engine` at `url`. `cards` is what it lists as its models."""

    def __init__(self, engine: Engine, policy: Path, model: str | None = None) -> None:
        self._engine, self._renderer = engine, ChatRenderer.load(policy)
        self._loop = LoopThread("local-server")
        name = str(policy) if model is None else model
        self.cards: list[dict[str, Any]] = [
            {"id": name, "root": name, "max_model_len": engine.max_model_len}
        ]
        self.always: str | None = None
        self.slow_seconds = 0.5
        self.retry_after = "0"
        self.bodies: list[dict[str, Any]] = []
        """What was asked of it, `GET` apart."""
        self.keys: set[str] = set()
        """The `Authorization` headers that it was sent."""
        self.most_in_flight = 0
        self._in_flight = 0
        self._next: deque[str] = deque()
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._port = 0
        self.come_back()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def work(self) -> list[dict[str, Any]]:
        """What was asked of it by others than a check of the server."""
        return [body for body in self.bodies if body.get("top_k") != 1]

    def misbehave(self, *faults: str) -> None:
        """What the next requests meet, one each."""
        self._next.extend(faults)

    def die(self) -> None:
        """End every connection and refuse new ones."""
        self._http.shutdown()
        self._http.server_close()
        for connection in list(self._connections):
            _end(connection)
        self._thread.join()

    def come_back(self) -> None:
        """Listen again, at the same address."""
        self._http = _HTTPServer(("127.0.0.1", self._port), _Handler)
        self._http.local = self
        self._port = self._http.server_address[1]
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self.die()
        self._loop.wait(self._engine.close())
        self._loop.stop()

    # What handlers use

    def next_fault(self) -> str | None:
        with self._lock:
            return self._next.popleft() if self._next else self.always

    def opened(self, connection: socket.socket) -> None:
        self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        self._connections.discard(connection)

    def answer(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What a good server answers."""
        with self._lock:
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            return self._chat(body) if "chat" in path else self._complete(body)
        finally:
            with self._lock:
                self._in_flight -= 1

    def _complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        generation = self._generate(tuple(body["prompt"]), body, tuple(body["stop_token_ids"]))
        # The scripted engine does not know that a choice of one is certain.
        certain = body["top_k"] == 1
        logprobs = [0.0] * len(generation.ids) if certain else list(generation.logprobs)
        choice = {
            "index": 0,
            "text": self._renderer.decode(generation.ids),
            "finish_reason": _finish(generation.finish_reason),
            "logprobs": {"token_logprobs": logprobs},
            "token_ids": list(generation.ids),
            "prompt_token_ids": body["prompt"],
        }
        cached = {"cached_tokens": generation.n_cached}
        usage = {"prompt_tokens": len(body["prompt"]), "prompt_tokens_details": cached}
        return {"object": "text_completion", "choices": [choice], "usage": usage}

    def _chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        messages = [Message(m["role"], m["content"]) for m in body["messages"]]
        prompt = tuple(self._renderer.prompt(messages))
        generation = self._generate(prompt, body, self._renderer.stop_ids)
        message = {"role": "assistant", "content": self._renderer.decode(generation.ids)}
        finish = _finish(generation.finish_reason)
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(generation.ids)}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {"object": "chat.completion", "choices": [choice], "usage": usage}

    def _generate(self, prompt: tuple[int, ...], body: Mapping[str, Any], stop: Any) -> Any:
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        sampling = Sampling(
            limit, stop, body["temperature"], body.get("top_p", 1.0), body.get("top_k", 0)
        )
        request = GenerationRequest(prompt, sampling, body["seed"])
        return self._loop.wait(self._engine.generate(request))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HTTPServer

    def setup(self) -> None:
        super().setup()
        self.server.local.opened(self.connection)

    def finish(self) -> None:
        self.server.local.closed(self.connection)
        super().finish()

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        local = self.server.local
        local.keys.add(self.headers["Authorization"])
        self.send(200, {"object": "list", "data": local.cards})

    def do_POST(self) -> None:
        local = self.server.local
        local.keys.add(self.headers["Authorization"])
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        local.bodies.append(body)
        fault = local.next_fault()
        if fault in _FAULTS:
            _FAULTS[fault](self)
            return
        answer = local.answer(self.path, body)
        if fault is None:
            self.send(200, answer)
        else:
            _CHANGES[fault](self, answer, body)

    def send(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        self.send_bytes(status, json.dumps(value).encode(), headers or {})

    def send_bytes(
        self,
        status: int,
        content: bytes,
        headers: Mapping[str, str],
        kind: str = "application/json",
        length: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, status: int, message: str, param: str | None = None) -> None:
        error = {"message": message, "type": "BadRequestError", "param": param, "code": status}
        self.send(status, {"error": error})


def _end(connection: socket.socket) -> None:
    """End a connection that a handler may be waiting on."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _reset(handler: _Handler) -> None:
    """End a connection as a killed process does, without a goodbye."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(handler.connection.detach())
    handler.close_connection = True


# Faults without an answer of the engine


def _busy(handler: _Handler) -> None:
    headers = {"Retry-After": handler.server.local.retry_after}
    handler.send(429, {"error": {"message": "too many requests"}}, headers)


def _cut(handler: _Handler) -> None:
    """Half of an answer, then the end of the connection."""
    handler.send_bytes(200, b'{"choices": [{"te', {}, length=1000)
    handler.close_connection = True


def _html(handler: _Handler) -> None:
    page = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
    handler.send_bytes(200, page, {}, kind="text/html")


def _unauthorised(handler: _Handler) -> None:
    handler.refuse(401, f"incorrect key provided: {handler.headers['Authorization']}")


_FAULTS: dict[str | None, Callable[[_Handler], None]] = {
    "busy": _busy,
    "error": lambda handler: handler.refuse(500, "out of memory"),
    "half": lambda handler: handler.send_bytes(200, b'{"choices": [{"te', {}),
    "cut": _cut,
    "reset": _reset,
    "html": _html,
    "bad": lambda handler: handler.refuse(400, "max_tokens is too large"),
    "no model": lambda handler: handler.refuse(404, "The model does not exist."),
    "unauthorised": _unauthorised,
}


# Faults in an answer


def _slow(handler: _Handler, answer: dict[str, Any], body: Mapping[str, Any]) -> None:
    time.sleep(handler.server.local.slow_seconds)
    handler.send(200, answer)


def _without(*path: str) -> Callable[[_Handler, dict[str, Any], Mapping[str, Any]], None]:
    def send(handler: _Handler, answer: dict[str, Any], body: Mapping[str, Any]) -> None:
        inner = answer["choices"][0] if path[0] != "usage" else answer
        inner.pop(path[0])
        handler.send(200, answer)

    return send


def _changed(**fields: Any) -> Callable[[_Handler, dict[str, Any], Mapping[str, Any]], None]:
    def send(handler: _Handler, answer: dict[str, Any], body: Mapping[str, Any]) -> None:
        answer["choices"][0] |= fields
        handler.send(200, answer)

    return send


def _raw(handler: _Handler, answer: dict[str, Any], body: Mapping[str, Any]) -> None:
    logprobs = answer["choices"][0]["logprobs"]
    logprobs["token_logprobs"] = [value - 0.25 for value in logprobs["token_logprobs"]]
    handler.send(200, answer)


def _shortened(handler: _Handler, answer: dict[str, Any], body: Mapping[str, Any]) -> None:
    """A limit of the server's own."""
    choice = answer["choices"][0]
    n = max(1, len(choice["token_ids"]) - 1)
    choice["token_ids"] = choice["token_ids"][:n]
    choice["logprobs"]["token_logprobs"] = choice["logprobs"]["token_logprobs"][:n]
    choice["finish_reason"] = "length"
    handler.send(200, answer)


def _no_schema(handler: _Handler, answer: dict[str, Any], body: Mapping[str, Any]) -> None:
    if "response_format" in body:
        handler.refuse(400, "json_schema is not supported", "response_format")
    else:
        handler.send(200, answer)


def _new_names(handler: _Handler, answer: dict[str, Any], body: Mapping[str, Any]) -> None:
    if "max_tokens" in body:
        handler.refuse(400, "Unsupported parameter: use 'max_completion_tokens' instead.")
    else:
        handler.send(200, answer)


_CHANGES: dict[str, Callable[[_Handler, dict[str, Any], Mapping[str, Any]], None]] = {
    "slow": _slow,
    "no ids": _without("token_ids"),
    "no logprobs": _without("logprobs"),
    "no usage": _without("usage"),
    "raw": _raw,
    "another prompt": _changed(prompt_token_ids=[1, 0, 1, 2]),
    "own stop": _changed(finish_reason="stop"),
    "filtered": _changed(finish_reason="content_filter"),
    "shortened": _shortened,
    "no schema": _no_schema,
    "new names": _new_names,
}


def _finish(reason: FinishReason) -> str:
    return "stop" if reason is FinishReason.STOP else "length"
