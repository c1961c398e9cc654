"""`plan`: what other numbers of continuations would have cost and shown, from the stored ones.

For every estimate the rates before and after are drawn from what its continuations say of them
(independent Beta(1, 1) posteriors), and verifications of many sizes are simulated on the drawn
rates. Drawn rates vary more than true ones where few continuations are stored, so the plan is the
better the more there are; it compares sizes and is no substitute for a measurement. What
`prover-chain` would make of few continuations is measured on held-out ones (`plan_chain`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from prover_cli.config import VerifyConfig
from prover_cli.errors import NothingToDoError
from prover_cli.shards.run import Run, Stage
from prover_cli.stages import plan_chain
from prover_cli.stages.report import Reporter
from prover_cli.stages.verify_rule import Rule, rule_of

SIZES = (2, 4, 8, 16, 32)
ADAPTIVE_SIZES = (8, 16, 32)
PER_GROUP = (1, 2, 4)
CLEAR = 0.125
"""A gain of at least this size has a sign that matters."""
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pairs:
    """What is stored of the verified segments, an entry per segment in every array."""

    success_before: Reals
    n_before: Reals
    success_after: Reals
    n_after: Reals
    tokens_before: Reals
    """Tokens of a continuation from the state before, on average."""
    tokens_after: Reals
    rollout_tokens: float


@dataclass(frozen=True)
class Option:
    """One way of verifying, and what it would cost and show."""

    rule: str
    """`plain` or `adaptive`."""
    k: int
    """Continuations on each side, at most."""
    per_group: int
    """Proposals in each group."""
    continuations: float
    """Continuations of one segment, both sides, on average."""
    token_share: float | None
    """Tokens over the rollout's; null when those are unknown."""
    sign_error: float
    """Share of segments that are credited and have no positive gain, or the reverse."""
    clear_sign_error: float | None
    """The same among gains of at least 0.125 either way; null when there are none."""
    noise: float
    """Root mean square error of the bonus max(gain, 0)."""
    correlation: float | None
    """Correlation of the estimated gain with the gain; null when it is undefined."""

    @property
    def name(self) -> str:
        return f"{self.rule} {self.k}"


