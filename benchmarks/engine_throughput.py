"""Tokens per second of the torch engine beside transformers' generate, on the same requests.

    python benchmarks/engine_throughput.py [--policy DIR] [--requests 64] [--rounds 3]

Both run in one process, taking turns, and the ratio of their best rounds is what counts: absolute
numbers vary with the machine. `group` asks 8 times for each prompt, as a rollout does; `turns`
plays append-only conversations in which every turn adds a few tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from prover_cli.engines.base import GenerationRequest, Sampling
from prover_cli.engines.torch_engine import TorchEngine
from prover_cli.policies.shipped import shipped_policy

PROMPT, NEW, GROUP, TURNS = 200, 32, 8, 4
SAMPLING = Sampling(NEW, ())


def prompts(vocabulary: int, n: int, seed: int) -> list[tuple[int, ...]]:
    generator = random.Random(seed)
    return [tuple(generator.randrange(vocabulary) for _ in range(PROMPT)) for _ in range(n)]


def engine_once(engine: TorchEngine, batch: list[tuple[int, ...]]) -> None:
    async def all_of_them() -> None:
        await asyncio.gather(
            *(engine.generate(GenerationRequest(p, SAMPLING, i)) for i, p in enumerate(batch))
        )

    asyncio.run(all_of_them())


def engine_turns(engine: TorchEngine, batch: list[tuple[int, ...]]) -> None:
    async def conversation(number: int, context: tuple[int, ...]) -> None:
        for turn in range(TURNS):
            request = GenerationRequest(context, SAMPLING, turn, f"{number}")
            context = (*context, *(await engine.generate(request)).ids, *context[:20])

    async def all_of_them() -> None:
        await asyncio.gather(*(conversation(i, p) for i, p in enumerate(batch)))

    asyncio.run(all_of_them())


def generate_once(model: Any, batch: list[tuple[int, ...]]) -> torch.Tensor:
    result: torch.Tensor = model.generate(
        torch.tensor(batch), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=True, pad_token_id=0
    )
    return result


def generate_turns(model: Any, batch: list[tuple[int, ...]]) -> None:
    context = torch.tensor(batch)
    for _ in range(TURNS):
        context = torch.cat([generate_once(model, context.tolist()), context[:, :20]], dim=1)


def best_of(rounds: int, *jobs: Callable[[int], object]) -> list[float]:
    """Best seconds of each job; jobs take turns so that all meet the same conditions."""
    seconds = [float("inf")] * len(jobs)
    for number in range(rounds):
        for i, job in enumerate(jobs):
            began = time.perf_counter()
            job(number)
            seconds[i] = min(seconds[i], time.perf_counter() - began)
    return seconds


def round_of(
    job: Callable[[Any, Any], object],
    subject: object,
    batch: Callable[[int], list[tuple[int, ...]]],
    number: int,
) -> None:
    """One round of a job on a batch of its own."""
    job(subject, batch(number))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", type=Path, default=shipped_policy("webshop"))
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    policy, n_requests = arguments.policy, arguments.requests
    engine = TorchEngine(policy, dtype="float32", device="cpu")
    model: Any = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32).eval()
    vocabulary = model.config.vocab_size

    def plain(n: int) -> list[tuple[int, ...]]:
        return prompts(vocabulary, n_requests, n)

    def grouped(n: int) -> list[tuple[int, ...]]:
        different = prompts(vocabulary, -(-n_requests // GROUP), n)
        return [p for p in different for _ in range(GROUP)][:n_requests]

    print(f"{'case':8} {'engine tok/s':>12} {'generate tok/s':>15} {'ratio':>6}")
    for case, batch, tokens in (
        ("plain", plain, n_requests * NEW),
        ("group", grouped, n_requests * NEW),
        ("turns", plain, n_requests * NEW * TURNS),
    ):
        ours = engine_turns if case == "turns" else engine_once
        theirs = generate_turns if case == "turns" else generate_once
        mine, other = best_of(
            arguments.rounds,
            partial(round_of, ours, engine, batch),
            partial(round_of, theirs, model, batch),
        )
        print(f"{case:8} {tokens / mine:12,.0f} {tokens / other:15,.0f} {other / mine:6.2f}")


if __name__ == "__main__":
    main()
