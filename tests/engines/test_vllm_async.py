"""The way vllm runs on GPUs, in processes of its own, tried with the build for the CPU."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.engines.vllm_models import KV_MEMORY, ids, model, skip_where_vllm_cannot_run

skip_where_vllm_cannot_run()

from prover_cli.engines import vllm_engine  # noqa: E402
from prover_cli.engines.base import Generation, GenerationRequest, Sampling  # noqa: E402
from prover_cli.engines.torch_engine import TorchEngine  # noqa: E402
from prover_cli.engines.vllm_backends import AsyncServer  # noqa: E402
from prover_cli.engines.vllm_engine import VLLMEngine  # noqa: E402
from prover_cli.errors import EngineDeadError, RequestFailed  # noqa: E402


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    settings = {"tie_word_embeddings": False, "initializer_range": 0.2}
    return model(folder / "one", 0, **settings), model(folder / "other", 1, **settings)


@pytest.fixture(scope="module")
def engine(pair: tuple[Path, Path]) -> Iterator[VLLMEngine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm_engine, "StepLoop", AsyncServer)
        patch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        engine = VLLMEngine(pair[0], kv_memory=KV_MEMORY)
    yield engine
    asyncio.run(engine.close())


def ask(engine: Any, *requests: GenerationRequest) -> list[Generation]:
    async def together() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(together())


def greedy(n: int, length: int = 12) -> GenerationRequest:
    return GenerationRequest(ids(n), Sampling(length, (), temperature=0.0), n, f"{n}")


def test_replies_are_those_of_the_torch_engine_before_and_after_a_swap(
    engine: VLLMEngine, pair: tuple[Path, Path]
) -> None:
    for path in (*pair, pair[0]):
        engine.load_policy(path)
        requests = [greedy(n) for n in (3, 17, 64, 120)]
        others = ask(TorchEngine(path, device="cpu"), *requests)
        for found, expected in zip(ask(engine, *requests), others, strict=True):
            assert found.ids == expected.ids
            assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
            assert found.n_cached == 0


def test_draws_depend_on_the_seed_alone(engine: VLLMEngine) -> None:
    requests = [GenerationRequest(ids(10 + i), Sampling(8, ()), i) for i in range(8)]
    assert [g.ids for g in ask(engine, *requests)] == [ask(engine, r)[0].ids for r in requests]


def test_a_refused_request_leaves_the_others_alone(engine: VLLMEngine) -> None:
    outside = GenerationRequest((10**6,), Sampling(5, ()), 0)

    async def together() -> list[Any]:
        work = map(engine.generate, (outside, greedy(5)))
        return await asyncio.gather(*work, return_exceptions=True)

    refused, fine = asyncio.run(together())
    assert isinstance(refused, RequestFailed)
    assert len(fine.ids) == 12


def test_a_cancelled_request_is_aborted(engine: VLLMEngine) -> None:
    async def cancel() -> None:
        task = asyncio.create_task(engine.generate(greedy(5, 200)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server: Any = engine._backend
        for _ in range(100):
            if server._engine.get_num_unfinished_requests() == 0:
                return
            await asyncio.sleep(0.05)
        raise AssertionError("the request is still there")

    asyncio.run(cancel())


def test_a_session_stays_on_one_copy_of_the_model(engine: VLLMEngine) -> None:
    server: Any = engine._backend
    assert server._copy_of("any") is None
    server._copies = 4
    try:
        copies = {name: server._copy_of(name) for name in map(str, range(64))}
        assert set(copies.values()) == {0, 1, 2, 3}
        assert all(server._copy_of(name) == copy for name, copy in copies.items())
        assert server._copy_of(None) is None
    finally:
        server._copies = 1


def test_an_engine_that_is_killed_fails_every_request(engine: VLLMEngine) -> None:
    """Last in this file: it kills the engine that the tests share."""
    ours = [p for p in psutil.Process().children(recursive=True) if "EngineCore" in p.name()]

    async def until_it_dies() -> list[Any]:
        tasks = [asyncio.create_task(engine.generate(greedy(n, 200))) for n in (5, 6, 7)]
        await asyncio.sleep(0.05)
        for process in ours:
            os.kill(process.pid, signal.SIGKILL)
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert len(ours) == 1
    assert all(isinstance(error, EngineDeadError) for error in asyncio.run(until_it_dies()))
    with pytest.raises(EngineDeadError):
        ask(engine, greedy(5))
