"""A conversation with a model that fits into its context and is repaired where a reply is wrong.

What is shown first is a function of how many characters of each text it shows; the largest step of
`LIMITS` that fits is taken. How many characters a token has is assumed until the model has counted
a prompt; what does not fit after all is shown again in shorter texts. A wrong reply stands in the
conversation, with what is wrong with it, until the next one has come.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from prover_cli.engines.base import FinishReason
from prover_cli.engines.chat import ChatReply
from prover_cli.envs.base import Message
from prover_cli.errors import RequestFailed
from prover_cli.ids import derive_seed
from prover_cli.judges.asker import CHARACTERS_PER_TOKEN, Asker, n_characters, n_tokens
from prover_cli.judges.parse import Fault, Form, read

T = TypeVar("T")
LIMITS = (4000, 2000, 1000, 600, 400, 250, 150, 80, 40, 0)
"""Characters shown of each observation and reply."""
_FOR_TOOLS = 0.3
"""Share of the context that is kept for the results of tools."""
_QUOTED_BACK = 1500
_LEAST_RESULT = 400
_MOST_RESULT = 8000
_SLACK = 1.05


class DoesNotFit(RequestFailed):
    """The shortest version of what is shown is too long for the model's context."""


class Unrepaired(Exception):
    """The last reply that was allowed was wrong too; the message says how."""


@dataclass
class Tally:
    """What a conversation took."""

    replies: list[str] = field(default_factory=list)
    """The raw replies, in order."""
    faults: list[str] = field(default_factory=list)
    tool_calls: int = 0
    n_prompt_tokens: int = 0
    n_output_tokens: int = 0

    def add(self, other: Tally) -> None:
        self.replies += other.replies
        self.faults += other.faults
        self.tool_calls += other.tool_calls
        self.n_prompt_tokens += other.n_prompt_tokens
        self.n_output_tokens += other.n_output_tokens


class Talk:
    """`opening(limit)` is what is shown first; `seed_parts` name the conversation."""

    def __init__(
        self,
        asker: Asker,
        opening: Callable[[int], list[Message]],
        *,
        max_repairs: int,
        seed_parts: tuple[str | int, ...],
        with_tools: bool = False,
    ) -> None:
        self.tally = Tally()
        self._asker, self._opening = asker, opening
        self._max_repairs, self._seed_parts = max_repairs, seed_parts
        self._per_token = CHARACTERS_PER_TOKEN
        self._context = asker.context
        self._max_tokens = max(1, min(asker.max_tokens, self._context // 4))
        self._for_tools = int(self._context * _FOR_TOOLS) if with_tools else 0
        self._past: list[Message] = []
        self._repair: list[Message] = []
        self._limit = self._fitting(LIMITS[0])

    async def until_valid(
        self, check: Callable[[dict[str, Any]], T], schema: str
    ) -> tuple[T, Form]:
        """What `check` makes of the first reply that it takes; raises `Unrepaired`.

        Raises `RequestFailed`, `OverBudget` and `EngineDeadError` as asking does.
        """
        while True:
            reply = await self._reply(schema)
            try:
                found = read(reply.text, check)
            except Fault as fault:
                self._wrong(reply, fault)
                continue
            self._repair = []
            return found

    def went_on(self, answer: str) -> None:
        """Keep the last reply in the conversation and answer it."""
        said = self.tally.replies[-1]
        self._past += [Message("assistant", _back(said)), Message("user", answer)]

    def room(self, n_more: int) -> int:
        """Characters for the result of a tool when `n_more` may follow; 0: no room for any."""
        tokens = self._context - self._tokens() - 2 * self._max_tokens
        characters = int(tokens * self._per_token) - _QUOTED_BACK
        share = min(characters // (n_more + 1), _MOST_RESULT)
        return share if share >= _LEAST_RESULT else 0

    async def _reply(self, schema: str) -> ChatReply:
        while True:
            messages = self._messages()
            seed = derive_seed(*self._seed_parts, len(self.tally.replies))
            reply = await self._asker.ask(messages, schema, seed, self._max_tokens)
            if reply.n_prompt_tokens > 0:
                self._per_token = n_characters(messages) / reply.n_prompt_tokens
            self.tally.n_prompt_tokens += reply.n_prompt_tokens if reply.n_output_tokens else 0
            self.tally.n_output_tokens += reply.n_output_tokens
            if not self._was_too_long(reply):
                self.tally.replies.append(reply.text)
                return reply

    def _was_too_long(self, reply: ChatReply) -> bool:
        """Whether the prompt left no room for the reply and can be made shorter; it then is."""
        over = reply.n_prompt_tokens + self._max_tokens > self._context
        full = reply.finish_reason is FinishReason.CONTEXT
        if not full and not (over and reply.finish_reason is FinishReason.LENGTH):
            return False
        shorter = self._fitting(self._limit) if self._limit else self._limit
        if shorter == self._limit:
            if full:
                raise DoesNotFit(
                    f"the group does not fit into a context of {self._context} tokens: "
                    f"{reply.n_prompt_tokens} with all texts cut"
                )
            return False
        self._limit = shorter
        return True

    def _wrong(self, reply: ChatReply, fault: Fault) -> None:
        cut = reply.finish_reason is FinishReason.LENGTH
        what = f"{fault} (it was cut after {reply.n_output_tokens} tokens)" if cut else str(fault)
        self.tally.faults.append(what)
        if len(self.tally.faults) > self._max_repairs:
            raise Unrepaired(what)
        ask = f"That answer cannot be used: {what}. Answer again with one JSON object and no more."
        self._repair = [Message("assistant", _back(reply.text)), Message("user", ask)]

    def _messages(self) -> list[Message]:
        return [*self._opening(self._limit), *self._past, *self._repair]

    def _tokens(self) -> int:
        return int(_SLACK * n_tokens(self._messages(), self._per_token))

    def _fitting(self, limit: int) -> int:
        """The largest step up to `limit` with which everything fits, or the smallest."""
        kept = self._max_tokens + (0 if self._past else self._for_tools)
        for step in (step for step in LIMITS if step <= limit):
            opening = n_tokens(self._opening(step), self._per_token)
            past = n_tokens([*self._past, *self._repair], self._per_token)
            if _SLACK * (opening + past) + kept <= self._context:
                return step
        return LIMITS[-1]


def _back(text: str) -> str:
    """A reply as the model is shown it again."""
    if not text.strip():
        return "(no text)"
    return text if len(text) <= _QUOTED_BACK else text[:_QUOTED_BACK] + " ..."


def as_json(tally: Tally) -> str | None:
    """The raw replies for the record; None without any."""
    return json.dumps(tally.replies, ensure_ascii=False) if tally.replies else None
