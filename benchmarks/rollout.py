"""What the stages make of an engine's speed: rollout beside the bare engine and a lock-step loop.

    python benchmarks/rollout.py [--engines vllm torch] [--tasks 16] [--concurrency 32]
                                 [--turns 50] [--seed 0]

Episodes are those of the small ALFWorld policy: most end early and some take all 50 turns. All
runs are in one process, with caches emptied between them. Sampled tokens are counted per second of
the clock, per second of the processor, and per step of the engine. Other work on the machine
disturbs the first. On a CPU a step costs about as much as its tokens, so waiting costs little; on
a GPU a step costs much the same however few tokens it has, and steps are what counts:

    queue     the bare engine, all requests of the rollout at once, as if none waited for another
    bare      the bare engine, the requests of an episode one after another, as they must be
    rollout   `prover rollout` from its first request until its shards are written
    lockstep  batches of episodes in which every turn waits for the slowest reply, and a batch for
              its longest episode

`verify` is run with and without the reuse of prefixes; `saved` is the share of prompt tokens that
needed no computation. For vllm this needs the environment of pipelines/install_vllm_cpu.sh.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from prover_cli.config import (
    EngineConfig,
    EnvConfig,
    JudgeConfig,
    RolloutConfig,
    SamplingConfig,
    VerifyConfig,
)
from prover_cli.engines.base import Engine, Generation, GenerationRequest
from prover_cli.engines.select import open_engine
from prover_cli.policies.shipped import shipped_policy
from prover_cli.shards.mode import Mode
from prover_cli.stages import judge, rollout, sampling, verify, verify_work
from prover_cli.stages.report import SilentReporter
from prover_cli.stages.world import World, resolve

GROUP, K = 8, 8
STEPS = 0
"""Model steps since the process began."""
REPORTER = SilentReporter()


@dataclass
class Metered:
    """An engine that counts; closing it only stops its clock."""

    engine: Engine
    tokens: int = 0
    prompt: int = 0
    cached: int = 0
    began: tuple[float, float, int] | None = None
    seconds: float = 0.0
    cpu: float = 0.0
    steps: int = 0
    episodes: dict[str, list[GenerationRequest]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.name, self.policy_id = self.engine.name, self.engine.policy_id
        self.max_model_len = self.engine.max_model_len

    async def generate(self, request: GenerationRequest) -> Generation:
        self.began = self.began or _clocks()
        self.episodes[str(request.session)].append(request)
        found = await self.engine.generate(request)
        self.tokens += len(found.ids)
        self.prompt += len(request.prompt_ids)
        self.cached += found.n_cached
        return found

    def load_policy(self, path: Path) -> str:
        raise NotImplementedError("the stages keep their policy")

    async def close(self) -> None:
        now, began = _clocks(), self.began or _clocks()
        self.seconds, self.cpu, self.steps = (n - b for n, b in zip(now, began, strict=True))

    @property
    def speed(self) -> float:
        """Sampled tokens per second of the processor."""
        return self.tokens / self.cpu


def _clocks() -> tuple[float, float, int]:
    return time.perf_counter(), time.process_time(), STEPS


def count_steps(engine: Any) -> None:
    """Count the engine's model steps from now on."""
    place, name = (
        (engine, "_decode") if engine.name == "torch" else (engine._backend._engine, "step")
    )
    step = getattr(place, name)

    def counted() -> Any:
        global STEPS
        STEPS += 1
        return step()

    setattr(place, name, counted)


@dataclass
class LockStep:
    """An engine whose replies all come when the last one has: a turn waits for the slowest."""

    engine: Metered
    alive: int
    waiting: list[tuple[GenerationRequest, asyncio.Future[Generation]]] = field(
        default_factory=list
    )
    round: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.policy_id = self.engine.policy_id

    async def generate(self, request: GenerationRequest) -> Generation:
        result: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self.waiting.append((request, result))
        self._go()
        return await result

    def leave(self) -> None:
        """One episode is over."""
        self.alive -= 1
        self._go()

    def _go(self) -> None:
        if self.waiting and len(self.waiting) == self.alive:
            batch, self.waiting = self.waiting, []
            self.round = asyncio.create_task(self._answer(batch))

    async def _answer(
        self, batch: list[tuple[GenerationRequest, asyncio.Future[Generation]]]
    ) -> None:
        replies = await asyncio.gather(*(self.engine.generate(request) for request, _ in batch))
        for (_, result), reply in zip(batch, replies, strict=True):
            result.set_result(reply)


def rolled_out(engine: Engine, config: RolloutConfig, out: Path) -> Metered:
    meter = Metered(engine)
    with mock.patch.object(sampling, "open_engine", lambda *_: meter):
        rollout.run(config, out, Mode.OVERWRITE, REPORTER)
    return meter


def lock_step(engine: Engine, config: RolloutConfig, world: World) -> Metered:
    meter, size = Metered(engine), config.engine.concurrency
    panel = world.environment.tasks(config.split).draw(config.tasks, config.seed)
    agent = world.agent(Path(config.policy), config.sampling)
    jobs = [(task, sample) for task in panel for sample in range(config.group_size)]

    async def episode(engine: LockStep, task: Any, sample: int) -> None:
        await sampling._episode(engine, agent, None, world, config, task, sample, REPORTER)  # type: ignore[arg-type]
        engine.leave()

    async def batches() -> None:
        for start in range(0, len(jobs), size):
            batch = jobs[start : start + size]
            shared = LockStep(meter, len(batch))
            await asyncio.gather(*(episode(shared, *job) for job in batch))
        await meter.close()

    asyncio.run(batches())
    return meter