def run(
    path: Path,
    reporter: Reporter,
    source: str = "verify",
    budget: float = 0.15,
    draws: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """The options for the segments that `source` verified, and the one to take within `budget`.

    `budget` is a share of the rollout's tokens. Raises `NothingToDoError` when there is no
    estimate with continuations on both sides.
    """
    stage = Run(path).stage(source)
    stage.require_complete()
    pairs = stored_pairs(stage)
    found = list(options(pairs, draws, seed))
    chosen = recommended(found, budget)
    stored = plan_chain.stored_tables(Stage(stage.run, "rollout"), stage)
    reporter.start("trying prover-chain", len(plan_chain.SIZES), "sizes")
    chains = []
    for option in plan_chain.chain_options(stored, pairs.rollout_tokens, seed):
        chains.append(option)
        reporter.advance()
    with_chain = plan_chain.recommended(chains, budget)
    return {
        "source": source,
        "segments": len(pairs.n_before),
        "stored_continuations": int(pairs.n_before.sum() + pairs.n_after.sum()),
        "budget": budget,
        "recommended": None if chosen is None else asdict(chosen),
        "options": [asdict(option) for option in found],
        "chain_recommended": None if with_chain is None else asdict(with_chain),
        "chain_options": [asdict(option) for option in chains],
    }


def stored_pairs(stage: Stage) -> Pairs:
    """The segments of a verification with outcomes on both sides."""
    states = (
        stage.read("continuations")
        .filter(pl.col("success").is_not_null())
        .group_by("state_id")
        .agg(
            pl.col("success").sum().alias("wins"),
            pl.len().alias("n"),
            pl.col("n_action_tokens").mean().alias("tokens"),
        )
    )
    made = stage.read("estimates").filter(pl.col("success_before").is_not_null())
    both = made.select("state_before", "state_after").join(
        states, left_on="state_before", right_on="state_id"
    )
    both = both.join(states, left_on="state_after", right_on="state_id", suffix="_after")
    if both.is_empty():
        raise NothingToDoError(
            f"{stage.folder} holds no segment with continuations on both sides",
            hint=f"verify some first: {stage.command}",
        )

    def column(name: str) -> Reals:
        return both[name].cast(pl.Float64).to_numpy()

    return Pairs(
        success_before=column("wins"),
        n_before=column("n"),
        success_after=column("wins_after"),
        n_after=column("n_after"),
        tokens_before=column("tokens"),
        tokens_after=column("tokens_after"),
        rollout_tokens=Stage(stage.run, "rollout").manifest().counters.get("action_tokens", 0.0),
    )


def options(pairs: Pairs, draws: int, seed: int) -> Iterator[Option]:
    """Every option, by rule, size and proposals per group."""
    random = np.random.default_rng(seed)
    shape = (draws, len(pairs.n_before))
    before = random.beta(1 + pairs.success_before, 1 + pairs.n_before - pairs.success_before, shape)
    after = random.beta(1 + pairs.success_after, 1 + pairs.n_after - pairs.success_after, shape)
    rules = [("plain", k, VerifyConfig(k=k)) for k in SIZES]
    rules += [("adaptive", k, VerifyConfig(k=k, adaptive=True)) for k in ADAPTIVE_SIZES]
    for name, k, config in rules:
        gains, spent = simulate(rule_of(config), before, after, random)
        tokens = spent[0] * pairs.tokens_before + spent[1] * pairs.tokens_after
        for per_group in PER_GROUP:
            yield _option(name, k, per_group, gains, after - before, spent, tokens, pairs)


def _option(
    name: str,
    k: int,
    per_group: int,
    gains: Reals,
    truth: Reals,
    spent: tuple[Reals, Reals],
    tokens: Reals,
    pairs: Pairs,
) -> Option:
    wrong = (gains > 0) != (truth > 0)
    clear = np.abs(truth) >= CLEAR
    cost = float(tokens.mean(axis=0).sum()) * per_group
    defined = gains.std() > 0 and truth.std() > 0
    return Option(
        rule=name,
        k=k,
        per_group=per_group,
        continuations=float((spent[0] + spent[1]).mean()),
        token_share=cost / pairs.rollout_tokens if pairs.rollout_tokens else None,
        sign_error=float(wrong.mean()),
        clear_sign_error=float(wrong[clear].mean()) if clear.any() else None,
        noise=float(np.sqrt(((np.maximum(gains, 0) - np.maximum(truth, 0)) ** 2).mean())),
        correlation=float(np.corrcoef(gains.ravel(), truth.ravel())[0, 1]) if defined else None,
    )


def simulate(
    rule: Rule, before: Reals, after: Reals, random: np.random.Generator
) -> tuple[Reals, tuple[Reals, Reals]]:
    """Verifications under `rule` between states of known rates (any shape, the same for all).

    Returns the estimated gains, and the continuations spent before and after.
    """
    wins = [np.zeros(before.shape, dtype=np.int64) for _ in range(2)]
    spent = [np.zeros(before.shape, dtype=np.int64) for _ in range(2)]
    going = np.ones(before.shape, dtype=bool)
    so_far = (0, 0)
    for sizes in rule.rounds:
        for side, rates in enumerate((before, after)):
            new = sizes[side] - so_far[side]
            wins[side] += np.where(going, random.binomial(new, rates), 0)
            spent[side] += np.where(going, new, 0)
        so_far = sizes
        going &= ~_stop_table(rule, sizes)[wins[0] * going, wins[1] * going]
    gains = wins[1] / spent[1] - wins[0] / spent[0]
    return gains, (spent[0].astype(np.float64), spent[1].astype(np.float64))


def _stop_table(rule: Rule, sizes: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Whether the rule stops, for all successes before and after at the end of a round."""
    n0, n1 = sizes
    return np.array(
        [[rule.stops((k0, n0, k1, n1)) for k1 in range(n1 + 1)] for k0 in range(n0 + 1)]
    )


def recommended(found: Sequence[Option], budget: float) -> Option | None:
    """The option with one proposal per group and the least noise whose tokens fit the budget."""
    fits = [
        option
        for option in found
        if option.per_group == 1 and option.token_share is not None and option.token_share <= budget
    ]
    return min(fits, key=lambda option: (option.noise, option.token_share), default=None)
