"""Chat messages to token ids, and sampled ids back to text.

Four promises hold for every id sequence made here. Sampled ids are never decoded and encoded
again: the next prompt of a conversation is the previous ids plus the ids of the environment's
suffix. Control tokens come only from the model's chat template: a text that spells `<|im_end|>` is
encoded as ordinary characters, whoever wrote it. A prompt has the ids that Hugging Face's
`apply_chat_template` gives it where no text spells a control token. Which tokens the policy
produced is known from the list they came from and never searched for in text.

Thinking is dealt with in one of three declared ways. `keep`: conversations are append-only, earlier
thinking stays where it was sampled. `strip`: every turn renders the conversation anew, earlier
replies without their thinking. `off`: the template's switch turns thinking off; append-only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from prover_cli.envs.base import INLINE, Message
from prover_cli.errors import UsageError
from prover_cli.tokens import probes
from prover_cli.tokens.encode import Encoder, Part
from prover_cli.tokens.model_files import ChatFiles
from prover_cli.tokens.templates import CHATML, ChatTemplate, Shape
from prover_cli.tokens.thinking import CLOSE, OPEN, check_policy

IM_START = "<|im_start|>"
IM_END = "<|im_end|>"
_REMEMBERED_SHAPES = 1024
_ASKED = (Message("user", "q"), Message("assistant", "a"))
"""A conversation up to its first reply; suffixes are what a template writes after it."""


class ChatRenderer:
    """One tokenizer with its chat template. Build it with `load`."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        source: str,
        files: ChatFiles | None = None,
        thinking: str = "keep",
    ) -> None:
        """Without a template in `files`, a tokenizer with the ChatML tokens is rendered as ChatML.

        `source` names the tokenizer in messages. Raises `UsageError` as `load` does.
        """
        check_policy(thinking)
        self.thinking = thinking
        files = files or ChatFiles()
        if files.template is None:
            _demand_chatml(tokenizer, source)
        variables = {**files.special, "enable_thinking": thinking != "off"}
        self.template = ChatTemplate(files.template or CHATML, variables, source)
        probe = probes.probe(self.template)
        if thinking == "off":
            probes.check_switch(self.template)
        self.opens_thinking = probe.opens_thinking
        self._merges_system = probe.refuses_system
        written = "\n".join([probe.written, *files.special.values(), OPEN, CLOSE])
        self._encoder = Encoder(tokenizer, written, source)
        self._parts = lru_cache(maxsize=_REMEMBERED_SHAPES)(self._split)
        self._suffix_parts = lru_cache(maxsize=_REMEMBERED_SHAPES)(self._split_suffix)
        self._end, self.stop_ids = self._ends(files, source)
        self.notes = probes.notes(self.template, probe, thinking)
        self._check_bos(files, source)

    @classmethod
    def load(cls, policy: Path, thinking: str = "keep") -> ChatRenderer:
        """The renderer of a checkpoint folder.

        Raises `UsageError` when it has no tokenizer, or neither a chat template nor the ChatML
        tokens, when its template cannot be used, and for `off` where nothing turns thinking off.
        """
        path = policy / "tokenizer.json"
        if not path.is_file():
            raise UsageError(f"{policy} has no tokenizer.json")
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing more particular
            raise UsageError(f"{path} is no tokenizer: {error}") from None
        return cls(tokenizer, str(path), ChatFiles.read(policy), thinking)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text inside a prompt or reply."""
        return self._encoder.encode(text)

    def single(self, text: str) -> int | None:
        """The id that stands for the whole of a text; None when it takes several."""
        ids = self.encode(text)
        return ids[0] if len(ids) == 1 else None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a reply: everything up to the token that ended it."""
        return self._encoder.decode(ids[:-1] if self.ended(ids) else ids)

    def ended(self, reply_ids: Sequence[int]) -> bool:
        """Whether the policy ended its reply itself."""
        return bool(reply_ids) and reply_ids[-1] in self.stop_ids

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """A whole prompt: the messages, then the opened assistant turn."""
        messages = self._accepted(messages)
        parts = self._parts(self.template.shape(messages))
        return self._encoder.ids(parts, _texts(messages), first=True)

    def told(self, messages: Sequence[Message]) -> list[int]:
        """The messages alone, without the opening of a reply."""
        messages = self._accepted(messages)
        parts = self._encoder.split(
            self.template.pieces(self.template.shape(messages), open_reply=False)
        )
        return self._encoder.ids(parts, _texts(messages), first=True)

    def suffix(self, reply_ids: Sequence[int], messages: Sequence[Message]) -> list[int]:
        """The ids that follow a sampled reply in an append-only conversation.

        They are what the template writes after an assistant's text: the end of its turn, left out
        where the policy sampled it, then `messages` and the opening of the next reply. An `INLINE`
        message goes on in the reply instead, or in a new one where the policy ended it.
        """
        if messages and messages[0].role == INLINE:
            opening = self.suffix(reply_ids, ()) if self.ended(reply_ids) else []
            return opening + [i for m in messages for i in self.encode(m.content)[: m.max_tokens]]
        messages = self._accepted(messages)
        shape = self.template.shape(messages, first=len(_ASKED))
        ids = self._encoder.ids(
            self._suffix_parts(shape), _texts(messages, first=len(_ASKED)), first=False
        )
        closed = bool(reply_ids) and self._end[-1:] == [reply_ids[-1]]
        return ids[len(self._end) :] if closed else ids

    @property
    def im_start_id(self) -> int:
        """The id of ChatML's `<|im_start|>`; `UsageError` where there is none."""
        return self._chatml(IM_START)

    @property
    def im_end_id(self) -> int:
        """The id of ChatML's `<|im_end|>`; `UsageError` where there is none."""
        return self._chatml(IM_END)

    def _chatml(self, token: str) -> int:
        if (found := self._encoder.id_of(token)) is None:
            raise UsageError(f"{self.template.where} has no {token} token; it is not for ChatML")
        return found

    def _accepted(self, messages: Sequence[Message]) -> list[Message]:
        """The messages in roles that the template takes."""
        return probes.without_system(messages) if self._merges_system else list(messages)

    def _split(self, shape: Shape) -> tuple[Part, ...]:
        return self._encoder.split(self.template.pieces(shape, open_reply=True))

    def _split_suffix(self, shape: Shape) -> tuple[Part, ...]:
        pieces = probes.after_reply(self.template, shape, open_reply=True)
        return self._encoder.split(pieces)

    def _ends(self, files: ChatFiles, source: str) -> tuple[list[int], tuple[int, ...]]:
        """The ids that the template ends a continued reply with, and those that end a sampled one.

        The former are as far as the first control token; none where the template has none.
        """
        at_last = self._closing((), open_reply=False)
        eos = self._encoder.id_of(files.special.get("eos_token", ""))
        listed = [i for i in files.eos_ids if self._encoder.knows(i)]
        stops = [*at_last[-1:], *listed, *([] if eos is None else [eos])]
        if not stops:
            raise UsageError(
                f"nothing ends a reply: {source} names no end token and the chat template writes "
                f"none after an assistant's text",
                hint="set eos_token_id in generation_config.json",
            )
        try:
            end = self._closing((("user", self.template.mark(len(_ASKED))),), open_reply=True)
        except UsageError:
            end = at_last
        return (end if end[-1:] and end[-1] in stops else []), tuple(dict.fromkeys(stops))

    def _closing(self, following: Shape, open_reply: bool) -> list[int]:
        """What follows a reply, up to the first control token."""
        parts = self._encoder.split(probes.after_reply(self.template, following, open_reply))
        place = next((i for i, part in enumerate(parts) if isinstance(part, int)), len(parts))
        if place == len(parts) or not all(
            isinstance(p, str) and p.isspace() for p in parts[:place]
        ):
            return []
        return self._encoder.ids(parts[: place + 1], {}, first=False)

    def _check_bos(self, files: ChatFiles, source: str) -> None:
        self.bos_id = bos = self._encoder.id_of(files.special.get("bos_token", ""))
        if bos is not None and self.prompt(_ASKED[:1])[:2] == [bos, bos]:
            raise UsageError(f"the chat template of {source} begins a prompt with two BOS tokens")


def _texts(messages: Sequence[Message], first: int = 0) -> dict[int, tuple[str, int | None]]:
    """What belongs in the slots: texts without the white space that the template was shown."""
    return {
        i: (m.content.strip() if m.max_tokens is None else m.content, m.max_tokens)
        for i, m in enumerate(messages, start=first)
    }


def _demand_chatml(tokenizer: Tokenizer, source: str) -> None:
    for token in (IM_START, IM_END):
        if tokenizer.token_to_id(token) is None:
            raise UsageError(
                f"{source} has no {token} token and there is no chat template beside it",
                hint="write the model's template to chat_template.jinja in its folder",
            )
