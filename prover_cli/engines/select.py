"""Engines by name."""

from __future__ import annotations

from pathlib import Path

from prover_cli.engines.base import Engine
from prover_cli.errors import UsageError

NAMES = ("auto", "torch", "scripted")


def open_engine(name: str, policy: Path, *, device: str = "auto", dtype: str = "auto") -> Engine:
    """Start an engine with a policy; `auto` is torch. `UsageError` for an unknown name."""
    match name:
        case "auto" | "torch":
            from prover_cli.engines.torch_engine import TorchEngine

            return TorchEngine(policy, device=device, dtype=dtype)
        case "scripted":
            from prover_cli.engines.scripted import ScriptedEngine

            return ScriptedEngine(policy)
    raise UsageError(f"there is no engine {name!r}; engines: {', '.join(NAMES)}")
