"""Engines by name."""

from __future__ import annotations

from pathlib import Path

from prover_cli.config import EngineConfig
from prover_cli.engines.base import Engine
from prover_cli.errors import UsageError

NAMES = ("auto", "vllm", "openai", "torch", "scripted")


def open_engine(config: EngineConfig, policy: Path) -> Engine:
    """Start an engine with a policy; `auto` is vllm where it can run, else torch.

    Raises `UsageError` for an unknown name and for an engine that cannot run here.
    """
    match chosen(config):
        case "vllm":
            from prover_cli.engines.vllm_engine import VLLMEngine

            return VLLMEngine(
                policy,
                device=config.device,
                dtype=config.dtype,
                max_model_len=config.max_model_len,
                tensor_parallel=config.tensor_parallel,
                data_parallel=config.data_parallel,
                memory_fraction=config.memory_fraction,
                max_requests=config.concurrency,
            )
        case "openai":
            from prover_cli.engines.openai_engine import OpenAIEngine

            return OpenAIEngine(policy, servers=config.servers, max_model_len=config.max_model_len)
        case "torch":
            from prover_cli.engines.torch_engine import TorchEngine

            return TorchEngine(policy, device=config.device, dtype=config.dtype)
        case "scripted":
            from prover_cli.engines.scripted import ScriptedEngine

            return ScriptedEngine(policy)
    raise UsageError(f"there is no engine {config.name!r}; engines: {', '.join(NAMES)}")


def chosen(config: EngineConfig) -> str:
    """The engine that a configuration stands for."""
    if config.name != "auto":
        return config.name
    from prover_cli.engines.vllm_support import why_not

    return "torch" if why_not(config.device) else "vllm"
