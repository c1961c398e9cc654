"""One OpenAI-compatible server: requests go out as the SDK sends them, plain JSON comes back.

The SDK's own retries are off; `openai_fleet` decides what is tried again, and where.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from prover_cli.engines.openai_address import api_key, base_url, host, readable
from prover_cli.engines.openai_faults import Fault, translate
from prover_cli.errors import UsageError

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Patience:
    """How long and how often servers are waited for; times are in seconds."""

    answer: float = 600.0
    """For one whole answer."""
    connect: float = 15.0
    tries: int = 8
    """Tries of one request, at whichever servers."""
    first_wait: float = 0.5
    """Before the second try; it doubles with each, up to `longest_wait`."""
    longest_wait: float = 20.0
    longest_asked: float = 120.0
    """The longest wait that a server's `Retry-After` can bring about."""
    busy: float = 900.0
    """One request waits so long for servers that are busy."""
    probe: float = 2.0
    """Between looks at a server that was put aside; they become rarer, up to `longest_wait`."""
    outage: float = 120.0
    """Without any server; then the engine is dead."""


def check_installed() -> None:
    """Raise `UsageError` where the openai SDK is missing."""
    if find_spec("openai") is None:
        raise UsageError(
            "servers are spoken to through the openai SDK, which is not installed",
            hint="pip install 'prover-cli[openai]'",
        )


class Server:
    """A server and how it is doing. Raises `Fault`, `Refused` or, for the key, `UsageError`."""

    def __init__(self, address: str, patience: Patience) -> None:
        self.url, self.host = base_url(address), host(address)
        self.n_in_flight = 0
        self.n_sent = 0
        self.n_faults = 0
        """Faults in a row."""
        self.resumes_at = 0.0
        """Takes no request before this moment of the loop's clock."""
        self.last_fault = ""
        self._patience, self._key = patience, api_key()
        self._client = self._connect()

    def _connect(self) -> Any:
        import openai

        seconds, connect = self._patience.answer, self._patience.connect
        return openai.AsyncOpenAI(
            base_url=self.url,
            api_key=self._key,
            max_retries=0,
            timeout=openai.Timeout(seconds, connect=connect),
            # A server on this machine is never reached through a proxy.
            http_client=openai.DefaultAsyncHttpxClient(
                mounts={f"all://{name}": None for name in _LOOPBACK}
            ),
        )

    async def models(self) -> dict[str, Any]:
        """What `GET /models` says."""
        return await self._ask(self._client.models.with_raw_response.list)

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of `POST /completions`."""
        create = self._client.completions.with_raw_response.create
        # As its own arguments the SDK would look at every token id, for 50 us each.
        return await self._ask(create, model=body["model"], prompt="", extra_body=dict(body))

    async def chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of `POST /chat/completions`."""
        return await self._ask(self._client.chat.completions.with_raw_response.create, **body)

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, call: Callable[..., Awaitable[Any]], **arguments: Any) -> dict[str, Any]:
        import openai

        try:
            # The SDK's time-out is for each piece of an answer; this one is for the whole.
            async with asyncio.timeout(self._patience.answer):
                answer = await call(**arguments)
        except (openai.OpenAIError, TimeoutError) as error:
            failure = translate(error, self.url, self._key)
        else:
            return self._json(answer.content)
        # Not from `error`: what it holds knows the key.
        raise failure from None

    def _json(self, content: bytes) -> dict[str, Any]:
        try:
            value = json.loads(content)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            shown = readable(content.decode("utf-8", "replace"), self._key)
            raise Fault(f"the answer is no JSON object: {shown!r}")
        return value
