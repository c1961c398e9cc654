"""Re-entering a recorded trajectory: environment and agent exactly as they were before a turn.

The recorded actions are replayed from the recorded seed. Before every replayed turn the
observation is hashed against the recording and the environment's state key is compared with it,
and at the boundary the agent must build the very prompt ids that were recorded there. A state
that fails a check is reported as diverged and is never continued from. The environment's snapshot
at the boundary then starts any number of continuations, each re-seeded, so that none of them
repeats the recorded future.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prover_cli.envs.base import Environment, Observation, Session, StepResult, Task
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


class Mismatch(Exception):
    """A replay differs from the recording at `turn`; `what` names the thing that differs."""

    def __init__(self, turn: int, what: str) -> None:
        super().__init__(f"{what} of turn {turn}")
        self.turn, self.what = turn, what


@dataclass(frozen=True)
class Moment:
    """A replay just before a recorded turn."""

    number: int
    session: Session
    observation: Observation
    context: Context
    prompt: Prompt
    """The recorded one."""
    reward_so_far: float


def reenter(
    environment: Environment,
    agent: Agent,
    task: Task,
    env_seed: int,
    turns: Sequence[Mapping[str, Any]],
    boundaries: Collection[int],
    turn_limit: int,
    setting: str = "",
) -> dict[int, State | Diverged]:
    """The states before the turns in `boundaries` (recorded turns) of one trajectory.

    `turns` are its rows in order. `setting` identifies what a future depends on beside the state:
    the policy, its sampling and the environment. Raises `TaskMismatchError` when already the first
    observation differs: the environment offers another task under the same id.
    """
    states: dict[int, State | Diverged] = {}
    recorded = turns[: max(boundaries) + 1]
    try:
        for moment in replay(environment, task, env_seed, recorded):
            number = moment.number
            if number not in boundaries:
                continue
            check_prompt(agent, task, moment)
            states[number] = State(
                state_id=_state_id(task, turns[number], moment, agent, turn_limit, setting),
                turn=number,
                snapshot=moment.session.snapshot(),
                context=moment.context.copy(),
                reward_so_far=moment.reward_so_far,
            )
    except Mismatch as mismatch:
        if mismatch.turn == 0 and mismatch.what == "observation":
            raise _another_task(task, turns) from None
        return {b: states.get(b, Diverged(mismatch.turn)) for b in boundaries}
    return states


def replay(
    environment: Environment, task: Task, env_seed: int, turns: Sequence[Mapping[str, Any]]
) -> Iterator[Moment]:
    """The moments before each of `turns`; the action of the last of them is not taken.

    Raises `Mismatch` where an observation, a state or the end of the episode is another one.
    """
    session = environment.start(task, env_seed)
    observation, context, reward = session.observe(), Context(), 0.0
    for number, turn in enumerate(turns):
        check_page(observation, turn, number)
        prompt = Prompt(tuple(turn["prompt_ids"]), turn["context_reset"])
        yield Moment(number, session, observation, context, prompt, reward)
        if number == len(turns) - 1:
            return
        result = take(session, turn, number)
        reward += result.reward
        context.record(prompt, turn["action_ids"], observation, turn["action_text"], turn["action"])
        observation = result.observation


def take(session: Session, turn: Mapping[str, Any], number: int) -> StepResult:
    """Take a recorded action; `Mismatch` when it ends the episode and did not, or the reverse."""
    result = session.step(turn["action"])
    if result.done != turn["done"]:
        raise Mismatch(number, "end")
    return result


def check_page(observation: Observation, turn: Mapping[str, Any], number: int) -> None:
    """`Mismatch` unless what is seen, and the state behind it, are the recorded ones."""
    if text_hash(observation.text) != turn["observation_hash"]:
        raise Mismatch(number, "observation")
    if observation.state_key != turn["state_key"]:
        raise Mismatch(number, "state")


def check_prompt(agent: Agent, task: Task, moment: Moment) -> None:
    """`Mismatch` unless the agent builds the prompt ids that were recorded."""
    if agent.prompt(task, moment.context, moment.observation) != moment.prompt:
        raise Mismatch(moment.number, "prompt")


def _another_task(task: Task, turns: Sequence[Mapping[str, Any]]) -> TaskMismatchError:
    return TaskMismatchError(
        f"task {task.task_id} starts differently now than in trajectory {turns[0]['traj_id']}: "
        f"the environment gives it another first observation",
        hint="restore the environment's data, or sample again: prover rollout --overwrite",
    )


def _state_id(
    task: Task,
    turn: Mapping[str, Any],
    moment: Moment,
    agent: Agent,
    turn_limit: int,
    setting: str,
) -> str:
    """Equal ids mean equal futures, in every run: same setting, task, environment state, context,
    reward so far and number of turns left."""
    past = agent.quoted(moment.context)
    return digest(
        [
            setting,
            task.task_id,
            turn["state_key"],
            list(moment.context.with_prompt(moment.prompt)),
            [[p.observation, p.action_text, p.action] for p in past],
            moment.reward_so_far,
            turn_limit - moment.number,
        ]
    )
