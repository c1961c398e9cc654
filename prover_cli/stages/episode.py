"""One episode, or the rest of one: the loop shared by rollout, verify and evaluate.

A policy's mistakes are data: an invalid action, a cut reply and a full context are recorded and
scored. A failure of the infrastructure voids the episode: its reward is null.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from prover_cli.engines.base import Engine, FinishReason, Generation, GenerationRequest
from prover_cli.envs.base import (
    Observation,
    ParsedAction,
    Session,
    StepResult,
    Task,
)
from prover_cli.errors import EnvironmentFault, RequestFailed
from prover_cli.ids import canonical_json, derive_seed, text_hash
from prover_cli.stages.agent import Agent, Context, Prompt
from prover_cli.stages.grading import Grader


class StopReason(StrEnum):
    DONE = "done"
    """The environment ended the episode."""
    MAX_TURNS = "max_turns"
    """The turn limit was reached."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The next prompt would leave no room for a reply."""
    VOID = "void"
    """The infrastructure failed; there is no outcome."""
    DIVERGED = "diverged"
    """The state could not be re-entered; there is no outcome."""


@dataclass
class Outcome:
    """How an episode (or continuation) went. `reward` and `success` are None when void."""

    stop_reason: StopReason
    reward: float | None
    success: bool | None
    turns: list[dict[str, Any]] = field(default_factory=list)
    """Rows of the turns table without `traj_id` and `group_id`."""
    seconds: float = 0.0
    error_type: str | None = None
    error_message: str | None = None

    @property
    def n_prompt_tokens(self) -> int:
        return sum(len(turn["prompt_ids"]) for turn in self.turns)

    @property
    def n_action_tokens(self) -> int:
        return sum(len(turn["action_ids"]) for turn in self.turns)


@dataclass(frozen=True)
class Start:
    """Where an episode begins: a session and the context that led to it."""

    session: Session
    context: Context
    first_turn: int = 0
    reward_so_far: float = 0.0


async def play(
    engine: Engine,
    agent: Agent,
    task: Task,
    begin: Callable[[], Start],
    *,
    max_turns: int,
    sampler_seed: int,
    session_key: str,
    grader: Grader | None = None,
) -> Outcome:
    """Play from `begin()` until the episode ends, `max_turns` (absolute) or the context is full.

    The returned reward includes the start's `reward_so_far`. A fault in `begin` voids the episode
    as any other does. Raises `EngineDeadError` only.
    """
    began = time.perf_counter()
    outcome = Outcome(StopReason.MAX_TURNS, 0.0, False)
    try:
        start = begin()
        outcome.reward = start.reward_so_far
        episode = _Episode(engine, agent, task, sampler_seed, session_key, grader)
        await episode.go_on(start, max_turns, outcome)
    except (EnvironmentFault, RequestFailed) as fault:
        outcome.stop_reason = StopReason.VOID
        outcome.reward = outcome.success = None
        outcome.error_type, outcome.error_message = type(fault).__name__, str(fault)
    outcome.seconds = time.perf_counter() - began
    return outcome


@dataclass(frozen=True)
class _Episode:
    """What the turns of an episode have in common."""

    engine: Engine
    agent: Agent
    task: Task
    sampler_seed: int
    session_key: str
    grader: Grader | None

    async def go_on(self, start: Start, max_turns: int, outcome: Outcome) -> None:
        """Play on from `start`, writing what happens into `outcome`."""
        context, session = start.context.copy(), start.session
        observation = session.observe()
        for turn in range(start.first_turn, max_turns):
            prompt = self.agent.prompt(self.task, context, observation)
            generation = await self._sample(context, prompt, turn)
            if generation.finish_reason is FinishReason.CONTEXT:
                outcome.stop_reason = StopReason.CONTEXT_OVERFLOW
                return
            text, parsed = self.agent.parse(generation.ids, observation, prompt)
            result = await self._step(session, parsed.action)
            row = _turn_row(turn, observation, prompt, generation, text, parsed, result)
            outcome.turns.append(row)
            outcome.reward = (outcome.reward or 0.0) + result.reward
            context.record(prompt, generation.ids, observation, text, parsed.action)
            if result.done:
                outcome.stop_reason, outcome.success = StopReason.DONE, result.success
                return
            observation = result.observation

    async def _sample(self, context: Context, prompt: Prompt, turn: int) -> Generation:
        request = GenerationRequest(
            prompt_ids=context.with_prompt(prompt),
            sampling=self.agent.sampling,
            seed=derive_seed(self.sampler_seed, turn),
            session=self.session_key,
        )
        return self.agent.cut(await self.engine.generate(request), prompt)

    async def _step(self, session: Session, action: str) -> StepResult:
        if getattr(session, "blocking", False):
            result = await asyncio.to_thread(session.step, action)
        else:
            result = session.step(action)
        if result.done and self.grader is not None:
            return await self.grader.grade(self.task, result)
        return result


def _turn_row(
    turn: int,
    observation: Observation,
    prompt: Prompt,
    generation: Generation,
    text: str,
    parsed: ParsedAction,
    result: StepResult,
) -> dict[str, Any]:
    info = dict(result.info)
    if parsed.reason is not None:
        info["parse_error"] = parsed.reason
    return {
        "turn": turn,
        "observation": observation.text,
        "observation_hash": text_hash(observation.text),
        "state_key": observation.state_key,
        "context_reset": prompt.reset,
        "prompt_ids": list(prompt.ids),
        "action_ids": list(generation.ids),
        "logprobs": list(generation.logprobs),
        "action_text": text,
        "action": parsed.action,
        "action_valid": parsed.valid and result.valid,
        "reward": float(result.reward),
        "done": result.done,
        "finish_reason": str(generation.finish_reason),
        "info_json": canonical_json(info),
    }
