"""A policy of known action probabilities in the vault, where every value can be computed."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prover_cli.engines.base import FinishReason, Generation, GenerationRequest
from prover_cli.ids import derive_seed, policy_id
from prover_cli.shards.run import Run
from prover_cli.stages.agent import Agent
from prover_cli.stages.states import StateWork
from prover_cli.stages.verify_cache import ValueCache
from prover_cli.stages.verify_plan import Plan, make_plan
from prover_cli.stages.verify_sample import Sampler
from prover_cli.stages.world import World, reopen
from tests.stages.pipeline import Listener, table, vault_value, verify_config

REPLIES = ("go",) * 4 + ("open", "take red", "take blue", "take green", "take white")
"""Equally likely, so that going is four times as likely as anything else."""


class WeightedEngine:
    """Draws a reply with probability proportional to weight ** (1 / temperature)."""

    name = "weighted"
    max_model_len = 4096

    def __init__(self, agent: Agent, replies: Sequence[str], policy: Path) -> None:
        self._texts = sorted(set(replies))
        self._weights = [replies.count(text) for text in self._texts]
        self._ids = [tuple(agent.renderer.encode(text)) for text in self._texts]
        self._stop = agent.renderer.stop_ids[0]
        self.policy_id = policy_id(policy)

    async def generate(self, request: GenerationRequest) -> Generation:
        power = 1 / request.sampling.temperature
        draws = random.Random(derive_seed(request.seed, *request.prompt_ids))
        (chosen,) = draws.choices(self._ids, [weight**power for weight in self._weights])
        ids = (*chosen, self._stop)
        return Generation(ids, (0.0,) * len(ids), FinishReason.STOP)

    def load_policy(self, path: Path) -> str:
        return self.policy_id

    async def close(self) -> None:
        pass


@dataclass
class Bench:
    """The states of a run's proposals, and what their values are."""

    run: Path
    policy: Path
    plan: Plan
    works: list[StateWork]

    def page(self, work: StateWork) -> str:
        """What is seen in the state."""
        seen = table(self.run, "turns").filter(traj_id=work.traj_id, turn=work.turn)
        return str(seen["observation"].item())

    def truth(self, work: StateWork) -> float:
        """The exact success rate of the state."""
        payload = json.loads(
            table(self.run, "tasks").filter(task_id=work.task.task_id)["payload_json"].item()
        )
        slip = self.plan.rollout.env.options["slip"]
        rooms = self.plan.rollout.env.options["rooms"]
        return vault_value(self.page(work), work.turns_left, payload, rooms, slip, REPLIES)

    def sample(
        self,
        work: StateWork,
        n: int,
        *,
        world: World | None = None,
        temperature: float | None = None,
        seed: int = 0,
    ) -> list[dict[str, Any]]:
        """`n` continuations of a state."""
        agent = self.plan.agent
        if temperature is not None:
            agent = replace(agent, sampling=replace(agent.sampling, temperature=temperature))
        sampler = Sampler(
            verify_config(seed=seed),
            world or self.plan.world,
            agent,
            WeightedEngine(agent, REPLIES, self.policy),
            None,
            ValueCache(None, "", 0),
            Listener(),
        )

        async def go() -> list[dict[str, Any]]:
            drawn = sampler.shard([])
            return await sampler.draw(drawn, work, range(n))

        return asyncio.run(go())


def bench(run: Path, policy: Path, **settings: Any) -> Bench:
    """Every state of the proposals in a run, re-entered."""
    config = verify_config(**settings)
    rollout, world, entry = reopen(Run(run).stage("rollout").manifest())
    plan = make_plan(config, Run(run), rollout, world, entry, frozenset())
    shards = sorted(Run(run).stage("rollout").manifest().shards)
    works = [work for index in shards for work in plan.open(index).states.to_sample]
    return Bench(run, policy, plan, works)


def z(rows: Sequence[dict[str, Any]], truth: float) -> float:
    """How many standard errors of the truth the mean outcome is away from it."""
    outcomes = [row["success"] for row in rows]
    return (sum(outcomes) / len(outcomes) - truth) / math.sqrt(truth * (1 - truth) / len(outcomes))


def blocks(rows: Sequence[dict[str, Any]], k: int) -> list[int]:
    """Successes in each K continuations."""
    wins = [int(row["success"]) for row in rows]
    return [sum(wins[i : i + k]) for i in range(0, len(wins) - k + 1, k)]


def dispersion(counts: Sequence[int], k: int, truth: float) -> float:
    """Variance of the counts over the binomial's: 1 for independent continuations."""
    return sum((c - k * truth) ** 2 for c in counts) / len(counts) / (k * truth * (1 - truth))
