"""How many continuations a segment gets: a rule that is fixed before the first one is sampled.

A rule has rounds, cumulative numbers of continuations before and after the segment. The plain rule
has one round. The others look at the counts after each round and stop when they need no more:

    until_ci   Newcombe's 95 % interval of the gain is at most that wide
    adaptive   the sign of the gain is decided (P(after > before) under `undecided` or over
               1 - `undecided`), or the bonus it can still bring is negligible (E[max(gain, 0)]
               under `negligible`); independent Beta(1, 1) priors

Stopping early biases the plain difference of success rates, because lucky counts stop sooner.
`unbiased_gain` has no such bias: it is the mean of the first round's difference over all orders of
outcomes that lead to the observed counts (Girshick, Mosteller and Savage 1946).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import comb
from typing import Any

from prover_cli.config import VerifyConfig
from prover_cli.credit.intervals import newcombe, p_positive
from prover_cli.errors import UsageError

FIRST_ROUND = 2
"""Continuations on each side in the first round of the adaptive rule; each round doubles them."""
Counts = tuple[int, int, int, int]
"""Successes and continuations before, successes and continuations after."""


@dataclass(frozen=True)
class Rule:
    """Rounds, and when to stop between them; plain when there is only one round."""

    rounds: tuple[tuple[int, int], ...]
    until_ci: float | None = None
    undecided: float | None = None
    negligible: float | None = None

    @property
    def most(self) -> tuple[int, int]:
        """Continuations before and after when no round stops."""
        return self.rounds[-1]

    def stops(self, counts: Counts) -> bool:
        """Whether these counts, at the end of a round, need no further round."""
        if counts[1] == 0 or counts[3] == 0:
            return False
        if self.until_ci is not None:
            low, high = newcombe(*counts)
            if high - low <= self.until_ci:
                return True
        if self.undecided is not None:
            p = p_positive(*counts)
            if p < self.undecided or p > 1 - self.undecided:
                return True
        return self.negligible is not None and expected_bonus(*counts) < self.negligible

    def describe(self) -> dict[str, Any]:
        """The rule as JSON values, for the manifest."""
        return {**asdict(self), "rounds": [list(pair) for pair in self.rounds]}


def rule_of(config: VerifyConfig) -> Rule:
    """The rule that a configuration asks for; `UsageError` when it asks for two at once."""
    before, after = config.k_before or config.k, config.k_after or config.k
    if config.adaptive and config.until_ci is not None:
        raise UsageError("--adaptive and --until-ci are two rules: name one of them")
    if config.max_k is not None and not config.adaptive and config.until_ci is None:
        raise UsageError("--max-k belongs to --until-ci or --adaptive")
    if config.adaptive:
        most = (config.max_k or before, config.max_k or after)
        first = (min(FIRST_ROUND, most[0]), min(FIRST_ROUND, most[1]))
        return Rule(_doubling(first, most), undecided=UNDECIDED, negligible=NEGLIGIBLE)
    if config.until_ci is not None:
        if config.max_k is None:
            raise UsageError("--until-ci needs an end", hint="add --max-k 32")
        most = (max(before, config.max_k), max(after, config.max_k))
        return Rule(_doubling((before, after), most), until_ci=config.until_ci)
    return Rule(((before, after),))


UNDECIDED = 0.1
NEGLIGIBLE = 0.08
"""Thresholds of the adaptive rule; `benchmarks/verify_cost.py` measures what they cost and save."""


def _doubling(first: tuple[int, int], most: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    rounds = [first]
    while rounds[-1] != most:
        before, after = rounds[-1]
        rounds.append((min(2 * before, most[0]), min(2 * after, most[1])))
    return tuple(rounds)


def expected_bonus(k_before: int, n_before: int, k_after: int, n_after: int) -> float:
    """E[max(gain, 0)] with independent Beta(1, 1) priors; exact."""
    after = (1 + k_after) / (2 + n_after) * p_positive(k_before, n_before, k_after + 1, n_after + 1)
    before = (1 + k_before) / (2 + n_before)
    before *= p_positive(k_before + 1, n_before + 1, k_after, n_after)
    return max(0.0, after - before)


def unbiased_gain(rule: Rule, number: int, k_before: int, k_after: int) -> float:
    """The gain without the bias of stopping, for the counts after round `number` (0-based).

    It is the plain difference when that round is the first.
    """
    return _unbiased(rule)[number][k_before, k_after]


@lru_cache(maxsize=8)
def _unbiased(rule: Rule) -> list[Mapping[tuple[int, int], float]]:
    """For each round and pair of counts: the mean first difference over the paths to them."""
    n0, n1 = rule.rounds[0]
    paths = {
        (k0, k1): (ways := float(comb(n0, k0) * comb(n1, k1)), ways * (k1 / n1 - k0 / n0))
        for k0 in range(n0 + 1)
        for k1 in range(n1 + 1)
    }
    found: list[Mapping[tuple[int, int], float]] = []
    for number in range(len(rule.rounds)):
        found.append({counts: total / ways for counts, (ways, total) in paths.items()})
        if number + 1 < len(rule.rounds):
            paths = _extended(rule, number, paths)
    return found


Paths = dict[tuple[int, int], tuple[float, float]]


def _extended(rule: Rule, number: int, paths: Paths) -> Paths:
    """The paths that go on after round `number`, at the end of the next."""
    (n0, n1), (m0, m1) = rule.rounds[number : number + 2]
    longer: Paths = {}
    for (k0, k1), (ways, total) in paths.items():
        if rule.stops((k0, n0, k1, n1)):
            continue
        for d0 in range(m0 - n0 + 1):
            for d1 in range(m1 - n1 + 1):
                more = comb(m0 - n0, d0) * comb(m1 - n1, d1)
                old = longer.get((k0 + d0, k1 + d1), (0.0, 0.0))
                longer[k0 + d0, k1 + d1] = (old[0] + ways * more, old[1] + total * more)
    return longer


@dataclass(frozen=True)
class Ending:
    """One way in which a rule ends: its probability, the round, and the counts then."""

    probability: float
    round: int
    counts: Counts


def endings(rule: Rule, p_before: float, p_after: float) -> Iterator[Ending]:
    """Every ending of a rule between states of known success rates; probabilities sum to 1."""
    n0 = n1 = 0
    alive = {(0, 0): 1.0}
    for number, (m0, m1) in enumerate(rule.rounds):
        reached: dict[tuple[int, int], float] = {}
        for (k0, k1), probability in alive.items():
            for d0, b0 in enumerate(_binomial(m0 - n0, p_before)):
                for d1, b1 in enumerate(_binomial(m1 - n1, p_after)):
                    place = (k0 + d0, k1 + d1)
                    reached[place] = reached.get(place, 0.0) + probability * b0 * b1
        n0, n1 = m0, m1
        last, alive = number == len(rule.rounds) - 1, {}
        for (k0, k1), probability in reached.items():
            counts = (k0, n0, k1, n1)
            if last or rule.stops(counts):
                yield Ending(probability, number, counts)
            else:
                alive[k0, k1] = probability


def expected_share(rule: Rule) -> float:
    """Continuations expected under uniform success rates, as a share of the rule's most."""
    if len(rule.rounds) == 1:
        return 1.0
    grid = [(i + 0.5) / 8 for i in range(8)]
    spent = [
        sum(e.probability * (e.counts[1] + e.counts[3]) for e in endings(rule, p, q))
        for p in grid
        for q in grid
    ]
    return sum(spent) / len(spent) / sum(rule.most)


@lru_cache(maxsize=4096)
def _binomial(n: int, p: float) -> tuple[float, ...]:
    return tuple(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1))
