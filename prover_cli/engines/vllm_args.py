"""What vllm is told: its environment, its engine arguments and the parameters of a request.

Everything that decides a draw is stated. vllm would otherwise take the model's own generation
settings for what is left open, and return the log-probs of another distribution than it samples.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prover_cli.engines.base import Sampling
from prover_cli.engines.vllm_support import is_cpu_build
from prover_cli.errors import UsageError

DTYPES = ("float32", "bfloat16", "float16")
CPU_KV_MEMORY = 1 << 30
"""Key-value memory of the CPU build in bytes, unless `VLLM_CPU_KVCACHE_SPACE` (GiB) is set."""
GPU_MEMORY_FRACTION = 0.9
"""Share of a GPU's memory, unless `--memory-fraction` is given."""
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_ENVIRONMENT = {"VLLM_LOGGING_STREAM": "ext://sys.stderr", "VLLM_NO_USAGE_STATS": "1"}
_CPU_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # Its warnings are about the settings that are chosen here.
    "VLLM_LOGGING_LEVEL": "ERROR",
}
_GPU_ENVIRONMENT = {"VLLM_WORKER_MULTIPROC_METHOD": "spawn", "VLLM_LOGGING_LEVEL": "WARNING"}


@dataclass(frozen=True)
class Settings:
    """How a model is served; the fields are the flags."""

    device: str = "auto"
    dtype: str = "auto"
    max_model_len: int | None = None
    tensor_parallel: int = 1
    data_parallel: int = 1
    memory_fraction: float | None = None
    max_requests: int = 128
    kv_memory: int = CPU_KV_MEMORY


def prepare_environment(cpu_build: bool) -> None:
    """Set the variables that vllm reads when it is imported, where the user did not."""
    own = _CPU_ENVIRONMENT if cpu_build else _GPU_ENVIRONMENT
    for name, value in (_ENVIRONMENT | own).items():
        os.environ.setdefault(name, value)


def engine_args(
    model: Path, settings: Settings, lora_rank: int = 0, cpu_build: bool | None = None
) -> dict[str, Any]:
    """Arguments of `EngineArgs` and `AsyncEngineArgs`; `lora_rank` 0 is without adapters."""
    cpu = is_cpu_build() if cpu_build is None else cpu_build
    common: dict[str, Any] = {
        "model": str(model),
        "tokenizer": str(model),
        "dtype": _dtype(settings.dtype, cpu),
        "max_model_len": settings.max_model_len,
        "max_num_seqs": settings.max_requests,
        "generation_config": "vllm",
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        # A small model that may put any white space into its JSON often writes nothing else.
        "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        "trust_remote_code": False,
        "seed": 0,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    if lora_rank:
        rank = next((r for r in LORA_RANKS if r >= lora_rank), None)
        if rank is None:
            raise UsageError(f"vllm serves adapters up to rank {LORA_RANKS[-1]}, not {lora_rank}")
        common |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": rank}
    return common | (_cpu_args(settings) if cpu else _gpu_args(settings))


def _cpu_args(settings: Settings) -> dict[str, Any]:
    args: dict[str, Any] = {
        "enforce_eager": True,
        "distributed_executor_backend": "uni",
        "block_size": 32,
        # Seeded requests whose prompts are computed in chunks kill vllm-cpu.
        "enable_chunked_prefill": False,
    }
    if not os.environ.get("VLLM_CPU_KVCACHE_SPACE"):
        args["kv_cache_memory_bytes"] = settings.kv_memory
    return args


def _gpu_args(settings: Settings) -> dict[str, Any]:
    fraction = settings.memory_fraction
    args: dict[str, Any] = {
        "tensor_parallel_size": settings.tensor_parallel,
        "data_parallel_size": settings.data_parallel,
        "gpu_memory_utilization": GPU_MEMORY_FRACTION if fraction is None else fraction,
        "enable_log_requests": False,
    }
    number = settings.device.partition(":")[2]
    if number:
        args["device_ids"] = [int(number)]
    return args


def _dtype(name: str, cpu_build: bool) -> str:
    """`auto` is bfloat16 on a GPU and float32 on the CPU, as for the torch engine."""
    if name == "auto":
        return "float32" if cpu_build else "bfloat16"
    if name not in DTYPES:
        raise UsageError(f"--dtype is auto, {', '.join(DTYPES)}, not {name!r}")
    return name


def check_sampling(sampling: Sampling) -> None:
    """Raise `UsageError` for what vllm would silently change or refuse request by request."""
    temperature = sampling.temperature
    if temperature != 0.0 and not 0.01 <= temperature <= 2.0:
        raise UsageError(f"vllm samples at temperature 0 or 0.01 to 2, not {temperature}")
    if not 0.0 < sampling.top_p <= 1.0:
        raise UsageError(f"vllm takes a top-p above 0 and at most 1, not {sampling.top_p}")


def sampling_values(sampling: Sampling, budget: int, seed: int) -> dict[str, Any]:
    """Arguments of `SamplingParams` for one reply of at most `budget` tokens.

    At temperature 0 vllm takes the most likely token; its log-prob is that of temperature 1.
    """
    return {
        "n": 1,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "seed": seed,
        "stop": None,
        "stop_token_ids": list(sampling.stop_ids),
        # Only our stop ids stop: the model's own end-of-text ids are ordinary tokens here.
        "ignore_eos": True,
        "max_tokens": budget,
        "min_tokens": 0,
        "logprobs": 0,
        "prompt_logprobs": None,
        "flat_logprobs": True,
        "detokenize": False,
        "logit_bias": None,
        "allowed_token_ids": None,
        "bad_words": None,
        "watermarking": False,
        "thinking_token_budget": None,
        "repetition_detection": None,
    }
