"""Key-value memory: a table of rows for what is being generated, a store for what may come back.

The table holds one row per request in flight. Rows in use are 0..n-1, so a model call on any
contiguous range of them works on views and copies nothing. The store keeps finished prefixes by
their ids, least recently used first out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KVShape:
    """What a model remembers per token: layers, key-value heads, head size."""

    layers: int
    heads: int
    head_size: int
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.layers * self.heads * self.head_size * self.dtype.itemsize


@dataclass(frozen=True)
class Prefix:
    """A remembered prefix. `kv` is (2, layers, heads, tokens, head size); `logits` are those after
    the last id, kept when they are known."""

    ids: tuple[int, ...]
    kv: Tensor
    logits: Tensor | None = None

    def usable(self, prompt: tuple[int, ...]) -> int:
        """Leading ids shared with `prompt`; never its last, whose logits have to be computed."""
        limit = min(len(self.ids), len(prompt) - 1)
        if self.ids[:limit] == prompt[:limit]:
            return limit
        return next(i for i in range(limit) if self.ids[i] != prompt[i])


class PrefixStore:
    """Prefixes by key, at most `max_tokens` tokens in all."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._tokens = 0
        self._items: OrderedDict[Hashable, Prefix] = OrderedDict()

    def get(self, key: Hashable) -> Prefix | None:
        """The prefix under `key`, which becomes the most recently used."""
        found = self._items.get(key)
        if found is not None:
            self._items.move_to_end(key)
        return found

    def put(self, key: Hashable, prefix: Prefix) -> None:
        self.drop(key)
        self._items[key] = prefix
        self._tokens += len(prefix.ids)
        while self._tokens > self._max_tokens:
            _, oldest = self._items.popitem(last=False)
            self._tokens -= len(oldest.ids)

    def drop(self, key: Hashable) -> None:
        """Forget one prefix, if it is there."""
        found = self._items.pop(key, None)
        if found is not None:
            self._tokens -= len(found.ids)

    def clear(self) -> None:
        self._items.clear()
        self._tokens = 0


class SlotTable:
    """The rows in flight, as the cache that a transformers model writes to and reads from.

    `aim` chooses the rows of the next model call and where each one writes.
    """

    def __init__(self, shape: KVShape) -> None:
        self._shape = shape
        self._kv = self._empty(0, 0)
        self._rows = slice(0, 0)
        self._positions = torch.empty(0, 0, dtype=torch.long, device=shape.device)
        self._used = 0

    def _empty(self, rows: int, length: int) -> Tensor:
        s = self._shape
        # Zeros, not garbage: masked positions must not turn a sum into NaN.
        size = (2, s.layers, rows, s.heads, length, s.head_size)
        # The table grows during a model call too, but rows are loaded and moved between calls.
        with torch.inference_mode(False):
            return torch.zeros(size, dtype=s.dtype, device=s.device)

    def reserve(self, rows: int, length: int) -> None:
        """Make room for `rows` rows of `length` tokens; what is there stays."""
        have_rows, have_length = self._kv.shape[2], self._kv.shape[4]
        if rows <= have_rows and length <= have_length:
            return
        grown = self._empty(
            max(have_rows, _power_of_two(rows)), max(have_length, _power_of_two(length))
        )
        grown[:, :, :have_rows, :, :have_length] = self._kv
        self._kv = grown

    def load(self, row: int, prefix: Tensor) -> None:
        """Put remembered keys and values at the beginning of a row."""
        self._kv[:, :, row, :, : prefix.shape[3]] = prefix

    def save(self, row: int, length: int) -> Tensor:
        """A copy of the first `length` tokens of a row."""
        return self._kv[:, :, row, :, :length].clone()

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one row to another."""
        self._kv[:, :, target, :, :length] = self._kv[:, :, source, :, :length]

    def aim(self, rows: slice, positions_BQ: Tensor, used: int) -> None:
        """The next call runs rows `rows`, writes at `positions_BQ` and sees `used` tokens."""
        self._rows, self._positions, self._used = rows, positions_BQ, used

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Write the new keys and values (rows, heads, new tokens, size); return all used ones."""
        index = self._positions[:, None, :, None].expand(-1, keys.shape[1], -1, keys.shape[3])
        memory = self._kv[:, layer, self._rows]
        memory[0].scatter_(2, index, keys.to(memory.dtype))
        memory[1].scatter_(2, index, values.to(memory.dtype))
        return memory[0, :, :, : self._used], memory[1, :, :, : self._used]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._used

    def clear(self) -> None:
        """Forget everything and free the memory."""
        self._kv = self._empty(0, 0)


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()
