"""A search server behind one or several URLs.

What a server does wrong never becomes text for the agent or a reward. What may pass (no connection,
no answer in time, status 429 or 5xx) is tried again, at the next URL, after a wait that doubles;
what will not (another status, a body that is no answer) fails at once. Either way an episode meets
one exception, `RetrievalFailed`, which voids it.

Every URL must answer when the retriever is opened, and all must give the same passages: their
answers to a few fixed queries identify the corpus where the server does not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpx2

from prover_cli.envs.searchqa.retrieval.wire import WrongAnswer, hits_of, request, shown
from prover_cli.envs.searchqa.types import Hit, RetrievalFailed
from prover_cli.errors import EngineDeadError, UsageError
from prover_cli.ids import digest

LARGEST_ANSWER = 32 * 2**20
CONNECTIONS = 256
FIRST_WAIT, LONGEST_WAIT = 0.5, 20.0
PROBES = ("capital city", "first president", "film director born")
PROBED = 3
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class RetrieverUnavailable(EngineDeadError):
    """A search server did not answer, or answered nonsense, when it was opened."""


class HttpRetriever:
    """Asks Search-R1's or verl-agent's protocol; thread safe.

    `url`: one URL or several with commas, dealt round-robin; one without a path gets `/retrieve`.
    `timeout` (seconds) is for one whole answer, `attempts` are the tries for one query.
    `corpus_hash` names the corpus of a server whose answers change by themselves (web search).

    Raises `UsageError` for what is no URL and for servers that differ, `RetrieverUnavailable` when
    one does not answer.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 60.0,
        attempts: int = 6,
        first_wait: float = FIRST_WAIT,
        corpus_hash: str | None = None,
    ) -> None:
        if timeout <= 0 or attempts < 1 or first_wait < 0:
            raise UsageError("a search server needs timeout > 0, attempts >= 1 and first_wait >= 0")
        self._urls = _urls(url)
        self._timeout, self._attempts, self._first_wait = timeout, attempts, first_wait
        self._turn = count()
        self._client = httpx2.Client(
            timeout=timeout,
            limits=httpx2.Limits(max_connections=CONNECTIONS),
            headers={"Accept-Encoding": "identity"},
            mounts={f"all://{host}": None for host in _LOOPBACK},  # never through a proxy
        )
        try:
            self.name, self.corpus_hash = self._identity(corpus_hash)
        except BaseException:
            self.close()
            raise

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` hits in the server's order. Raises `RetrievalFailed`."""
        return self._ask(query, k, self._urls, next(self._turn))

    def close(self) -> None:
        self._client.close()

    def _ask(self, query: str, k: int, urls: Sequence[str], turn: int) -> list[Hit]:
        faults: list[str] = []
        for attempt in range(self._attempts):
            url = urls[(turn + attempt) % len(urls)]
            try:
                return hits_of(self._answer(url, query, k), k)
            except WrongAnswer as error:
                raise RetrievalFailed(f"{url}: {error}") from error
            except _Passing as fault:
                faults.append(f"{url}: {fault}")
                if attempt + 1 < self._attempts:
                    time.sleep(self._wait(attempt // len(urls), fault.wait))
        raise RetrievalFailed(f"no answer in {len(faults)} tries; the last: {faults[-1]}")

    def _wait(self, n_rounds: int, asked: float) -> float:
        doubled = min(self._first_wait * 2.0**n_rounds, LONGEST_WAIT)
        return max(doubled * random.uniform(0.5, 1.0), min(asked, LONGEST_WAIT))

    def _answer(self, url: str, query: str, k: int) -> bytes:
        try:
            return self._body("POST", url, request(query, k))
        except httpx2.TimeoutException as error:
            raise _Passing(f"no answer within {self._timeout:g} s") from error
        except httpx2.TransportError as error:
            raise _Passing(f"{type(error).__name__}: {error}") from error
        except httpx2.HTTPError as error:
            raise WrongAnswer(f"{type(error).__name__}: {error}") from error

    def _body(self, method: str, url: str, content: Any = None) -> bytes:
        """The body of an answer with status 200."""
        deadline = time.monotonic() + self._timeout
        body = bytearray()
        with self._client.stream(method, url, json=content) as answer:
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > LARGEST_ANSWER:
                    raise WrongAnswer(f"the answer is larger than {LARGEST_ANSWER:,} bytes")
                if time.monotonic() > deadline:
                    raise _Passing(f"the answer took longer than {self._timeout:g} s")
        status = answer.status_code
        if status in (408, 429) or status >= 500:
            raise _Passing(f"status {status}: {shown(body)}", _seconds(answer.headers))
        if status != 200:
            raise WrongAnswer(f"status {status}: {shown(body)}")
        return bytes(body)

    def _identity(self, given: str | None) -> tuple[str, str]:
        """Name and corpus hash, after every URL has answered."""
        found = {url: self._identity_of(url) for url in self._urls}
        first, (name, corpus) = next(iter(found.items()))
        if given is not None:
            return name, given
        for url, other in found.items():
            if other != (name, corpus):
                raise UsageError(
                    f"{url} answers as {' on '.join(other)}, but {first} as {name} on {corpus}",
                    hint="name servers of one engine and one corpus",
                )
        return name, corpus

    def _identity_of(self, url: str) -> tuple[str, str]:
        try:
            answers = [self._ask(query, PROBED, (url,), 0) for query in PROBES]
        except RetrievalFailed as error:
            raise RetrieverUnavailable(
                f"the search server cannot be used: {error}",
                hint="start one: prover serve-retriever --corpus FILE --port 8000",
            ) from error
        seen = [[[h.passage.title, h.passage.text] for h in hits] for hits in answers]
        return self._told(url) or ("search server", f"answers-{digest(seen)}")

    def _told(self, url: str) -> tuple[str, str] | None:
        """Engine and corpus as our own server tells them; others have no such page."""
        try:
            told = httpx2.Response(
                200, content=self._body("GET", str(httpx2.URL(url).join("health")))
            ).json()
            return str(told["retriever"]), str(told["corpus_hash"])
        except (httpx2.HTTPError, WrongAnswer, _Passing, ValueError, KeyError, TypeError):
            return None


class _Passing(Exception):
    """A fault that another try may not meet; `wait` is what the server asked for, in seconds."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


def _seconds(headers: httpx2.Headers) -> float:
    asked = headers.get("retry-after", "")
    return float(asked) if asked.isdecimal() else 0.0


def _urls(text: str) -> list[str]:
    urls = [part.strip() for part in text.split(",") if part.strip()]
    if not urls:
        raise UsageError("no search server is named", hint="--env-option url=http://HOST:8000")
    return [_url(part) for part in urls]


def _url(text: str) -> str:
    try:
        url = httpx2.URL(text)
        urlsplit(text)  # knows brackets that do not match
    except (httpx2.InvalidURL, ValueError) as error:
        raise UsageError(f"{text!r} is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"{text!r} is not the URL of a search server", hint="http://HOST:PORT")
    return str(url.copy_with(path="/retrieve")) if url.path in ("", "/") else str(url)
