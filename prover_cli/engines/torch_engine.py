"""Continuous batching over a transformers causal language model, for machines without vLLM.

One loop serves all requests: it prefills what is waiting, advances every request in flight by one
token, and lets finished ones go, until nothing is left. Requests of one session keep their keys and
values between turns, so only new tokens are computed; a prompt that was seen recently, whoever sent
it, is not computed at all, which is how a group and the continuations of a state share theirs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from prover_cli.engines.base import FinishReason, Generation, GenerationRequest
from prover_cli.engines.kv_cache import KVShape, Prefix, PrefixStore, SlotTable
from prover_cli.engines.sampler import sample
from prover_cli.engines.torch_model import Model, load_model
from prover_cli.errors import EngineDeadError

PREFILL_TOKENS = 8192
"""Padded tokens of one prefill call."""
MAX_ROWS = 256
MEMORY_SHARE = 0.5
"""Share of the key-value memory for requests in flight; the rest remembers prefixes."""


@dataclass(eq=False)
class _Active:
    """A request in flight; it owns the table row of its place in the list of active ones."""

    request: GenerationRequest
    budget: int
    result: asyncio.Future[Generation]
    n_cached: int = 0
    """Prompt tokens that were not computed."""
    reused: Prefix | None = None
    """What the session left, until it is in the table."""
    logits: Tensor | None = None
    """After the prompt."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def n_new(self) -> int:
        """Prompt tokens to compute."""
        return len(self.request.prompt_ids) - self.n_cached

    @property
    def length(self) -> int:
        """Tokens whose keys and values are in the table: all but the last sampled one."""
        return len(self.request.prompt_ids) + max(len(self.ids) - 1, 0)


