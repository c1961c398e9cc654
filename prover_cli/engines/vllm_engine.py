"""The engine `vllm`: the production engine, on GPUs, and on the CPU with the build for it.

Token ids go in, ids and log-probs come out; vllm's tokenizer only serves replies that a JSON
schema constrains. Log-probs are those of the sampled distribution, as for every engine. A new
policy of the same architecture replaces the weights in place; keys and values of the one before
are dropped, since vllm would go on using them.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from prover_cli.engines.base import FinishReason, Generation, GenerationRequest
from prover_cli.engines.vllm_args import (
    CPU_KV_MEMORY,
    LORA_RANKS,
    Settings,
    check_sampling,
    engine_args,
    prepare_environment,
    sampling_values,
)
from prover_cli.engines.vllm_backends import AsyncServer, Backend, StepLoop
from prover_cli.engines.vllm_support import check_parallel, check_usable, is_cpu_build
from prover_cli.errors import EngineDeadError, RequestFailed, UsageError
from prover_cli.ids import digest, file_hash, policy_id

_NOT_ARCHITECTURE = ("_name_or_path", "transformers_version", "dtype", "torch_dtype")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


class VLLMEngine:
    """The engine `vllm`; arguments are the flags of the same names.

    `max_requests` bounds the requests in flight, `kv_memory` the key-value memory of the CPU build
    in bytes. Raises `UsageError` where vllm cannot run as asked or cannot serve the policy.
    """

    name = "vllm"

    def __init__(
        self,
        policy: Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_model_len: int | None = None,
        tensor_parallel: int = 1,
        data_parallel: int = 1,
        memory_fraction: float | None = None,
        max_requests: int = 128,
        kv_memory: int = CPU_KV_MEMORY,
    ) -> None:
        check_usable(device)
        check_parallel(device, tensor_parallel, data_parallel, memory_fraction)
        self._settings = Settings(
            device,
            dtype,
            max_model_len,
            tensor_parallel,
            data_parallel,
            memory_fraction,
            max_requests,
            kv_memory,
        )
        self._backend: Backend | None = None
        self._base = self._shape = ""
        self._lora_rank = self._n_adapters = self._in_flight = 0
        self._lora: Any = None
        self.load_policy(policy)

    # Policies

    def load_policy(self, path: Path) -> str:
        """Serve another checkpoint or adapter; every key and value of the one before is dropped.

        Weights are replaced in place where architecture and tokenizer are the same, an adapter of
        the same base alone is; otherwise vllm starts anew.
        """
        if self._in_flight:
            raise RuntimeError("a policy cannot be replaced while requests are in flight")
        from prover_cli.policies.adapters import base_of, is_adapter

        identity = policy_id(path)
        base, rank = (base_of(path), _rank(path)) if is_adapter(path) else (path, 0)
        shape, base_id = _shape(base), policy_id(base)
        if self._backend is None or shape != self._shape or rank > self._lora_rank:
            self._restart(base, rank)
        elif base_id != self._base:
            self._reload(base)
        self._base, self._shape = base_id, shape
        self._use_adapter(path if rank else None)
        assert self._backend is not None
        self._backend.call("reset_prefix_cache", reset_running_requests=True)
        self.policy_id, self.max_model_len = identity, self._backend.max_model_len
        return identity

    def _restart(self, base: Path, rank: int) -> None:
        if self._backend is not None:
            self._backend.close()
            self._backend = None
        cpu = is_cpu_build()
        args = engine_args(base, self._settings, rank)
        prepare_environment(cpu)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # raised by importing vllm
                self._backend = StepLoop(args) if cpu else AsyncServer(args)
        except (ValueError, OSError) as error:
            raise UsageError(f"vllm cannot serve {base}: {error}") from error
        except (RuntimeError, ImportError) as error:
            raise EngineDeadError(f"vllm did not start with {base}: {error}") from error
        self._lora, self._lora_rank = None, args.get("max_lora_rank", 0)

    def _reload(self, base: Path) -> None:
        assert self._backend is not None
        try:
            self._backend.reload(base)
        except Exception as error:
            # Some of the weights may be those of the policy before.
            self._backend.close()
            self._backend = None
            raise EngineDeadError(f"vllm could not load the weights of {base}: {error}") from error

    def _use_adapter(self, folder: Path | None) -> None:
        """Serve with the adapter in `folder` from now on; None serves the base alone."""
        assert self._backend is not None
        if self._lora is not None:
            self._backend.call("remove_lora", self._lora.lora_int_id)
            self._lora = None
        if folder is None:
            return
        from vllm.lora.request import LoRARequest

        # A name of its own: vllm tells adapters apart by name.
        self._n_adapters += 1
        lora = LoRARequest(f"adapter-{self._n_adapters}", self._n_adapters, str(folder.resolve()))
        try:
            self._backend.call("add_lora", lora)
        except ValueError as error:
            raise UsageError(f"vllm cannot serve the adapter {folder}: {error}") from error
        self._lora = lora

    # Requests

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample one reply. Raises `RequestFailed` or, when vllm is gone, `EngineDeadError`."""
        if isinstance(request.prompt_ids, str):
            raise TypeError("an engine takes token ids, not text")
        check_sampling(request.sampling)
        room = self.max_model_len - len(request.prompt_ids)
        if room <= 0:
            return Generation((), (), FinishReason.CONTEXT)
        budget = min(request.sampling.max_tokens, room)
        if budget <= 0:
            return Generation((), (), FinishReason.LENGTH)
        if self._backend is None:
            raise EngineDeadError("the engine was closed")
        self._in_flight += 1
        try:
            output = await self._backend.generate(
                request.prompt_ids, _params(request, budget), self._lora, request.session
            )
        finally:
            self._in_flight -= 1
        return _generation(output, request)

    async def close(self) -> None:
        """Stop vllm; requests still in flight fail."""
        if self._backend is not None:
            self._backend.close()
            self._backend = None


def _params(request: GenerationRequest, budget: int) -> Any:
    from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

    schema = request.sampling.json_schema
    return SamplingParams(
        **sampling_values(request.sampling, budget, request.seed),
        output_kind=RequestOutputKind.FINAL_ONLY,
        structured_outputs=None if schema is None else StructuredOutputsParams(json=schema),
    )


def _generation(output: Any, request: GenerationRequest) -> Generation:
    reply = output.outputs[0]
    ids, logprobs = tuple(reply.token_ids), tuple(reply.logprobs.logprobs)
    if reply.finish_reason not in ("stop", "length") or len(ids) != len(logprobs):
        raise RequestFailed(
            f"vllm ended the request as {reply.finish_reason!r} "
            f"with {len(ids)} ids and {len(logprobs)} log-probs"
        )
    reason = FinishReason.STOP if ids[-1] in request.sampling.stop_ids else FinishReason.LENGTH
    return Generation(ids, logprobs, reason, output.num_cached_tokens or 0)


def _shape(folder: Path) -> str:
    """What two checkpoints have in common when one's weights can replace the other's."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for key in _NOT_ARCHITECTURE:
        config.pop(key, None)
    present = [folder / name for name in _TOKENIZER_FILES if (folder / name).is_file()]
    return digest([config, {file.name: file_hash(file) for file in present}])


def _rank(adapter: Path) -> int:
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    rank = int(config["r"])
    if rank > LORA_RANKS[-1]:
        raise UsageError(f"vllm serves adapters up to rank {LORA_RANKS[-1]}; {adapter} has {rank}")
    return rank
