"""One model that many conversations ask at once: from a cache where it can, within a budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prover_cli.engines.chat import ChatModel, ChatReply
from prover_cli.envs.base import Message
from prover_cli.judges.cache import KnownModel, ReplyCache, Request
from prover_cli.judges.spending import Spending

CHARACTERS_PER_TOKEN = 3.0
"""Assumed before a model has counted the tokens of a prompt."""


@dataclass(frozen=True)
class ModelSource:
    """A model that is opened when it must be asked.

    `name` is what it was given as, `model` its identity.
    """

    name: str
    model: str
    constrained: bool
    """Whether replies are to be held to a schema."""
    tight: bool
    """Whether each group may have a schema of its own."""
    context: int | None
    """Tokens of its context; None: the opened model says."""
    cap: int | None
    """Tokens of it that may be used; None: all."""
    open: Callable[[], ChatModel]


class Asker:
    """`in_flight` bounds the requests at a time."""

    def __init__(
        self,
        source: ModelSource,
        *,
        temperature: float,
        max_tokens: int,
        in_flight: int,
        cache: ReplyCache | None = None,
        spending: Spending | None = None,
    ) -> None:
        self.source = source
        self.model = source.model
        self.max_tokens = max_tokens
        self.n_asked = self.n_replayed = 0
        self.spending = spending or Spending()
        self._temperature, self._cache = temperature, cache
        self._opened: ChatModel | None = None
        self._places = asyncio.Semaphore(in_flight)

    @property
    def context(self) -> int:
        """Tokens of a prompt and its reply; opens the model where nobody knows it."""
        length = self._length()
        return length if self.source.cap is None else min(length, self.source.cap)

    def _length(self) -> int:
        if self.source.context is not None:
            return self.source.context
        known = None if self._cache is None else self._cache.known_model(self.source.name)
        if known is not None and known.model == self.model:
            return known.context
        # Servers need not say; a source that is one has its context stated.
        return int(getattr(self._open(), "max_model_len", 0))

    @property
    def notes(self) -> list[str]:
        """What the model does not do as it is asked."""
        return list(getattr(self._opened, "notes", ()))

    async def ask(
        self, messages: Sequence[Message], schema: str, seed: int, max_tokens: int
    ) -> ChatReply:
        """A reply.

        Raises `RequestFailed` when there is none, `OverBudget` when it may not be asked for, and
        `EngineDeadError` when the model is gone.
        """
        request = Request(
            self.model,
            self.source.constrained,
            tuple(messages),
            schema,
            self._temperature,
            max_tokens,
            seed,
        )
        recorded = None if self._cache is None else self._cache.find(request)
        if recorded is not None:
            self.n_replayed += 1
            return recorded
        async with self._places:
            reply = await self._asked(request)
        if self._cache is not None:
            self._cache.add(request, reply)
        return reply

    async def _asked(self, request: Request) -> ChatReply:
        place = self.spending.reserve(n_tokens(request.messages), request.max_tokens)
        read = written = 0
        try:
            reply = await self._open().reply(
                request.messages,
                max_tokens=request.max_tokens,
                temperature=request.temperature,
                seed=request.seed,
                json_schema=request.json_schema,
            )
            self.n_asked += 1
            read, written = reply.n_prompt_tokens, reply.n_output_tokens
        finally:
            self.spending.settle(place, read, written)
        return reply

    def _open(self) -> ChatModel:
        if self._opened is None:
            self._opened = self.source.open()
            length = getattr(self._opened, "max_model_len", None)
            if self._cache is not None and length is not None:
                self._cache.add_model(self.source.name, KnownModel(self.model, length))
        return self._opened

    async def close(self) -> None:
        if self._cache is not None:
            self._cache.close()
        if self._opened is not None:
            await self._opened.close()


def n_characters(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def n_tokens(messages: Sequence[Message], per_token: float = CHARACTERS_PER_TOKEN) -> int:
    """About how many tokens messages have."""
    return int(n_characters(messages) / per_token) + 8 * len(messages)
