"""What a judge may spend: tokens and dollars of one call of the stage, resumptions included.

A request is begun only while what is left covers what it will take at most; the request that no
longer fits ends its group. Replies from a cache cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class OverBudget(Exception):
    """The rest of the budget does not cover the next request."""


@dataclass
class Spending:
    """`prices` are dollars for a million tokens read and written. None for a limit is no limit."""

    max_tokens: int | None = None
    max_dollars: float | None = None
    prices: tuple[float, float] = (0.0, 0.0)
    read: int = 0
    written: int = 0
    _reserved: dict[int, tuple[int, int]] = field(default_factory=dict)
    _next: int = 0

    @property
    def limited(self) -> bool:
        return self.max_tokens is not None or self.max_dollars is not None

    @property
    def dollars(self) -> float:
        return self._dollars(self.read, self.written)

    def reserve(self, read: int, written: int) -> int:
        """Put aside what a request takes at most; raises `OverBudget`. Returns its number."""
        ahead = list(self._reserved.values())
        total_read = self.read + read + sum(r for r, _ in ahead)
        total_written = self.written + written + sum(w for _, w in ahead)
        if self.max_tokens is not None and total_read + total_written > self.max_tokens:
            raise OverBudget(f"--judge-tokens {self.max_tokens} is spent")
        dollars = self._dollars(total_read, total_written)
        if self.max_dollars is not None and dollars > self.max_dollars:
            raise OverBudget(f"--judge-cost {self.max_dollars:g} is spent")
        self._next += 1
        self._reserved[self._next] = (read, written)
        return self._next

    def settle(self, number: int, read: int = 0, written: int = 0) -> None:
        """Replace what was put aside by what it took."""
        del self._reserved[number]
        self.read += read
        self.written += written

    def _dollars(self, read: int, written: int) -> float:
        return (read * self.prices[0] + written * self.prices[1]) / 1e6
