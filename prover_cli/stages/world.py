"""The environment and the agent of a stage, resolved from a configuration or reopened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from prover_cli.config import EngineConfig, EnvConfig, RolloutConfig, SamplingConfig
from prover_cli.engines.base import Sampling
from prover_cli.envs.base import Environment, PromptStyle, assets_of
from prover_cli.envs.registry import load
from prover_cli.errors import PolicyChangedError, TaskMismatchError, UsageError
from prover_cli.ids import policy_id
from prover_cli.shards.manifest import EnvironmentEntry, Manifest, PolicyEntry
from prover_cli.stages.agent import Agent
from prover_cli.stages.grading import identify_grader
from prover_cli.tokens.render import ChatRenderer
from prover_cli.tokens.thinking import check_policy as check_thinking

DEFAULT_TASKS = 16
"""Tasks of a rollout that names no number (or all, where there are fewer)."""


@dataclass(frozen=True)
class World:
    """An environment with a chosen prompt style."""

    environment: Environment
    style: PromptStyle
    history: int | None
    max_turns: int
    thinking: str = "keep"

    def agent(self, policy: Path, sampling: SamplingConfig) -> Agent:
        renderer = ChatRenderer.load(policy, self.thinking)
        max_tokens = sampling.max_tokens or self.style.max_new_tokens
        ends = (renderer.single(end) for end in getattr(self.style, "ends", ()))
        return Agent(
            renderer,
            self.style,
            self.history,
            Sampling(
                max_tokens=max_tokens,
                stop_ids=(*renderer.stop_ids, *(end for end in ends if end is not None)),
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
            ),
        )


def open_world(config: EnvConfig) -> World:
    """Build the environment; `UsageError` for an unknown environment, option or prompt style."""
    environment = load(config.name, **config.options)
    name = config.prompt or environment.default_prompt
    if name not in environment.prompts:
        raise UsageError(
            f"{config.name} has no prompt style {name!r}; it has: {', '.join(environment.prompts)}"
        )
    style = environment.prompts[name]
    history = style.history if config.history is None else parse_history(config.history)
    thinking = config.thinking or "keep"
    check_thinking(thinking)
    max_turns = config.max_turns or environment.max_turns
    return World(environment, style, history, max_turns, thinking)


def parse_history(value: str) -> int | None:
    """`full` or a number of past turns to quote."""
    if value == "full":
        return None
    if not value.isdecimal():
        raise UsageError(f"--history is `full` or a number of turns, not {value!r}")
    return int(value)


def resolve(
    config: RolloutConfig, default_tasks: int = DEFAULT_TASKS
) -> tuple[RolloutConfig, World]:
    """Replace every default that depends on the environment by its value.

    Raises `UsageError` when more tasks are asked for than the split has.
    """
    world = open_world(config.env)
    available = len(world.environment.tasks(config.split))
    if config.tasks is not None and config.tasks > available:
        raise UsageError(
            f"--tasks {config.tasks}: split {config.split} of {config.env.name} has only "
            f"{available} tasks"
        )
    env = replace(
        config.env,
        prompt=world.style.name,
        history="full" if world.history is None else str(world.history),
        max_turns=world.max_turns,
        thinking=world.thinking,
    )
    sampling = replace(
        config.sampling, max_tokens=config.sampling.max_tokens or world.style.max_new_tokens
    )
    tasks = min(default_tasks, available) if config.tasks is None else config.tasks
    grader = identify_grader(config, world.environment)
    resolved = replace(config, env=env, sampling=sampling, tasks=tasks, grader_id=grader)
    return resolved, world


def reopen(rollout: Manifest) -> tuple[RolloutConfig, World, PolicyEntry]:
    """The configuration, world and policy that a rollout was made with, as they are now.

    Raises `TaskMismatchError` when the environment changed since, `PolicyChangedError` when the
    checkpoint did.
    """
    config = rollout_config(rollout)
    world = open_world(config.env)
    recorded, policy = rollout.environment, rollout.policy
    assert recorded is not None and policy is not None
    if world.environment.fingerprint != recorded.fingerprint:
        raise TaskMismatchError(
            f"environment {recorded.name} changed since the rollout: "
            + _changes(recorded, world.environment),
            hint="restore its data and options, or sample again: prover rollout --overwrite",
        )
    check_policy(policy)
    return config, world, policy


def _changes(recorded: EnvironmentEntry, now: Environment) -> str:
    """What differs, then and now."""
    then = {**recorded.assets, "fingerprint": recorded.fingerprint}
    current = {**assets_of(now), "fingerprint": now.fingerprint}
    changed = [key for key in then | current if then.get(key) != current.get(key)]
    return "; ".join(
        f"{key} {then.get(key, 'unknown')} then, {current.get(key, 'none')} now" for key in changed
    )


def check_policy(policy: PolicyEntry) -> None:
    """`PolicyChangedError` unless the recorded path still holds the recorded policy."""
    now = policy_id(Path(policy.path))
    if now != policy.policy_id:
        raise PolicyChangedError(
            f"{policy.path} is not the policy that made these shards: "
            f"{policy.policy_id} then, {now} now",
            hint="restore that checkpoint, or sample again: prover rollout --overwrite",
        )


def rollout_config(manifest: Manifest) -> RolloutConfig:
    """The configuration recorded in a rollout's or evaluation's manifest."""
    raw = dict(manifest.config)
    return RolloutConfig(
        env=EnvConfig(**raw.pop("env")),
        sampling=SamplingConfig(**raw.pop("sampling")),
        engine=EngineConfig(**raw.pop("engine")),
        **raw,
    )


def environment_entry(config: EnvConfig, environment: Environment) -> EnvironmentEntry:
    return EnvironmentEntry(
        name=config.name,
        options=dict(config.options),
        fingerprint=environment.fingerprint,
        assets=assets_of(environment),
    )
