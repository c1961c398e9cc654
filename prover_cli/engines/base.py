"""The engine protocol: token ids in, token ids and log-probs out.

An engine knows nothing about text, chat or environments. `Generation.logprobs` are those of the
distribution that was sampled from (after temperature, top-p and top-k), one per id. The seed of a
request decides its draws whatever else is in flight. A failed request raises `RequestFailed`; a
dead engine raises `EngineDeadError` for every request in flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Sampling:
    """Every sampling parameter, always explicit; `top_k=0` and `top_p=1` are off."""

    max_tokens: int
    stop_ids: tuple[int, ...]
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    json_schema: str | None = None
    """A JSON schema (as JSON) that constrains the reply; `UsageError` where an engine cannot."""

    @property
    def neutral(self) -> bool:
        """True when the sampled distribution is the policy's own at this temperature."""
        return self.top_p >= 1.0 and self.top_k == 0


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """`session` names the trajectory, so that an engine can keep its KV cache between turns."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    seed: int
    session: str | None = None


class FinishReason(StrEnum):
    STOP = "stop"
    """A stop id was sampled; it is the last of the returned ids."""
    LENGTH = "length"
    """`max_tokens` ids were sampled without a stop id, or the context is full after some ids."""
    CONTEXT = "context"
    """The prompt leaves no room for a single token; no ids, no model call."""


@dataclass(frozen=True, slots=True)
class Generation:
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    n_cached: int = 0
    """Prompt tokens that needed no computation."""


class Engine(Protocol):
    name: str
    policy_id: str
    max_model_len: int

    async def generate(self, request: GenerationRequest) -> Generation: ...

    def load_policy(self, path: Path) -> str:
        """Load a checkpoint, drop every cache, and return its policy id."""
        ...

    async def close(self) -> None: ...