class TorchEngine:
    """The engine `torch`. `kv_memory` bounds the key-value memory in bytes."""

    name = "torch"

    def __init__(
        self,
        policy: Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        kv_memory: int = 4 << 30,
    ) -> None:
        self._device, self._dtype, self._kv_memory = device, dtype, kv_memory
        self._waiting: deque[_Active] = deque()
        self._active: list[_Active] = []
        self._loop: asyncio.Task[None] | None = None
        self._dead: str | None = None
        self.load_policy(policy)

    def load_policy(self, path: Path) -> str:
        """Load a checkpoint and forget every key and value of the one before."""
        if self._active or self._waiting:
            raise RuntimeError("a policy cannot be replaced while requests are in flight")
        self._model: Model = load_model(path, self._device, self._dtype)
        self.policy_id = self._model.policy_id
        self.max_model_len = self._model.max_model_len
        shape: KVShape = self._model.kv_shape
        tokens = self._kv_memory // shape.bytes_per_token
        self._table = SlotTable(shape)
        self._row_tokens = int(tokens * MEMORY_SHARE)
        self._prompts = PrefixStore(int(tokens * (1 - MEMORY_SHARE) / 2))
        self._sessions = PrefixStore(int(tokens * (1 - MEMORY_SHARE) / 2))
        return self.policy_id

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample one reply. Raises `EngineDeadError` when the model failed."""
        if isinstance(request.prompt_ids, str):
            raise TypeError("an engine takes token ids, not text")
        if self._dead is not None:
            raise EngineDeadError(self._dead)
        room = self.max_model_len - len(request.prompt_ids)
        if room <= 0:
            return Generation((), (), FinishReason.CONTEXT)
        budget = min(request.sampling.max_tokens, room)
        if budget <= 0:
            return Generation((), (), FinishReason.LENGTH)
        result: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Active(request, budget, result))
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._serve())
        return await result

    async def close(self) -> None:
        """Stop; requests still in flight fail."""
        if self._loop is not None and not self._loop.done():
            self._loop.cancel()
        self._fail("the engine was closed")
        self._table.clear()
        self._prompts.clear()
        self._sessions.clear()

    async def _serve(self) -> None:
        try:
            while self._waiting or self._active:
                # Let every episode that can move send its next request before the next call.
                await asyncio.sleep(0)
                self._forget_cancelled()
                self._admit()
                if self._active:
                    self._decode()
        except Exception as error:
            self._fail(f"generation failed: {type(error).__name__}: {error}")

    def _fail(self, reason: str) -> None:
        self._dead = reason
        for item in [*self._active, *self._waiting]:
            if not item.result.done():
                item.result.set_exception(EngineDeadError(reason))
        self._active.clear()
        self._waiting.clear()

    def _forget_cancelled(self) -> None:
        self._waiting = deque(item for item in self._waiting if not item.result.done())
        for item in [item for item in self._active if item.result.done()]:
            self._release(item)

    # Admission

    def _admit(self) -> None:
        """Prefill waiting requests as far as rows and memory allow and sample their first ids."""
        admitted: list[_Active] = []
        longest = max((i.length + i.budget for i in self._active), default=0)
        while self._waiting:
            item = self._waiting[0]
            longest = max(longest, len(item.request.prompt_ids) + item.budget)
            rows = len(self._active) + len(admitted) + 1
            if rows > 1 and (rows > MAX_ROWS or rows * longest > self._row_tokens):
                break
            admitted.append(self._waiting.popleft())
        if not admitted:
            return
        self._table.reserve(len(self._active) + len(admitted), longest)
        ordered = self._prefill(admitted)
        self._sample(
            ordered, torch.stack([item.logits for item in ordered if item.logits is not None])
        )

    def _prefill(self, admitted: Sequence[_Active]) -> list[_Active]:
        """Give every admitted request a row that holds its prompt; returns them in row order.

        Of equal prompts one is computed and the others copy it; prompts that are still remembered
        are not computed at all. Those to compute come first, neighbours of similar length.
        """
        leaders: dict[tuple[int, ...], _Active] = {}
        followers: list[_Active] = []
        for item in admitted:
            prompt = item.request.prompt_ids
            if self._prompts.get(prompt) is None and prompt not in leaders:
                leaders[prompt] = item
                item.reused = self._sessions.get(item.request.session)
                item.n_cached = item.reused.usable(prompt) if item.reused else 0
            else:
                followers.append(item)
                item.n_cached = len(prompt)
        base = len(self._active)
        ordered = [*sorted(leaders.values(), key=lambda item: item.n_new), *followers]
        self._active += ordered
        self._compute(base, base + len(leaders))
        for row, item in enumerate(followers, start=base + len(leaders)):
            known = self._prompts.get(item.request.prompt_ids)
            leader = leaders.get(item.request.prompt_ids)
            if leader is not None:
                self._table.move(self._active.index(leader), row, item.n_cached)
                item.logits = leader.logits
            elif known is not None:
                self._table.load(row, known.kv)
                item.logits = known.logits
        return ordered

    def _compute(self, start: int, stop: int) -> None:
        """Run the prompts of a range of rows, as many at once as the token budget allows."""
        while start < stop:
            end = start + 1
            while end < stop and self._active[end].n_new * (end + 1 - start) <= PREFILL_TOKENS:
                end += 1
            items = self._active[start:end]
            for row, item in enumerate(items, start=start):
                if item.reused is not None:
                    self._table.load(row, item.reused.kv[:, :, :, : item.n_cached])
            logits = self._model.forward(
                self._table,
                slice(start, end),
                [item.request.prompt_ids[item.n_cached :] for item in items],
                [item.n_cached for item in items],
            )
            for row, item in enumerate(items, start=start):
                item.logits, item.reused = logits[row - start], None
                self._remember(row, item)
            start = end

    def _remember(self, row: int, item: _Active) -> None:
        prompt = item.request.prompt_ids
        kv = self._table.save(row, len(prompt))
        assert item.logits is not None
        self._prompts.put(prompt, Prefix(prompt, kv, item.logits.clone()))

    # Decoding

    def _decode(self) -> None:
        """Advance every request in flight by one token."""
        items = list(self._active)
        logits = self._model.forward(
            self._table,
            slice(0, len(items)),
            [[item.ids[-1]] for item in items],
            [item.length for item in items],
        )
        self._sample(items, logits)

    def _sample(self, items: Sequence[_Active], logits_BV: Tensor) -> None:
        ids, logprobs = sample(
            logits_BV,
            [item.request.sampling for item in items],
            [item.request.seed for item in items],
            [len(item.ids) for item in items],
        )
        for item, token, logprob in zip(items, ids, logprobs, strict=True):
            item.ids.append(token)
            item.logprobs.append(logprob)
        # Only now may rows move: until all ids are appended, lengths and rows disagree.
        for item in items:
            token = item.ids[-1]
            if token in item.request.sampling.stop_ids:
                self._finish(item, FinishReason.STOP)
            elif len(item.ids) >= item.budget:
                self._finish(item, FinishReason.LENGTH)

    def _finish(self, item: _Active, reason: FinishReason) -> None:
        self._release(item)
        if not item.result.done():
            item.result.set_result(
                Generation(tuple(item.ids), tuple(item.logprobs), reason, item.n_cached)
            )

    def _release(self, item: _Active) -> None:
        """Remember the row for the session's next turn and give it to the last active request."""
        row, last = self._active.index(item), len(self._active) - 1
        session = item.request.session
        if session is not None:
            ids = (*item.request.prompt_ids, *item.ids)[: item.length]
            self._sessions.put(session, Prefix(ids, self._table.save(row, item.length)))
        if row != last:
            self._table.move(last, row, self._active[last].length)
            self._active[row] = self._active[last]
        self._active.pop()
