"""An event loop in a thread, so that one client serves any number of loops and plain calls too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_JOIN_SECONDS = 10.0


class LoopThread:
    """Runs coroutines in its thread until it is stopped."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name=name)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; blocks the caller."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; the caller's loop goes on. Cancelling the caller cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def stop(self) -> None:
        """Cancel everything that runs and end the thread."""
        if self._loop.is_closed():
            return
        self.wait(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=_JOIN_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
