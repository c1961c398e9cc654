"""Recorded replies: a folder of JSON lines that are only ever added.

A reply is found by a digest of everything that decides it: the model's identity, whether it was to
be constrained, the messages, the schema, temperature, token limit and seed. It is written as soon
as it has come, so a judge that was stopped inside a shard does not ask again. Any number of
processes may add to one folder. What cannot be asked again when the model is gone, its identity and
the length of its context, is recorded by the name that it was given.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from prover_cli.engines.base import FinishReason
from prover_cli.engines.chat import ChatReply
from prover_cli.envs.base import Message
from prover_cli.errors import UsageError
from prover_cli.ids import canonical_json, digest


@dataclass(frozen=True)
class Request:
    """What a model is asked."""

    model: str
    constrained: bool
    messages: tuple[Message, ...]
    json_schema: str
    temperature: float
    max_tokens: int
    seed: int

    @property
    def key(self) -> str:
        messages = [[message.role, message.content] for message in self.messages]
        return digest([*(v for k, v in vars_of(self).items() if k != "messages"), messages], 32)


def vars_of(request: Request) -> Mapping[str, Any]:
    return {name: getattr(request, name) for name in Request.__dataclass_fields__}


@dataclass(frozen=True)
class KnownModel:
    """What a model was when it was opened; `context` in tokens."""

    model: str
    context: int


class ReplyCache:
    """The replies in a folder. Raises `UsageError` for a folder that holds something else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._replies: dict[str, ChatReply] = {}
        self._models: dict[str, KnownModel] = {}
        self._file: IO[str] | None = None
        for path in sorted(folder.glob("replies-*.jsonl")):
            for value in _lines(path):
                self._take(path, value)

    def find(self, request: Request) -> ChatReply | None:
        return self._replies.get(request.key)

    def known_model(self, name: str) -> KnownModel | None:
        """The model that was opened under a name."""
        return self._models.get(name)

    def add(self, request: Request, reply: ChatReply) -> None:
        """Keep a reply."""
        self._replies[request.key] = reply
        self._write({"key": request.key, "model": request.model, "reply": asdict(reply)})

    def add_model(self, name: str, model: KnownModel) -> None:
        if self._models.get(name) != model:
            self._models[name] = model
            self._write({"name": name, **asdict(model)})

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, value: Mapping[str, Any]) -> None:
        if self._file is None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                path = self._folder / f"replies-{secrets.token_hex(8)}.jsonl"
                self._file = path.open("x", encoding="utf-8")
            except OSError as error:
                raise UsageError(f"--judge-cache {self._folder}: {error}") from None
        self._file.write(canonical_json(value) + "\n")
        self._file.flush()

    def _take(self, path: Path, value: Mapping[str, Any]) -> None:
        try:
            if "key" in value:
                raw = dict(value["reply"])
                reply = ChatReply(**{**raw, "finish_reason": FinishReason(raw["finish_reason"])})
                self._replies.setdefault(value["key"], reply)
            else:
                self._models[value["name"]] = KnownModel(value["model"], value["context"])
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, f"a line is no recorded reply ({error})") from None


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """The objects in a file; a last line that a killed writer left unfinished is passed over."""
    text = path.read_text(encoding="utf-8", errors="replace")
    whole: Sequence[str] = text.split("\n")[:-1]
    for number, line in enumerate(whole, start=1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise _damaged(path, f"line {number} is no JSON ({error})") from None
        if not isinstance(value, dict):
            raise _damaged(path, f"line {number} is no object")
        yield value


def _damaged(path: Path, what: str) -> UsageError:
    return UsageError(
        f"--judge-cache: {path} is damaged: {what}",
        hint=f"delete {path}: what it held is asked again",
    )
