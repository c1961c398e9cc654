"""Outcomes that a language model decides, where an environment has a question for it.

Exact match is strict: `the 4th of July` is not `July 4`. An environment may therefore have two
methods: `grading(task, info)` gives the messages that ask whether an episode's result is right
(`info` is that of its last step; None where there is nothing to ask), and `verdict(reply)` reads
the answer (None where it is none). Replies are greedy; an answer that cannot be read is a failure
of the infrastructure, which voids the episode, and never a reward.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from prover_cli.config import RolloutConfig
from prover_cli.engines.base import Engine, GenerationRequest, Sampling
from prover_cli.engines.select import open_engine
from prover_cli.envs.base import Environment, StepResult, Task
from prover_cli.errors import PolicyChangedError, RequestFailed, UsageError
from prover_cli.ids import policy_id
from prover_cli.tokens.render import ChatRenderer

KINDS = ("rule", "llm")
MAX_TOKENS = 256


def identify_grader(config: RolloutConfig, environment: Environment) -> str | None:
    """The content hash of the grader's model; None for the environment's own rule.

    Raises `UsageError` for a grader that is unknown, has no model or has nothing to grade.
    """
    if config.grader not in KINDS:
        raise UsageError(f"--grader is {' or '.join(KINDS)}, not {config.grader!r}")
    if config.grader == "rule":
        return None
    if config.grader_model is None:
        raise UsageError("--grader llm needs a model", hint="add --grader-model DIR")
    if not hasattr(environment, "grading"):
        raise UsageError(
            f"{config.env.name} has nothing for a model to grade", hint="leave out --grader"
        )
    return policy_id(Path(config.grader_model))


def open_grader(config: RolloutConfig, environment: Environment) -> Grader | None:
    """The grader of a rollout, ready to be asked; None for the environment's own rule.

    Raises `PolicyChangedError` when the model is not the one that was identified.
    """
    if config.grader_id is None or config.grader_model is None:
        return None
    model = Path(config.grader_model)
    if (now := policy_id(model)) != config.grader_id:
        raise PolicyChangedError(
            f"{model} is not the grader of this rollout: {config.grader_id} then, {now} now",
            hint="restore that model, or sample again: prover rollout --overwrite",
        )
    return Grader(open_engine(config.engine, model), ChatRenderer.load(model), environment)


class Grader:
    """Asks a model about finished episodes. All that are open at once are answered in batches."""

    def __init__(self, engine: Engine, renderer: ChatRenderer, environment: Any) -> None:
        self._engine, self._renderer, self._environment = engine, renderer, environment

    async def grade(self, task: Task, result: StepResult) -> StepResult:
        """The last step of an episode with the outcome that the model decides."""
        messages = self._environment.grading(task, result.info)
        if messages is None:
            return result
        generation = await self._engine.generate(
            GenerationRequest(
                prompt_ids=tuple(self._renderer.prompt(messages)),
                sampling=Sampling(MAX_TOKENS, self._renderer.stop_ids, temperature=0.0),
                seed=0,
            )
        )
        reply = self._renderer.decode(generation.ids)
        right = self._environment.verdict(reply)
        if right is None:
            raise RequestFailed(f"the grader's reply is no verdict: {reply[-100:]!r}")
        info = {**result.info, "rule_reward": result.reward, "grader_reply": reply}
        return replace(result, reward=float(right), success=right, info=info)

    async def close(self) -> None:
        await self._engine.close()
