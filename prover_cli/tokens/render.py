"""Chat messages to token ids, and sampled ids back to text.

Three promises hold for every id sequence made here. Sampled ids are never decoded and encoded
again: the next prompt of a conversation is the previous ids plus the ids of the environment's
suffix. Control tokens come only from this module: a text that spells `<|im_end|>` is encoded as
ordinary characters, whoever wrote it. Rendering is by structure (ChatML: `<|im_start|>role`,
content, `<|im_end|>`), so which tokens the policy produced is known from the list they came from
and never searched for in text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from prover_cli.envs.base import INLINE, Message
from prover_cli.errors import UsageError

IM_START = "<|im_start|>"
IM_END = "<|im_end|>"
_REMEMBERED_TEXTS = 4096


class ChatRenderer:
    """ChatML rendering with one tokenizer. Build it with `load`."""

    def __init__(self, tokenizer: Tokenizer, source: str) -> None:
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        # Control-token strings inside texts stay plain characters.
        tokenizer.encode_special_tokens = True
        self._encoded = lru_cache(maxsize=_REMEMBERED_TEXTS)(self._encode)
        self.im_start_id = self._control(IM_START, source)
        self.im_end_id = self._control(IM_END, source)
        self._newline = self.encode("\n")

    @classmethod
    def load(cls, policy: Path) -> ChatRenderer:
        """The renderer of a checkpoint folder; `UsageError` when it has no ChatML tokenizer."""
        path = policy / "tokenizer.json"
        if not path.is_file():
            raise UsageError(f"{policy} has no tokenizer.json")
        return cls(Tokenizer.from_file(str(path)), str(path))

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a reply; the policy samples them, so they are trained."""
        return (self.im_end_id,)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text. Recent texts are remembered: siblings see the same pages."""
        return list(self._encoded(text))

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def single(self, text: str) -> int | None:
        """The id that stands for the whole of a text; None when it takes several."""
        ids = self.encode(text)
        return ids[0] if len(ids) == 1 else None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a reply: everything up to the token that ended it."""
        body = list(ids)
        if body and body[-1] in self.stop_ids:
            body.pop()
        return str(self._tokenizer.decode(body, skip_special_tokens=False))

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """A whole prompt: the messages, then the opened assistant turn."""
        return [i for message in messages for i in self._message(message)] + self._open_reply()

    def suffix(self, reply_ids: Sequence[int], messages: Sequence[Message]) -> list[int]:
        """The ids that follow a sampled reply in an append-only conversation.

        Closes the reply where sampling was cut before its stop id (that closing token is the
        template's and is not trained), then renders `messages` and opens the next reply. An
        `INLINE` message goes on in the reply instead, or in a new one where the policy ended it.
        """
        if messages and messages[0].role == INLINE:
            ended = bool(reply_ids) and reply_ids[-1] == self.im_end_id
            opening = [*self._newline, *self._open_reply()] if ended else []
            return opening + [i for message in messages for i in self._content(message)]
        closing = [] if reply_ids and reply_ids[-1] == self.im_end_id else [self.im_end_id]
        return closing + self._newline + self.prompt(messages)

    def _message(self, message: Message) -> list[int]:
        head = self.encode(f"{message.role}\n")
        body = self._content(message)
        return [self.im_start_id, *head, *body, self.im_end_id, *self._newline]

    def _content(self, message: Message) -> list[int]:
        return self.encode(message.content)[: message.max_tokens]

    def _open_reply(self) -> list[int]:
        return [self.im_start_id, *self.encode("assistant\n")]

    def _control(self, token: str, source: str) -> int:
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise UsageError(
                f"{source} has no {token} token; only ChatML tokenizers can be rendered"
            )
        return int(token_id)
