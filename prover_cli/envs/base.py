"""What every environment promises to the stages.

An `Environment` is a read-only world that thousands of `Session`s share. A session is one episode
in progress and is exactly restorable: `snapshot()` is small plain JSON bytes that
`Environment.restore` turns into an equal session in any process. A `PromptStyle` is the only place
where pages become chat messages and replies become actions, so the engine, the tokens and the
stages never see environment vocabulary.

Randomness of a stochastic environment comes only from the seed given to `start` or `reseed`, so a
replay with the recorded seed repeats the recorded episode and a continuation with a fresh seed has
a future of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from prover_cli.envs.panel import Panel


class Progress(Protocol):
    """Told how far a long preparation is."""

    def start(self, what: str, total: int, unit: str) -> None: ...

    def advance(self, n: int = 1, facts: str = "") -> None: ...

    def note(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Task:
    """One problem instance. `task_id` is a hash of its content (see `panel.make_task`)."""

    task_id: str
    env: str
    split: str
    index: int
    instruction: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent sees, and the key of the environment state behind it.

    `state_key` hashes every dynamic fact of the environment: equal keys mean equal futures.
    `page` is the same content in structured form, for prompt styles that lay it out themselves.
    """

    text: str
    state_key: str
    admissible: tuple[str, ...] | None = None
    page: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of one action; `valid` is False for an action the environment rejected."""

    observation: Observation
    reward: float
    done: bool
    success: bool
    valid: bool
    info: Mapping[str, Any] = field(default_factory=dict)


class Session(Protocol):
    """One episode in progress.

    A session that waits for something outside the process has an attribute `blocking = True`; its
    steps are then taken in threads, so that other episodes go on.
    """

    def observe(self) -> Observation:
        """The current observation; does not change the state."""
        ...

    def step(self, action: str) -> StepResult:
        """Apply an action. An action the environment rejects is a valid call with `valid=False`."""
        ...

    def snapshot(self) -> bytes:
        """The whole dynamic state as UTF-8 JSON (never a pickle)."""
        ...

    def reseed(self, seed: int) -> None:
        """Give the rest of the episode its own randomness; no effect if deterministic."""
        ...


INLINE = "inline"
"""Role of a text that goes on inside the assistant's reply, without a message of its own."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message; `role` is system, user, assistant, or `INLINE` after a reply."""

    role: str
    content: str
    max_tokens: int | None = None
    """Tokens of the content that are shown, the first ones; None: all."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A finished turn as later prompts may quote it."""

    observation: str
    action_text: str
    action: str


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """The action in a reply.

    When there is none, `valid` is False, `reason` says why, and `action` is empty: the environment
    is told that nothing was done, never given the raw reply to make something of. An action that is
    taken although the reply breaks a rule is marked with `valid=False` too.
    """

    action: str
    valid: bool
    reason: str | None = None


class PromptStyle(Protocol):
    """How pages become messages and replies become actions.

    `history` is the style's default: None for append-only conversations (`opening`, then
    `following` after each action), N for a fresh prompt at every turn that quotes the last N turns
    (`window`).

    A style whose actions end in a closing tag says so in an attribute `ends` (texts, the most
    important first): what was sampled after the first of them is cut off, token by token.
    """

    @property
    def name(self) -> str: ...

    @property
    def history(self) -> int | None: ...

    @property
    def max_new_tokens(self) -> int: ...

    def opening(self, task: Task, observation: Observation) -> list[Message]: ...

    def following(self, task: Task, observation: Observation) -> list[Message]: ...

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]: ...

    def parse(self, reply: str, observation: Observation) -> ParsedAction: ...


class Environment(Protocol):
    """A world: its tasks, its rules and the ways of prompting for it."""

    name: str
    fingerprint: str
    """Hash of everything that decides tasks and dynamics; recorded in every manifest."""
    max_turns: int
    default_prompt: str

    @property
    def prompts(self) -> Mapping[str, PromptStyle]: ...

    def tasks(self, split: str) -> Panel:
        """The ordered tasks of train, valid, test or all; `UsageError` for another split."""
        ...

    def start(self, task: Task, seed: int) -> Session: ...

    def restore(self, task: Task, snapshot: bytes) -> Session: ...

    # An environment that asks others for its observations may have a method
    # `recall(task, turns)`: it is given the recorded turns of a trajectory before they are
    # replayed, so that the replay asks nobody.

    def expert(self, task: Task, session: Session) -> str:
        """The next action of a policy that solves the task from the session's state."""
        ...


def assets_of(environment: Environment) -> dict[str, str]:
    """What an environment's fingerprint is made of, by name, so that a difference can be named.

    An environment says so in an attribute `assets`, which it need not have.
    """
    return dict(getattr(environment, "assets", {}))
