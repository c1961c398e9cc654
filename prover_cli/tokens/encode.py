"""Text to ids, with control tokens only where the chat template wrote them.

A prompt is encoded in runs: the text between two control tokens, whoever wrote its parts, is one
run, as it would be if the whole prompt were encoded at once. Inside a run nothing becomes a control
token, whatever it spells. Control tokens are those that the tokenizer calls special, and those that
the template writes although the tokenizer does not call them so (such as `<think>`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from tokenizers import AddedToken, Tokenizer

from prover_cli.errors import UsageError
from prover_cli.tokens.templates import Piece, Slot

_REMEMBERED_TEXTS = 4096
_START, _TEXT = -2, -1
"""What stands before a run that follows no control token: nothing, or other text."""

Part = int | str | Slot
"""A control token, text of the template, or the place of another's text."""


class Encoder:
    """One tokenizer, told which of its tokens are control tokens."""

    def __init__(self, tokenizer: Tokenizer, written: str, source: str) -> None:
        """`written` has all added tokens that control chats; `source` names the tokenizer.

        Raises `UsageError` when texts could not be kept from becoming control tokens.
        """
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        added = tokenizer.get_added_tokens_decoder()
        control = {
            i: token
            for i, token in added.items()
            if token.special or (token.content.strip() and token.content in written)
        }
        tokenizer.add_special_tokens(list(control.values()))
        # Control-token strings inside texts stay plain characters.
        tokenizer.encode_special_tokens = True
        # Many tokenizers put a blank before the first word of a text. A run that is not the first
        # is therefore encoded behind a token of its own, which no text can contain.
        self._before = f"<{secrets.token_hex(16)}>"
        tokenizer.add_tokens([AddedToken(self._before, special=False, normalized=False)])
        self._added = {token.content: i for i, token in added.items()}
        self._strips = {i: (token.lstrip, token.rstrip) for i, token in added.items()}
        self._split = _splitter(self._added)
        self._encoded = lru_cache(maxsize=_REMEMBERED_TEXTS)(self._encode)
        for i, token in control.items():
            if i in self.encode(token.content):
                raise UsageError(
                    f"{source} makes a control token of the text {token.content!r} even where "
                    f"special tokens are to be read as text"
                )

    def encode(self, text: str) -> list[int]:
        """Ids of plain text inside a prompt. Recent texts are remembered: siblings see the same."""
        return list(self._encoded(text, False))

    def _encode(self, text: str, first: bool) -> tuple[int, ...]:
        if first:
            return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
        ids = self._tokenizer.encode(self._before + text, add_special_tokens=False).ids
        return tuple(ids[1:])

    def split(self, pieces: Iterable[Piece]) -> tuple[Part, ...]:
        """Pieces of a rendered template with its added tokens as ids."""
        parts: list[Part] = []
        for piece in pieces:
            if isinstance(piece, Slot) or self._split is None:
                parts.append(piece)
            else:
                texts = [text for text in self._split.split(piece) if text]
                parts += [self._added.get(text, text) for text in texts]
        return tuple(parts)

    def ids(
        self, parts: Iterable[Part], texts: Mapping[int, tuple[str, int | None]], first: bool
    ) -> list[int]:
        """The ids of a prompt.

        `texts` are those of the slots, each with the number of its tokens to show (None: all);
        `first` says that nothing stands before the parts.
        """
        ids: list[int] = []
        run, before = "", _START if first else _TEXT
        for part in parts:
            if isinstance(part, str):
                run += part
            elif isinstance(part, int):
                ids += [*self._run(run, before, part), part]
                run, before = "", part
            elif (shown := texts[part.index])[1] is None:
                run += shown[0]
            else:
                ids += [*self._run(run, before, _TEXT), *self.encode(shown[0])[: shown[1]]]
                run, before = "", _TEXT
        return [*ids, *self._run(run, before, _TEXT)]

    def _run(self, text: str, before: int, after: int) -> tuple[int, ...]:
        """A run between two control tokens, which may swallow the white space beside them."""
        if before >= 0 and self._strips[before][1]:
            text = text.lstrip()
        if after >= 0 and self._strips[after][0]:
            text = text.rstrip()
        return self._encoded(text, before == _START) if text else ()

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def id_of(self, token: str) -> int | None:
        """The id of a token by its text."""
        found = self._tokenizer.token_to_id(token)
        return None if found is None else int(found)

    def knows(self, token_id: int) -> bool:
        return self._tokenizer.id_to_token(token_id) is not None


def _splitter(added: Mapping[str, int]) -> re.Pattern[str] | None:
    """Cuts text at added tokens, the longest first, and keeps them."""
    texts = sorted((text for text in added if text), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, texts))})") if texts else None
