"""Several servers as one: work is shared, what fails is tried again, who dies is missed.

A request goes to the server with the fewest in flight; those of one session stay with one server,
whose prefix cache knows them, unless it is far busier. A server that is gone, or fails several
times in a row, is put aside and looked at again and again; it is used once it passes the check that
it passed at the start. Everything here runs on one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from prover_cli.engines.openai_faults import BusyFault, Fault
from prover_cli.engines.openai_server import Patience, Server
from prover_cli.errors import EngineDeadError, RequestFailed, UsageError

T = TypeVar("T")
Check = Callable[[Server], Awaitable[None]]
"""Raises `Fault` or `UsageError` for a server that cannot be used (now)."""

FAULTS_IN_A_ROW = 3
"""After so many a server that still answers is put aside."""
SLACK = 8
"""A session leaves its server when that has more than twice the requests of another, and so many
more."""
_SESSIONS = 100_000
_log = logging.getLogger(__name__)


class Fleet:
    """Servers that can each answer any request. Call `start` before `ask`."""

    def __init__(self, servers: Sequence[Server], check: Check, patience: Patience) -> None:
        self.servers = tuple(servers)
        self._check, self._patience = check, patience
        self._up: list[Server] = []
        self._any_up = asyncio.Event()
        self._dark_since = 0.0
        self._sessions: OrderedDict[str, Server] = OrderedDict()
        self._probes: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Check every server; those that do not answer are put aside.

        Raises `UsageError` for one that cannot be used as it is, `EngineDeadError` without any.
        """
        checks = [self._first_check(server) for server in self.servers]
        faults = await asyncio.gather(*checks, return_exceptions=True)
        for fault in faults:
            if isinstance(fault, BaseException) and not isinstance(fault, Fault):
                raise fault
        self._up = [s for s, fault in zip(self.servers, faults, strict=True) if fault is None]
        if not self._up:
            raise self._dead("no server answers")
        self._any_up.set()
        for server, fault in zip(self.servers, faults, strict=True):
            if fault is not None:
                self._look_after(server)

    async def _first_check(self, server: Server) -> None:
        for attempt in range(3):
            try:
                return await self._check(server)
            except Fault as fault:
                server.last_fault = str(fault)
                if attempt == 2:
                    raise
                await asyncio.sleep(self._wait(attempt, fault.wait))

    async def ask(self, send: Callable[[Server], Awaitable[T]], session: str | None = None) -> T:
        """The answer that `send` gets from one of the servers.

        Raises `RequestFailed` for a request that is bad or failed too often, `EngineDeadError`
        when there has been no server for longer than the patience for an outage.
        """
        tries, n_busy, began = 0, 0, self._now()
        while True:
            server = await self._choose(session)
            server.n_in_flight += 1
            server.n_sent += 1
            try:
                answer = await send(server)
            except Fault as fault:
                failure = fault
            else:
                server.n_faults = 0
                return answer
            finally:
                server.n_in_flight -= 1
            server.last_fault = str(failure)
            if isinstance(failure, BusyFault):
                n_busy += 1
                self._pause(server, self._wait(n_busy - 1, failure.wait))
                if self._now() - began > self._patience.busy:
                    raise RequestFailed(f"{server.url} is too busy: {failure}")
                continue
            tries += 1
            self._failed(server, failure)
            if tries >= self._patience.tries:
                last = f"{server.url}: {failure}"
                raise RequestFailed(f"no answer in {tries} tries; the last: {last}")
            if not failure.down:
                await asyncio.sleep(self._wait(tries - 1, failure.wait))

    async def close(self) -> None:
        """Stop looking after servers and end all connections."""
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)
        await asyncio.gather(*(server.close() for server in self.servers))

    # Choosing

    async def _choose(self, session: str | None) -> Server:
        """A server that takes requests now; waits for one."""
        while True:
            now = self._now()
            ready = [server for server in self._up if server.resumes_at <= now]
            if ready:
                return self._of_session(session, ready)
            if self._up:
                wait = min(server.resumes_at for server in self._up) - now
                # Those that wait must not all ask at the same moment.
                await asyncio.sleep(wait * random.uniform(1.0, 1.25))
            else:
                await self._wait_for_one()

    def _of_session(self, session: str | None, ready: Sequence[Server]) -> Server:
        idlest = min(ready, key=lambda server: (server.n_in_flight, server.n_sent))
        if session is None:
            return idlest
        own = self._sessions.get(session)
        if own is None or own not in ready or own.n_in_flight > 2 * idlest.n_in_flight + SLACK:
            own = self._sessions[session] = idlest
        self._sessions.move_to_end(session)
        if len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
        return own

    async def _wait_for_one(self) -> None:
        left = self._dark_since + self._patience.outage - self._now()
        try:
            async with asyncio.timeout(max(left, 0.0)):
                await self._any_up.wait()
        except TimeoutError:
            raise self._dead(f"no server answered for {self._patience.outage:g} s") from None

    def _dead(self, fact: str) -> EngineDeadError:
        faults = "; ".join(f"{server.url}: {server.last_fault}" for server in self.servers)
        return EngineDeadError(
            f"{fact}: {faults}", hint="start a server again, then go on with --resume"
        )

    # Failures

    def _pause(self, server: Server, seconds: float) -> None:
        """Nobody asks a busy server for so long."""
        server.resumes_at = max(server.resumes_at, self._now() + seconds)

    def _failed(self, server: Server, fault: Fault) -> None:
        server.n_faults += 1
        if server in self._up and (fault.down or server.n_faults >= FAULTS_IN_A_ROW):
            self._up.remove(server)
            if not self._up:
                self._any_up.clear()
                self._dark_since = self._now()
            self._look_after(server)

    def _look_after(self, server: Server) -> None:
        _log.warning(
            "%s is put aside (%s); servers in use: %d of %d",
            server.url,
            server.last_fault,
            len(self._up),
            len(self.servers),
        )
        probe = asyncio.get_running_loop().create_task(self._probe(server))
        self._probes.add(probe)
        probe.add_done_callback(self._probes.discard)

    async def _probe(self, server: Server) -> None:
        """Look at a server until it can be used again."""
        wait = self._patience.probe
        while True:
            try:
                await self._check(server)
                break
            except (Fault, RequestFailed, UsageError) as error:
                server.last_fault = str(error)
            await asyncio.sleep(wait * random.uniform(0.75, 1.0))
            wait = min(wait * 1.5, max(self._patience.longest_wait, self._patience.probe))
        server.n_faults, server.resumes_at = 0, 0.0
        self._up.append(server)
        self._any_up.set()
        _log.warning(
            "%s is used again; servers in use: %d of %d",
            server.url,
            len(self._up),
            len(self.servers),
        )

    def _wait(self, n_before: int, asked: float = 0.0) -> float:
        """Seconds to wait: doubling, with jitter, at least what a server asks for."""
        doubled = min(self._patience.first_wait * 2.0**n_before, self._patience.longest_wait)
        jittered = doubled * random.uniform(0.5, 1.0)
        return max(jittered, min(asked, self._patience.longest_asked))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
