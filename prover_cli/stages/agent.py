"""A policy as an agent: environment pages to prompt ids, sampled ids to actions.

The context is exactly what the policy has been shown and has sampled, as ids. In an append-only
conversation (`history=None`) each turn adds a suffix to it; with a window of N turns every turn
starts a fresh prompt that quotes the last N. The next prompt is a function of the context and the
current observation alone, so an agent re-entered at a recorded turn builds the recorded prompt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from prover_cli.engines.base import FinishReason, Generation, Sampling
from prover_cli.envs.base import Observation, ParsedAction, PastTurn, PromptStyle, Task
from prover_cli.tokens.render import ChatRenderer


@dataclass(frozen=True, slots=True)
class Prompt:
    """`ids` is what this turn adds to the context: all of it when `reset`."""

    ids: tuple[int, ...]
    reset: bool


@dataclass
class Context:
    """What the policy has seen and done so far in one episode."""

    ids: list[int] = field(default_factory=list)
    last_reply: tuple[int, ...] = ()
    past: list[PastTurn] = field(default_factory=list)

    def record(
        self, prompt: Prompt, reply_ids: Sequence[int], observation: str, text: str, action: str
    ) -> None:
        """Append a finished turn."""
        kept = [] if prompt.reset else self.ids
        self.ids = [*kept, *prompt.ids, *reply_ids]
        self.last_reply = tuple(reply_ids)
        self.past.append(PastTurn(observation, text, action))

    def copy(self) -> Context:
        return replace(self, ids=list(self.ids), past=list(self.past))

    def with_prompt(self, prompt: Prompt) -> tuple[int, ...]:
        """The ids given to the engine."""
        return prompt.ids if prompt.reset else (*self.ids, *prompt.ids)


@dataclass(frozen=True)
class Agent:
    """One policy's way of taking part in episodes; shared by all of them."""

    renderer: ChatRenderer
    style: PromptStyle
    history: int | None
    sampling: Sampling

    def quoted(self, context: Context) -> list[PastTurn]:
        """The past turns that the next prompt depends on."""
        if self.history is None:
            return context.past
        return context.past[-self.history :] if self.history else []

    def prompt(self, task: Task, context: Context, observation: Observation) -> Prompt:
        """The ids that this turn adds to the context."""
        if self.history is not None:
            messages = self.style.window(task, self.quoted(context), observation)
            return Prompt(tuple(self.renderer.prompt(messages)), True)
        if not context.past:
            return Prompt(tuple(self.renderer.prompt(self.style.opening(task, observation))), True)
        messages = self.style.following(task, observation)
        return Prompt(tuple(self.renderer.suffix(context.last_reply, messages)), False)

    def cut(self, generation: Generation) -> Generation:
        """What was sampled, up to the token that completes the end of the action.

        Ends are looked for in the order of the style's `ends`; the sampled ids are kept as they
        are, so the last one may hold characters beyond the end.
        """
        text = self.renderer.decode(generation.ids)
        end = next((end for end in getattr(self.style, "ends", ()) if end in text), None)
        if end is None:
            return generation
        n = bisect_left(
            range(len(generation.ids)),
            True,
            key=lambda i: end in self.renderer.decode(generation.ids[:i]),
        )
        return replace(
            generation,
            ids=generation.ids[:n],
            logprobs=generation.logprobs[:n],
            finish_reason=FinishReason.STOP,
        )

    def parse(self, ids: Sequence[int], observation: Observation) -> tuple[str, ParsedAction]:
        """The text of a reply and the action in it."""
        text = self.renderer.decode(ids)
        return text, self.style.parse(text, observation)
