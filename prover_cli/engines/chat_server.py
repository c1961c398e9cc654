"""A chat model on an OpenAI-compatible server, which needs to know nothing of token ids."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from prover_cli.engines.base import FinishReason
from prover_cli.engines.chat import ChatReply, remote_name
from prover_cli.engines.openai_faults import Fault, MissingFault, Refused
from prover_cli.engines.openai_fleet import Fleet
from prover_cli.engines.openai_loop import LoopThread
from prover_cli.engines.openai_server import Patience, Server, check_installed
from prover_cli.engines.openai_wire import served_models
from prover_cli.envs.base import Message
from prover_cli.errors import EngineDeadError, RequestFailed, UsageError

_ROLES = ("system", "user", "assistant")
_SCHEMA = "response_format"
_log = logging.getLogger(__name__)


class _Text(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Text
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int


class _Chat(BaseModel):
    choices: list[_Choice]
    usage: _Usage


class ServerChat:
    """The model `model` on the server at `url`.

    `constrained` becomes False, with a note, when the server refuses JSON schemas or ignores them.
    Raises `UsageError` for a server without that model, `EngineDeadError` for one that is silent.
    """

    def __init__(self, url: str, model: str, *, patience: Patience | None = None) -> None:
        check_installed()
        self.model, self._name = remote_name(model, url), model
        self.constrained = True
        self.notes: list[str] = []
        """What the server does not do as it is asked, once each."""
        self._limit = "max_tokens"
        patience = patience or Patience()
        self._fleet = Fleet([Server(url, patience)], self._check, patience)
        self._loop = LoopThread("chat")
        self._closed = False
        try:
            self._loop.wait(self._fleet.start())
        except BaseException:
            self._shut_down()
            raise

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        temperature: float,
        seed: int,
        json_schema: str | None = None,
    ) -> ChatReply:
        """The next message. Raises `RequestFailed`, or `EngineDeadError` without the server."""
        if self._closed:
            raise EngineDeadError("the chat model was closed")
        body = {
            "model": self._name,
            "messages": [_plain(message) for message in messages],
            "temperature": temperature,
            "seed": seed,
            "n": 1,
        }

        async def send(server: Server) -> ChatReply:
            return await self._send(server, body, max_tokens, json_schema)

        return await self._loop.run(self._fleet.ask(send))

    async def close(self) -> None:
        """End all connections; requests still in flight fail."""
        self._shut_down()

    def _shut_down(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.wait(self._fleet.close())
            self._loop.stop()

    async def _send(
        self, server: Server, body: dict[str, Any], max_tokens: int, json_schema: str | None
    ) -> ChatReply:
        """Ask, and ask again in the words that the server knows where it refuses ours."""
        while True:
            limit = self._limit
            fields = {**body, limit: max_tokens}
            schema = json_schema if self.constrained else None
            if schema is not None:
                fields[_SCHEMA] = _response_format(schema)
            try:
                answer = await server.chat(fields)
            except Refused as refusal:
                if schema is not None and _SCHEMA in str(refusal):
                    self._unconstrained(server, f"refuses JSON schemas: {refusal}")
                elif limit == "max_tokens" and "max_completion_tokens" in str(refusal):
                    self._limit = "max_completion_tokens"
                else:
                    raise
                continue
            reply = _reply(answer)
            if schema is not None and not _is_json(reply):
                self._unconstrained(server, "ignores JSON schemas")
            return reply

    def _unconstrained(self, server: Server, why: str) -> None:
        """From now on replies are plain text."""
        if self.constrained:
            self.constrained = False
            self.notes.append(f"{server.url} {why}; replies of {self._name} are unconstrained")
            _log.warning("%s", self.notes[-1])

    async def _check(self, server: Server) -> None:
        """That the server has the model, where it lists its models."""
        try:
            models = [model.id for model in served_models(await server.models())]
        except (MissingFault, Refused):
            return
        if models and self._name not in models:
            raise UsageError(
                f"{server.url} has no model {self._name!r}; it has: {', '.join(models)}"
            )


def _plain(message: Message) -> dict[str, str]:
    if message.role not in _ROLES or message.max_tokens is not None:
        raise ValueError(f"a server cannot be given a message of role {message.role!r} cut by ids")
    return {"role": message.role, "content": message.content}


def _response_format(schema: str) -> dict[str, Any]:
    named = {"name": "reply", "strict": True, "schema": json.loads(schema)}
    return {"type": "json_schema", "json_schema": named}


def _reply(answer: dict[str, Any]) -> ChatReply:
    try:
        chat = _Chat.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Fault(f"the answer is no chat completion ({where}: {first['msg']})") from None
    if not chat.choices:
        raise Fault("the answer has no choices")
    choice = chat.choices[0]
    if choice.finish_reason is None:
        raise Fault("the answer does not say why the reply ended")
    if choice.finish_reason not in ("stop", "length"):
        raise RequestFailed(f"the server ended the reply as {choice.finish_reason!r}")
    return ChatReply(
        choice.message.content or "",
        chat.usage.prompt_tokens,
        chat.usage.completion_tokens,
        FinishReason(choice.finish_reason),
    )


def _is_json(reply: ChatReply) -> bool:
    """Whether a reply can have been constrained; one that was cut shows nothing."""
    if reply.finish_reason is not FinishReason.STOP:
        return True
    try:
        json.loads(reply.text)
    except ValueError:
        return False
    return True
