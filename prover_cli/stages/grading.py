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
from prover_cli.engines.chat import ChatModel, open_chat, remote_name
from prover_cli.envs.base import Environment, StepResult, Task
from prover_cli.errors import PolicyChangedError, RequestFailed, UsageError
from prover_cli.ids import policy_id

KINDS = ("rule", "llm")
MAX_TOKENS = 256


def identify_grader(config: RolloutConfig, environment: Environment) -> str | None:
    """The grader's identity; None for the environment's own rule.

    It is the content hash of a checkpoint, and `NAME@HOST` for a model on a server, whose weights
    cannot be hashed. Raises `UsageError` for a grader that is unknown, has no model or has nothing
    to grade.
    """
    if config.grader not in KINDS:
        raise UsageError(f"--grader is {' or '.join(KINDS)}, not {config.grader!r}")
    if config.grader == "rule":
        return None
    if config.grader_model is None:
        hint = "DIR" if config.grader_url is None else "NAME, which the server knows it by"
        raise UsageError("--grader llm needs a model", hint=f"add --grader-model {hint}")
    if not hasattr(environment, "grading"):
        raise UsageError(
            f"{config.env.name} has nothing for a model to grade", hint="leave out --grader"
        )
    return _identity(config.grader_model, config.grader_url)


def open_grader(config: RolloutConfig, environment: Environment) -> Grader | None:
    """The grader of a rollout, ready to be asked; None for the environment's own rule.

    Raises `PolicyChangedError` when the model is not the one that was identified.
    """
    if config.grader_id is None or config.grader_model is None:
        return None
    now = _identity(config.grader_model, config.grader_url)
    if now != config.grader_id:
        raise PolicyChangedError(
            f"{config.grader_model} is not the grader of this rollout: "
            f"{config.grader_id} then, {now} now",
            hint="restore that model, or sample again: prover rollout --overwrite",
        )
    return Grader(open_chat(config.engine, config.grader_model, config.grader_url), environment)


def _identity(model: str, url: str | None) -> str:
    return policy_id(Path(model)) if url is None else remote_name(model, url)


class Grader:
    """Asks a model about finished episodes. All that are open at once are answered in batches."""

    def __init__(self, model: ChatModel, environment: Any) -> None:
        self._model, self._environment = model, environment

    async def grade(self, task: Task, result: StepResult) -> StepResult:
        """The last step of an episode with the outcome that the model decides.

        Raises `RequestFailed` for a reply that is no verdict, `EngineDeadError` without the model.
        """
        messages = self._environment.grading(task, result.info)
        if messages is None:
            return result
        reply = await self._model.reply(messages, max_tokens=MAX_TOKENS, temperature=0.0, seed=0)
        right = self._environment.verdict(reply.text)
        if right is None:
            raise RequestFailed(f"the grader's reply is no verdict: {reply.text[-100:]!r}")
        info = {**result.info, "rule_reward": result.reward, "grader_reply": reply.text}
        return replace(result, reward=float(right), success=right, info=info)

    async def close(self) -> None:
        await self._model.close()
