"""Sampling continuations: each (state, k) at most once, with seeds of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prover_cli.config import VerifyConfig
from prover_cli.engines.base import Engine, Generation, GenerationRequest
from prover_cli.ids import derive_seed
from prover_cli.stages.agent import Agent
from prover_cli.stages.episode import StopReason, play
from prover_cli.stages.grading import Grader
from prover_cli.stages.report import Reporter
from prover_cli.stages.states import StateWork
from prover_cli.stages.verify_cache import ValueCache
from prover_cli.stages.verify_tables import Row, continuation_row, place
from prover_cli.stages.world import World

Key = tuple[str, int]
"""A state and the number of a continuation."""


@dataclass
class PromptTokens:
    """Tokens of the prompts that an engine was given, and those it had computed before."""

    given: int = 0
    cached: int = 0


class Metered:
    """An engine that counts the prompt tokens of each session."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name, self.policy_id = engine.name, engine.policy_id
        self.max_model_len = engine.max_model_len
        self.sessions: dict[str | None, PromptTokens] = {}

    async def generate(self, request: GenerationRequest) -> Generation:
        generation = await self._engine.generate(request)
        tokens = self.sessions.setdefault(request.session, PromptTokens())
        tokens.given += len(request.prompt_ids)
        tokens.cached += generation.n_cached
        return generation

    def load_policy(self, path: Path) -> str:
        return self._engine.load_policy(path)

    async def close(self) -> None:
        await self._engine.close()


@dataclass
class Drawn:
    """What one shard has: its continuations by key, and the prompt tokens they took."""

    known: Mapping[Key, Row]
    tasks: dict[Key, asyncio.Task[Row]] = field(default_factory=dict)
    prompts: PromptTokens = field(default_factory=PromptTokens)
    turns: dict[Key, list[Row]] = field(default_factory=dict)
    """The turns of each continuation, where they are kept."""

    def rows(self) -> list[Row]:
        """The finished continuations, by state in the order of drawing and by number."""
        order = {state: i for i, (state, _) in reversed(list(enumerate(self.tasks)))}
        keys = sorted(self.tasks, key=lambda key: (order[key[0]], key[1]))
        return [self.tasks[key].result() for key in keys]


class Sampler:
    """Continues from states with one engine, `concurrency` continuations at a time."""

    def __init__(
        self,
        config: VerifyConfig,
        world: World,
        agent: Agent,
        engine: Engine,
        grader: Grader | None,
        cache: ValueCache,
        reporter: Reporter,
    ) -> None:
        self._config, self._world, self._agent = config, world, agent
        self._engine, self._grader, self._reporter = Metered(engine), grader, reporter
        self._cache = cache
        self._places = asyncio.Semaphore(config.engine.concurrency)
        self._open: set[asyncio.Task[Row]] = set()

    def shard(self, states: Iterable[StateWork]) -> Drawn:
        """An empty record for a shard with these states."""
        return Drawn(self._cache.find({work.state_id for work in states}))

    async def draw(self, drawn: Drawn, work: StateWork, ks: Iterable[int]) -> list[Row]:
        """The continuations `ks` of a state; those not drawn yet are submitted together."""
        wanted = []
        for k in ks:
            key = (work.state_id, k)
            if key not in drawn.tasks:
                task = asyncio.create_task(self._row(drawn, work, k))
                self._open.add(task)
                task.add_done_callback(self._open.discard)
                drawn.tasks[key] = task
            wanted.append(drawn.tasks[key])
        return list(await asyncio.gather(*wanted))

    async def close(self) -> None:
        """Cancel what is in flight and close the engine and the grader."""
        left = list(self._open)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._engine.close()
        if self._grader is not None:
            await self._grader.close()

    async def _row(self, drawn: Drawn, work: StateWork, k: int) -> Row:
        if (found := drawn.known.get((work.state_id, k))) is not None:
            row = {**found, **place(work), "cached": True}
        else:
            async with self._places:
                row = await self._continue(drawn, work, k)
        self._reporter.advance()
        return row

    async def _continue(self, drawn: Drawn, work: StateWork, k: int) -> Row:
        assert work.state is not None
        state, environment = work.state, self._world.environment
        env_seed = derive_seed("verify-env", self._config.seed, state.state_id, k)
        sampler_seed = derive_seed("verify-sampler", self._config.seed, state.state_id, k)
        session = f"{state.state_id}/{k}"
        for _ in range(self._config.retries + 1):
            outcome = await play(
                self._engine,
                self._agent,
                work.task,
                lambda: state.begin(environment, work.task, env_seed),
                max_turns=self._world.max_turns,
                sampler_seed=sampler_seed,
                session_key=session,
                grader=self._grader,
            )
            if outcome.stop_reason is not StopReason.VOID:
                break
        if self._config.keep_turns:
            drawn.turns[work.state_id, k] = outcome.turns
        tokens = self._engine.sessions.pop(session, PromptTokens())
        drawn.prompts.given += tokens.given
        drawn.prompts.cached += tokens.cached
        return continuation_row(
            work,
            k,
            outcome,
            policy_id=self._engine.policy_id,
            env_seed=env_seed,
            sampler_seed=sampler_seed,
        )


def successes(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Successes among the continuations with an outcome, and how many those are."""
    scored = [row["success"] for row in rows if row["success"] is not None]
    return sum(scored), len(scored)
