"""Chat models for judges and graders: messages in, text out.

A policy is sampled through an `Engine`, by token ids. Whoever judges or grades has no gradient, so
text is enough, and any server of the OpenAI chat API will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prover_cli.config import EngineConfig
from prover_cli.engines.base import Engine, FinishReason, GenerationRequest, Sampling
from prover_cli.engines.openai_address import host
from prover_cli.envs.base import Message
from prover_cli.errors import UsageError
from prover_cli.ids import text_hash
from prover_cli.tokens import thinking
from prover_cli.tokens.render import ChatRenderer

_CONSTRAINING = ("vllm", "openai")
"""Engines that can hold a reply to a JSON schema."""


@dataclass(frozen=True)
class ChatReply:
    """`text` is empty when `finish_reason` is `context` (the messages left no room for a reply),
    and for a reply that ended inside its thinking."""

    text: str
    n_prompt_tokens: int
    n_output_tokens: int
    finish_reason: FinishReason


class ChatModel(Protocol):
    model: str
    """Name for the record: a checkpoint's content hash, or `NAME@HOST` of a server."""
    constrained: bool
    """Whether a reply is held to the JSON schema that is given; else the schema has no effect."""

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        temperature: float,
        seed: int,
        json_schema: str | None = None,
    ) -> ChatReply:
        """The next message, without the thinking before it.

        Raises `RequestFailed`, or `EngineDeadError` when the model is gone.
        """
        ...

    async def close(self) -> None: ...


class EngineChat:
    """A local checkpoint as a chat model. `renderer` is the checkpoint's own."""

    def __init__(self, engine: Engine, renderer: ChatRenderer) -> None:
        self._engine, self._renderer = engine, renderer
        self.model = engine.policy_id
        self.max_model_len = engine.max_model_len
        self.constrained = can_constrain(engine.name)

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        temperature: float,
        seed: int,
        json_schema: str | None = None,
    ) -> ChatReply:
        prompt = tuple(self._renderer.prompt(messages))
        sampling = Sampling(
            max_tokens,
            self._renderer.stop_ids,
            temperature=temperature,
            json_schema=json_schema if self.constrained else None,
        )
        request = GenerationRequest(prompt, sampling, seed, _conversation(messages))
        generation = await self._engine.generate(request)
        text = self._renderer.decode(generation.ids)
        if sampling.json_schema is None:  # a schema leaves no room for thinking
            text = thinking.answer(text, self._renderer.opens_thinking) or ""
        return ChatReply(
            text,
            len(prompt),
            len(generation.ids),
            generation.finish_reason,
        )

    async def close(self) -> None:
        await self._engine.close()


def open_chat(config: EngineConfig, model: str | None, url: str | None) -> ChatModel:
    """The model of that name on the server at `url`, or the checkpoint in the folder `model`.

    A checkpoint gets an engine of its own, as `config` says. Raises `UsageError` for what cannot be
    opened, `EngineDeadError` for a server that does not answer.
    """
    if model is None:
        raise UsageError(
            "no chat model is named"
            if url is None
            else f"which model on the server {host(url)}? None is named"
        )
    if url is not None:
        from prover_cli.engines.chat_server import ServerChat

        return ServerChat(url, model)
    from prover_cli.engines.select import open_engine

    return EngineChat(open_engine(config, Path(model)), ChatRenderer.load(Path(model)))


def can_constrain(engine: str) -> bool:
    """Whether an engine holds a reply to a JSON schema."""
    return engine in _CONSTRAINING


def remote_name(model: str, url: str) -> str:
    """`NAME@HOST`, how a model on a server is recorded; its weights cannot be hashed."""
    return f"{model}@{host(url)}"


def _conversation(messages: Sequence[Message]) -> str | None:
    """A session key that the turns of one conversation share, so that their prefix is reused."""
    first = next((message for message in messages if message.role != "system"), None)
    return None if first is None else f"chat-{text_hash(first.content)}"
