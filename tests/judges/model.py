"""A chat model that says what its script says, and records what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prover_cli.engines.base import FinishReason
from prover_cli.engines.chat import ChatModel, ChatReply
from prover_cli.envs.base import Message
from prover_cli.judges.agentic import AgenticJudge
from prover_cli.judges.asker import Asker, ModelSource
from prover_cli.judges.base import GroupView
from prover_cli.judges.cache import ReplyCache
from prover_cli.judges.instructions import Instructions
from prover_cli.judges.spending import Spending
from tests.judges.groups import group, trajectory

Script = Sequence[Any] | Callable[[Sequence[Message]], Any]


@dataclass(frozen=True)
class Asked:
    messages: tuple[Message, ...]
    schema: dict[str, Any]
    seed: int
    max_tokens: int
    temperature: float

    @property
    def last(self) -> str:
        return self.messages[-1].content

    @property
    def text(self) -> str:
        return "\n".join(message.content for message in self.messages)


class ScriptedChat:
    """Replies in order: texts, objects (as JSON) or exceptions; or what a function makes of the
    messages. `per_token` characters are a token; what is longer than `max_model_len` is refused."""

    def __init__(self, script: Script, max_model_len: int = 32_000, per_token: float = 4.0) -> None:
        self.model, self.constrained = "scripted-model", False
        self.max_model_len = max_model_len
        self.asked: list[Asked] = []
        self.closed = False
        self._script, self._per_token = script, per_token
        self._next = 0

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        temperature: float,
        seed: int,
        json_schema: str | None = None,
    ) -> ChatReply:
        schema = json.loads(json_schema or "{}")
        self.asked.append(Asked(tuple(messages), schema, seed, max_tokens, temperature))
        read = int(sum(len(m.content) for m in messages) / self._per_token)
        if read >= self.max_model_len:
            return ChatReply("", read, 0, FinishReason.CONTEXT)
        said = self._say(messages)
        if isinstance(said, BaseException):
            raise said
        text = said if isinstance(said, str) else json.dumps(said)
        budget = min(max_tokens, self.max_model_len - read)
        cut = text[: int(budget * self._per_token)]
        reason = FinishReason.STOP if cut == text else FinishReason.LENGTH
        return ChatReply(cut, read, max(1, int(len(cut) / self._per_token)), reason)

    def _say(self, messages: Sequence[Message]) -> Any:
        if callable(self._script):
            return self._script(messages)
        self._next += 1
        return self._script[self._next - 1]

    async def close(self) -> None:
        self.closed = True


def asker(
    chat: ChatModel,
    *,
    cache: ReplyCache | None = None,
    spending: Spending | None = None,
    tight: bool = False,
    cap: int | None = None,
    max_tokens: int = 400,
) -> Asker:
    source = ModelSource("name", chat.model, False, tight, None, cap, lambda: chat)
    return Asker(
        source, temperature=0.0, max_tokens=max_tokens, in_flight=4, cache=cache, spending=spending
    )


def judge(chat: ChatModel, **changes: Any) -> AgenticJudge:
    asking = {k: changes.pop(k) for k in ("cache", "spending", "tight", "cap") if k in changes}
    settings = {"seed": 0, "max_segment": 4, **changes}
    return AgenticJudge(asker(chat, **asking), Instructions.read(), **settings)


def submit(start: int = 1, end: int = 2, **changes: Any) -> dict[str, Any]:
    return {
        "tool": "submit",
        "start_turn": start,
        "end_turn": end,
        "failure_mode": "they leave",
        "rationale": "it takes the key",
        "confidence": 0.75,
        **changes,
    }


def key_group() -> GroupView:
    """Who takes the key in the second turn succeeds; the success has six turns, one invalid."""
    return group(
        trajectory(0, "abcdef", True, {3}, ["look", "take key", "wait", "??", "go", "open"]),
        trajectory(1, "abcdefg", True),
        trajectory(2, "abxy", False, actions=["look", "leave", "walk", "sit"]),
        trajectory(3, "aqq", False, actions=["run", "walk", "walk"]),
        trajectory(4, "abz", False, actions=["look", "leave", "cry"]),
    )
