"""Which questions an evaluation asks: a fixed mix of data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from prover_cli.envs.searchqa.sources import canonical_source
from prover_cli.envs.searchqa.types import Question
from prover_cli.errors import UsageError
from prover_cli.ids import digest

PRESETS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "paper": MappingProxyType(
            {
                "musique": 100,
                "nq": 50,
                "triviaqa": 50,
                "popqa": 50,
                "hotpotqa": 50,
                "2wikimultihopqa": 50,
                "bamboogle": 50,
            }
        )
    }
)
"""Mixes by name: how many questions of each data set. `paper` is the evaluation of 400."""


def parse_mix(text: str) -> dict[str, int]:
    """A preset's name, or `source:n,source:n`; `UsageError` for anything else."""
    if text in PRESETS:
        return dict(PRESETS[text])
    mix: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.partition(":")
        source = canonical_source(name)
        if not source or not number.strip().isdecimal() or not int(number) or source in mix:
            raise UsageError(
                f"panel {text!r} cannot be read at {part!r}: it is {' or '.join(PRESETS)}, or a "
                "number for each data set, such as nq:50,hotpotqa:100"
            )
        mix[source] = int(number)
    return mix


def choose(questions: Sequence[Question], mix: Mapping[str, int], seed: int) -> list[Question]:
    """A random sample of each data set, in random order.

    Which questions are chosen depends on `seed`, the number and the questions, not on the order
    in which they come. Raises `UsageError` naming the data sets that have too few.
    """
    pools: dict[str, list[Question]] = {source: [] for source in mix}
    for question in questions:
        if question.source in pools:
            pools[question.source].append(question)
    _check_sizes(pools, mix, sorted({question.source for question in questions}))
    drawn = {source: sorted(pools[source], key=_order(seed))[:n] for source, n in mix.items()}
    return sorted((q for chosen in drawn.values() for q in chosen), key=_order(seed))


def _order(seed: int) -> Callable[[Question], str]:
    return lambda q: digest([seed, q.source, q.question_id, q.text], length=32)


def _check_sizes(
    pools: Mapping[str, Sequence[Question]], mix: Mapping[str, int], present: Sequence[str]
) -> None:
    lacking = [
        f"{source} has {len(pools[source])} of {n}"
        for source, n in mix.items()
        if len(pools[source]) < n
    ]
    if lacking:
        raise UsageError(
            f"too few questions for the panel: {'; '.join(lacking)}",
            hint=f"give more files with --data (they hold: {', '.join(present) or 'nothing'}), or "
            "another mix: --env-option panel=nq:50,hotpotqa:50",
        )
