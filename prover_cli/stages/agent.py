"""A policy as an agent: environment pages to prompt ids, sampled ids to actions.

The context is exactly what the policy has been shown and has sampled, as ids. In an append-only
conversation (`history=None`) each turn adds a suffix to it; with a window of N turns every turn
starts a fresh prompt that quotes the last N. A renderer that strips thinking renders the whole
conversation afresh instead of adding to it. The next prompt is a function of the context and the
current observation alone, so an agent re-entered at a recorded turn builds the recorded prompt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from prover_cli.engines.base import FinishReason, Generation, Sampling
from prover_cli.envs.base import (
    INLINE,
    Message,
    Observation,
    ParsedAction,
    PastTurn,
    PromptStyle,
    Task,
)
from prover_cli.errors import UsageError
from prover_cli.tokens.render import ChatRenderer
from prover_cli.tokens.thinking import UNFINISHED, answer, ends_inside, find_outside


@dataclass(frozen=True, slots=True)
class Prompt:
    """`ids` is what this turn adds to the context: all of it when `reset`."""

    ids: tuple[int, ...]
    reset: bool
    thinking: bool = field(default=False, compare=False)
    """The reply to it begins inside thinking."""


@dataclass
class Context:
    """What the policy has seen and done so far in one episode."""

    ids: list[int] = field(default_factory=list)
    replies: list[tuple[int, ...]] = field(default_factory=list)
    past: list[PastTurn] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    _sealed: int = hash(())

    def record(
        self,
        prompt: Prompt,
        reply_ids: Sequence[int],
        observation: Observation,
        text: str,
        action: str,
    ) -> None:
        """Append a finished turn."""
        self.ids = [*self.with_prompt(prompt), *reply_ids]
        self._sealed = hash(tuple(self.ids))
        self.replies.append(tuple(reply_ids))
        self.past.append(PastTurn(observation.text, text, action))
        self.observations.append(observation)

    @property
    def intact(self) -> bool:
        """The ids are still the last prompt given to the engine and the reply to it."""
        return hash(tuple(self.ids)) == self._sealed

    def copy(self) -> Context:
        return replace(
            self,
            ids=list(self.ids),
            replies=list(self.replies),
            past=list(self.past),
            observations=list(self.observations),
        )

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

    @property
    def _appends(self) -> bool:
        return self.history is None and self.renderer.thinking != "strip"

    def quoted(self, context: Context) -> list[PastTurn]:
        """The past turns that the next prompt depends on, without thinking where it is written
        anew."""
        if self._appends:
            return context.past
        n = len(context.past) if self.history is None else self.history
        return [
            replace(turn, action_text=self._answer(turn.action_text) or "")
            for turn in context.past[len(context.past) - min(n, len(context.past)) :]
        ]

    def prompt(self, task: Task, context: Context, observation: Observation) -> Prompt:
        """The ids that this turn adds to the context.

        Raises `UsageError`, which names the turn, when the context cannot be continued.
        """
        if self.history is not None:
            messages = self.style.window(task, self.quoted(context), observation)
        elif not context.past:
            messages = self.style.opening(task, observation)
        elif self._appends:
            return self._appended(context, self.style.following(task, observation))
        else:
            messages = self._conversation(task, context, observation)
        return Prompt(tuple(self.renderer.prompt(messages)), True, self.renderer.opens_thinking)

    def _appended(self, context: Context, messages: Sequence[Message]) -> Prompt:
        turn, reply = len(context.past), context.replies[-1]
        if not context.intact:
            raise UsageError(
                f"turn {turn}: the context is not the prompt of turn {turn - 1} and its reply",
                hint="render every turn anew: --thinking strip",
            )
        try:
            ids = tuple(self.renderer.suffix(reply, messages))
        except UsageError as error:
            raise UsageError(f"turn {turn}: {error.message}", hint=error.hint) from None
        if messages and messages[0].role == INLINE and not self.renderer.ended(reply):
            return Prompt(ids, False, self._still_thinks(context))
        return Prompt(ids, False, self.renderer.opens_thinking)

    def _conversation(
        self, task: Task, context: Context, observation: Observation
    ) -> list[Message]:
        """All turns as messages, the replies without their thinking."""
        first, *later = [*context.observations, observation]
        messages = list(self.style.opening(task, first))
        for turn, page in zip(self.quoted(context), later, strict=True):
            following = self.style.following(task, page)
            if any(message.role == INLINE for message in following):
                raise UsageError(
                    f"prompt style {self.style.name} goes on inside the reply, so its thinking "
                    f"cannot be stripped between turns",
                    hint="--thinking keep or --thinking off",
                )
            messages += [Message("assistant", turn.action_text), *following]
        return messages

    def _still_thinks(self, context: Context) -> bool:
        """Whether the reply that is gone on with ends inside thinking; it may span turns."""
        thinking = self.renderer.opens_thinking
        for ids, turn in zip(context.replies, context.past, strict=True):
            ended = self.renderer.ended(ids)
            begins = self.renderer.opens_thinking
            thinking = begins if ended else ends_inside(turn.action_text, thinking)
        return thinking

    def _answer(self, text: str, prompt: Prompt | None = None) -> str | None:
        return answer(text, self._opened(prompt))

    def _opened(self, prompt: Prompt | None) -> bool:
        return self.renderer.opens_thinking if prompt is None else prompt.thinking

    def cut(self, generation: Generation, prompt: Prompt | None = None) -> Generation:
        """What was sampled, up to the token that completes the end of the action.

        Ends are looked for outside thinking, in the order of the style's `ends`; the sampled ids
        are kept as they are, so the last one may hold characters beyond the end.
        """
        text = self.renderer.decode(generation.ids)
        for end in getattr(self.style, "ends", ()):
            if (place := find_outside(text, end, self._opened(prompt))) >= 0:
                break
        else:
            return generation
        n = bisect_left(
            range(len(generation.ids)),
            True,
            key=lambda i: self.renderer.decode(generation.ids[:i]).startswith(end, place),
        )
        return replace(
            generation,
            ids=generation.ids[:n],
            logprobs=generation.logprobs[:n],
            finish_reason=FinishReason.STOP,
        )

    def parse(
        self, ids: Sequence[int], observation: Observation, prompt: Prompt | None = None
    ) -> tuple[str, ParsedAction]:
        """The whole text of a reply, and the action in what it says after its thinking.

        `prompt` is what it replies to; None: one that opened a reply.
        """
        text = self.renderer.decode(ids)
        said = self._answer(text, prompt)
        if said is None:
            return text, ParsedAction("", False, UNFINISHED)
        return text, self.style.parse(said, observation)
