"""Many asynchronous jobs, grouped by shard, with bounded concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

SHARDS_IN_FLIGHT = 2
"""The next shard starts while the last episodes of the one before finish."""


async def run_shards(
    owed: Sequence[int],
    jobs: Callable[[int], Sequence[Callable[[], Awaitable[T]]]],
    commit: Callable[[int, list[T]], None],
    concurrency: int,
    shards_in_flight: int = SHARDS_IN_FLIGHT,
) -> None:
    """Run every job of every owed shard and commit each shard when its last job is done.

    Results keep the order of `jobs(index)`. At most `concurrency` jobs run at once, of at most
    `shards_in_flight` shards. The first exception cancels what is in flight and is raised; shards
    committed before stay committed.
    """
    places = asyncio.Semaphore(concurrency)
    shards = asyncio.Semaphore(shards_in_flight)

    async def run_job(job: Callable[[], Awaitable[T]]) -> T:
        async with places:
            return await job()

    async def run_shard(index: int) -> None:
        async with shards, asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_job(job)) for job in jobs(index)]
        commit(index, [task.result() for task in tasks])

    try:
        async with asyncio.TaskGroup() as group:
            for index in owed:
                group.create_task(run_shard(index))
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    error = failures.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
