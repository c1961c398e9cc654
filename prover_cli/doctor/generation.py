"""A few seconds of real generation with an engine."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prover_cli.config import EngineConfig
from prover_cli.engines.base import Engine, Generation, GenerationRequest, Sampling
from prover_cli.engines.select import open_engine
from prover_cli.errors import ProverError
from prover_cli.tokens.render import ChatRenderer

N_REQUESTS, N_TOKENS = 8, 32
PROMPT = "search for a red shirt and buy it"
"""Any text will do: what is sampled is not read."""
FACTS = (
    "engine",
    "generates",
    "error",
    "policy_id",
    "seconds_to_open",
    "requests",
    "tokens",
    "seconds",
    "tokens_per_second",
    "finite_logprobs",
    "repeated",
)
"""What a check says; null where the engine did not get that far."""


@dataclass(frozen=True)
class Round:
    """All requests once, and how long they took together."""

    replies: tuple[Generation, ...]
    seconds: float

    @property
    def n_tokens(self) -> int:
        return sum(len(reply.ids) for reply in self.replies)


def check(config: EngineConfig, policy: Path, prompt_ids: Sequence[int]) -> dict[str, Any]:
    """Open an engine, sample the same requests twice, and say what came of it.

    `prompt_ids` is what every request is asked. Speed is that of the second round. `error` is null
    for an engine that works; nothing that an engine raises leaves this function.
    """
    try:
        return asyncio.run(_check(config, policy, prompt_ids))
    except Exception as error:  # whatever an engine dies of is the finding
        nothing: dict[str, Any] = dict.fromkeys(FACTS)
        return nothing | {"engine": config.name, "generates": False, "error": _reason(error)}


def prompt_of(policy: Path) -> list[int]:
    """Ids of the prompt; `UsageError` for a folder without a tokenizer."""
    return ChatRenderer.load(policy).encode(PROMPT)


async def _check(config: EngineConfig, policy: Path, prompt_ids: Sequence[int]) -> dict[str, Any]:
    began = time.perf_counter()
    engine = open_engine(config, policy)
    opened = time.perf_counter() - began
    try:
        first, second = await _round(engine, prompt_ids), await _round(engine, prompt_ids)
    finally:
        await engine.close()
    logprobs = [value for reply in first.replies + second.replies for value in reply.logprobs]
    n_bad = sum(not math.isfinite(value) for value in logprobs)
    pairs = zip(first.replies, second.replies, strict=True)
    values = (
        engine.name,
        second.n_tokens > 0 and n_bad == 0,
        _fault(second.n_tokens, n_bad, len(logprobs)),
        engine.policy_id,
        round(opened, 3),
        N_REQUESTS,
        second.n_tokens,
        round(second.seconds, 4),
        round(second.n_tokens / max(second.seconds, 1e-9), 1),
        n_bad == 0,
        sum(one.ids == other.ids for one, other in pairs),
    )
    return dict(zip(FACTS, values, strict=True))


async def _round(engine: Engine, prompt_ids: Sequence[int]) -> Round:
    # Without stop ids every reply has its full length, which makes speeds comparable.
    sampling = Sampling(max_tokens=N_TOKENS, stop_ids=(), temperature=1.0)
    requests = [GenerationRequest(tuple(prompt_ids), sampling, seed) for seed in range(N_REQUESTS)]
    began = time.perf_counter()
    replies = await asyncio.gather(*map(engine.generate, requests))
    return Round(tuple(replies), time.perf_counter() - began)


def _fault(n_tokens: int, n_bad: int, n: int) -> str | None:
    if not n_tokens:
        return "nothing was sampled"
    return f"{n_bad} of {n} log-probs are not finite" if n_bad else None


def _reason(error: Exception) -> str:
    if isinstance(error, ProverError):
        return error.message if error.hint is None else f"{error.message} ({error.hint})"
    return f"{type(error).__name__}: {error}"