def bare(engine: Engine, chains: Iterable[list[GenerationRequest]], concurrency: int) -> Metered:
    """Every chain of requests one after another, `concurrency` chains at a time."""
    meter, places = Metered(engine), asyncio.Semaphore(concurrency)

    async def chain(requests: list[GenerationRequest]) -> None:
        async with places:
            for request in requests:
                await meter.generate(request)

    async def all_of_them() -> None:
        await asyncio.gather(*map(chain, chains))
        await meter.close()

    asyncio.run(all_of_them())
    return meter


def speeds(engine: Engine, config: RolloutConfig, world: World, out: Path) -> None:
    policy, places = Path(config.policy), config.engine.concurrency
    rolled_out(engine, replace(config, tasks=1), out)  # first calls are slow
    engine.load_policy(policy)
    ours = rolled_out(engine, config, out)
    episodes = list(ours.episodes.values())
    singles = [[request] for requests in episodes for request in requests]
    jobs: dict[str, Callable[[], Metered]] = {
        "queue": partial(bare, engine, singles, places),
        "bare": partial(bare, engine, episodes, places),
        "lockstep": partial(lock_step, engine, config, world),
    }
    found = {"rollout": ours}
    for name, job in jobs.items():
        engine.load_policy(policy)
        found[name] = job()
    turns = sorted(map(len, episodes))
    print(
        f"{engine.name}: {len(turns)} episodes of {turns[0]} to {turns[-1]} turns, median "
        f"{turns[len(turns) // 2]}; {ours.tokens / len(singles):.1f} tokens a turn; "
        f"{places} in flight"
    )
    for name in ("queue", "bare", "rollout", "lockstep"):
        meter = found[name]
        print(
            f"  {name:9} {meter.tokens / meter.seconds:7,.0f} tokens/s  "
            f"{meter.speed:7,.0f} tokens/CPU s  {meter.tokens / meter.steps:5.1f} tokens/step  "
            f"prompt tokens saved {meter.cached / meter.prompt:.0%}"
        )
    for name in ("bare", "lockstep"):
        clock = ours.tokens / ours.seconds * found[name].seconds / found[name].tokens
        steps = ours.tokens / ours.steps * found[name].steps / found[name].tokens
        print(
            f"  rollout / {name}: {ours.speed / found[name].speed:.2f} by processor time, "
            f"{clock:.2f} by the clock, {steps:.2f} by steps"
        )


def without_reuse(config: EngineConfig, policy: Path) -> Engine:
    """An engine that computes every prompt anew."""
    if config.name == "vllm":
        from prover_cli.engines import vllm_engine

        plain = vllm_engine.engine_args

        def args(*given: Any, **named: Any) -> dict[str, Any]:
            return plain(*given, **named) | {"enable_prefix_caching": False}

        with mock.patch.object(vllm_engine, "engine_args", args):
            return open_engine(config, policy)
    from prover_cli.engines.kv_cache import PrefixStore
    from prover_cli.engines.torch_engine import TorchEngine

    engine = open_engine(config, policy)
    assert isinstance(engine, TorchEngine)
    # Equal prompts that arrive together are still computed once.
    engine._prompts = engine._sessions = PrefixStore(0)
    return engine


def verified(engine: Engine, config: EngineConfig, run: Path) -> Metered:
    meter = Metered(engine)
    with mock.patch.object(verify_work, "open_engine", lambda *_: meter):
        verify.run(VerifyConfig(k=K, engine=config), run, Mode.OVERWRITE, REPORTER)
    return meter


def reuse_in_verify(engine: Engine, config: RolloutConfig, run: Path) -> None:
    judged = judge.run(JudgeConfig(max_success=GROUP - 1), run, Mode.OVERWRITE, REPORTER)
    if not judged.facts["status"].get("ok"):
        print("  verify: the judge found no segment in these episodes")
        return
    policy = Path(config.policy)
    engine.load_policy(policy)
    reusing = verified(engine, config.engine, run)
    other = without_reuse(config.engine, policy)
    computing = verified(other, config.engine, run)
    close(other)
    for name, meter in (("with", reusing), ("without", computing)):
        print(
            f"  verify {name:7} reuse {meter.cpu:6.1f} CPU s, {len(meter.episodes)} continuations, "
            f"{meter.prompt:,} prompt tokens, saved {meter.cached / meter.prompt:.0%}"
        )


def close(engine: Engine) -> None:
    closing: Awaitable[None] = engine.close()
    asyncio.run(closing)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", nargs="+", default=["vllm", "torch"])
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--turns", type=int, help="an episode's most turns; default: ALFWorld's")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    policy = shipped_policy("alfworld")
    for name in options.engines:
        settings = EngineConfig(name, device="cpu", concurrency=options.concurrency)
        config, world = resolve(
            RolloutConfig(
                env=EnvConfig("alfworld", max_turns=options.turns),
                sampling=SamplingConfig(),
                policy=str(policy),
                tasks=options.tasks,
                group_size=GROUP,
                seed=options.seed,
                engine=settings,
            )
        )
        engine = open_engine(settings, policy)
        count_steps(engine)
        with tempfile.TemporaryDirectory() as folder:
            speeds(engine, config, world, Path(folder))
            reuse_in_verify(engine, config, Path(folder))
        close(engine)


if __name__ == "__main__":
    main()
