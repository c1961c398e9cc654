"""Reading is told in whole megabytes, and at the end all of it was told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prover_cli.envs.progress import MegabytesRead


class Told:
    def __init__(self) -> None:
        self.total, self.done = 0, 0

    def start(self, what: str, total: int, unit: str) -> None:
        self.total = total

    def advance(self, n: int = 1, facts: str = "") -> None:
        assert n > 0
        self.done += n

    def note(self, text: str) -> None:
        pass


@given(st.lists(st.integers(0, 3_000_000), max_size=8))
def test_the_bar_ends_at_its_total_and_never_beyond(pieces: list[int]) -> None:
    told = Told()
    read = MegabytesRead(told, sum(pieces))
    for n, piece in enumerate(pieces, start=1):
        read.advance(piece)
        assert told.done == sum(pieces[:n]) // 10**6
    read.finish()
    assert told.done == told.total == sum(pieces) // 10**6 + 1
