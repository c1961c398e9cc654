"""Re-entering a recorded trajectory: environment and agent exactly as they were before a turn.

The recorded actions are replayed from the recorded seed. Before every replayed turn the
observation is hashed against the recording, and at the boundary the agent must build the very
prompt ids that were recorded there. A state that fails either check is reported as diverged and
is never continued from. The environment's snapshot at the boundary then starts any number of
continuations, each re-seeded, so that none of them repeats the recorded future.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prover_cli.envs.base import Environment, Task
from prover_cli.errors import TaskMismatchError
from prover_cli.ids import digest, text_hash
from prover_cli.stages.agent import Agent, Context, Prompt
from prover_cli.stages.episode import Start


@dataclass(frozen=True)
class State:
    """A re-entered state: what holds before `turn` of a trajectory."""

    state_id: str
    turn: int
    snapshot: bytes
    context: Context
    reward_so_far: float

    def begin(self, environment: Environment, task: Task, seed: int) -> Start:
        """A fresh session in this state whose future randomness comes from `seed`."""
        session = environment.restore(task, self.snapshot)
        session.reseed(seed)
        return Start(session, self.context, self.turn, self.reward_so_far)


@dataclass(frozen=True)
class Diverged:
    """The replay did not reproduce the recording at `turn`."""

    turn: int


def reenter(
    environment: Environment,
    agent: Agent,
    task: Task,
    env_seed: int,
    turns: Sequence[Mapping[str, Any]],
    boundaries: Collection[int],
    turn_limit: int,
) -> dict[int, State | Diverged]:
    """The states before the turns in `boundaries` (recorded turns) of one trajectory.

    `turns` are its rows in order. Raises `TaskMismatchError` when already the first observation
    differs: the environment offers another task under the same id.
    """
    session = environment.start(task, env_seed)
    observation = session.observe()
    if text_hash(observation.text) != turns[0]["observation_hash"]:
        raise TaskMismatchError(
            f"task {task.task_id} starts differently now than in trajectory {turns[0]['traj_id']}: "
            f"the environment gives it another first observation",
            hint="restore the environment's data, or sample again: prover rollout --overwrite",
        )
    context, reward = Context(), 0.0
    states: dict[int, State | Diverged] = {}
    last = max(boundaries)
    for number in range(last + 1):
        turn = turns[number]
        if text_hash(observation.text) != turn["observation_hash"]:
            return _diverge(states, boundaries, number)
        prompt = Prompt(tuple(turn["prompt_ids"]), turn["context_reset"])
        if number in boundaries:
            if agent.prompt(task, context, observation) != prompt:
                return _diverge(states, boundaries, number)
            states[number] = State(
                state_id=_state_id(turn, context, prompt, agent, turn_limit - number),
                turn=number,
                snapshot=session.snapshot(),
                context=context.copy(),
                reward_so_far=reward,
            )
        if number == last:
            break
        result = session.step(turn["action"])
        reward += result.reward
        context.record(
            prompt, turn["action_ids"], observation.text, turn["action_text"], turn["action"]
        )
        if result.done != turn["done"]:
            return _diverge(states, boundaries, number)
        observation = result.observation
    return states


def _diverge(
    states: dict[int, State | Diverged], boundaries: Collection[int], turn: int
) -> dict[int, State | Diverged]:
    return {b: states.get(b, Diverged(turn)) for b in boundaries}


def _state_id(
    turn: Mapping[str, Any], context: Context, prompt: Prompt, agent: Agent, turns_left: int
) -> str:
    """Equal ids mean equal futures within a group: same environment state, same context, same
    number of turns left."""
    past = agent.quoted(context)
    return digest(
        [
            turn["group_id"],
            turn["state_key"],
            list(context.with_prompt(prompt)),
            [[p.observation, p.action_text, p.action] for p in past],
            turns_left,
        ]
    )
