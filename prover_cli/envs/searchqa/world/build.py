"""Builds the generated world: pages, questions, and the facts behind them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from prover_cli.envs.lucene import STOP_WORDS, words
from prover_cli.envs.searchqa.types import Passage, Question
from prover_cli.envs.searchqa.world.facts import Facts
from prover_cli.envs.searchqa.world.history import History
from prover_cli.envs.searchqa.world.passages import MAIN_SHARE, Writer
from prover_cli.envs.searchqa.world.questions import SPLITS, Asker, Plan
from prover_cli.envs.searchqa.world.relations import RELATIONS
from prover_cli.envs.searchqa.world.wording import FACTS, FILLERS, ROLES, SLOTS
from prover_cli.errors import UsageError

SIZE = 3000
SMALLEST = 200
# Questions per page and split: 1,500 / 200 / 200 of the usual 3,000 pages.
_ASKED = {"train": 1 / 2, "valid": 1 / 15, "test": 1 / 15}


@dataclass(frozen=True)
class World:
    """A generated world; `plans` say what each question (by id) means in terms of `facts`."""

    passages: list[Passage]
    questions: dict[str, list[Question]]
    facts: Facts
    plans: dict[str, Plan]


def build(seed: int = 0, size: int = SIZE, counts: Mapping[str, int] | None = None) -> World:
    """A world of `size` passages, the same for the same arguments in any process.

    `counts` gives the number of questions of each split, by default 1/2, 1/15 and 1/15 of `size`;
    a split gets fewer when the world has no more. Raises `UsageError` below 200 passages.
    """
    if size < SMALLEST:
        raise UsageError(
            f"a generated world of {size} passages is too small, the least is {SMALLEST}",
            hint=f"ask for {SMALLEST} passages or more; {SIZE} is usual",
        )
    wanted = {split: round(share * size) for split, share in _ASKED.items()} | dict(counts or {})
    facts = History(seed, round(MAIN_SHARE * size), _reserved()).tell()
    chance = random.Random(f"searchqa pages {seed} {size}")
    writer = Writer(facts, chance)
    passages = writer.write(size)
    asker = Asker(facts, writer.told, passages, chance)
    questions = {split: asker.ask(split, wanted[split], f"world-{seed}") for split in SPLITS}
    return World(passages, questions, facts, asker.plans)


def _reserved() -> frozenset[str]:
    """Words of the sentences, which no invented name may be."""
    texts = [template for groups in FACTS.values() for group in groups for template in group]
    texts += [filler for fillers in FILLERS.values() for filler in fillers]
    texts += [word for slot in SLOTS.values() for word in slot] + list(ROLES.values())
    texts += [text for relation in RELATIONS for text, _ in (*relation.asks, *relation.phrases)]
    return STOP_WORDS.union(word.lower() for text in texts for word in words(text))
