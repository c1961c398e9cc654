"""Exercises in copying: a passage of random tokens, to be repeated.

A small model that is to name what it has read must first find out how to copy. Demonstrations teach
that late, since a name is a few tokens of a long prompt. A hundred steps with these rows among them
are enough.
"""

from __future__ import annotations

import random

from prover_cli.policies.warm_start import Row

KIND = "copy"
"""Kind of these rows in a recipe's `rows_per_step`."""
N_ROWS = 4000
LENGTH = 40
"""Tokens to repeat."""
MOST_BEFORE = 20
"""At most this many other tokens stand before them, so that places do not matter."""


def copying_rows(first_id: int, last_id: int, seed: int) -> list[Row]:
    """Rows whose ids are drawn evenly from `first_id` to `last_id`, both included."""
    generator = random.Random(f"{seed}/{KIND}")

    def draw(n: int) -> list[int]:
        return [generator.randint(first_id, last_id) for _ in range(n)]

    rows = []
    for _ in range(N_ROWS):
        passage = draw(LENGTH)
        rows.append(Row([*draw(generator.randint(0, MOST_BEFORE)), *passage], passage))
    return rows
