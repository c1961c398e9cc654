"""Estimates against values that are computed exactly, and the mistakes that would bias them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from prover_cli.credit.intervals import credited_by_chance, newcombe
from prover_cli.engines.base import Engine
from prover_cli.envs.base import Environment, Task
from prover_cli.stages.episode import Start
from prover_cli.stages.replay import State
from prover_cli.stages.states import StateWork
from tests.policies import scripted_policy
from tests.stages.pipeline import judge, rollout, table, verify
from tests.stages.truth import REPLIES, Bench, bench, blocks, dispersion, z

N, K = 960, 8


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    home = tmp_path_factory.mktemp("truth")
    policy = scripted_policy(home / "policy", REPLIES)
    rollout(home / "run", policy, {"slip": 0.3}, tasks=8, max_turns=14, seed=3)
    judge(home / "run")
    return bench(home / "run", policy)


@pytest.fixture(scope="module")
def uncertain(vault: Bench) -> StateWork:
    """A state before the last door, some turns into an episode, with a value between 0 and 1."""
    found = [w for w in vault.works if w.turn >= 1 and 0.15 < vault.truth(w) < 0.85]
    return max(found, key=lambda work: (vault.page(work).startswith("You are in room"), work.turn))


@pytest.fixture(scope="module")
def drawn(vault: Bench, uncertain: StateWork) -> list[dict[str, Any]]:
    return vault.sample(uncertain, N)


def test_values_are_unbiased(
    vault: Bench, uncertain: StateWork, drawn: list[dict[str, Any]]
) -> None:
    assert abs(z(drawn, vault.truth(uncertain))) < 3
    others = [w for w in vault.works if w is not uncertain]
    scores = [z(vault.sample(work, 100), vault.truth(work)) for work in others[:3]]
    assert abs(sum(scores)) / math.sqrt(len(scores)) < 3


def test_estimates_of_the_stage_are_unbiased_over_seeds(vault: Bench) -> None:
    """The whole stage, K = 8, under four seeds: the mean error of the gains is within 3 SE."""
    truths = {work.state_id: vault.truth(work) for work in vault.works}
    gap = noise = 0.0
    for seed in range(4):
        verify(vault.run, k=K, variant=f"seed{seed}", seed=seed)
        made = table(vault.run, "estimates", f"verify@seed{seed}").filter(status="ok")
        assert made.height >= 3
        for row in made.iter_rows(named=True):
            before, after = truths[row["state_before"]], truths[row["state_after"]]
            gap += row["gain"] - (after - before)
            noise += (before * (1 - before) + after * (1 - after)) / K
    assert noise > 0 and abs(gap) < 3 * math.sqrt(noise)


def test_intervals_cover_at_their_rate(
    vault: Bench, uncertain: StateWork, drawn: list[dict[str, Any]]
) -> None:
    wins = blocks(drawn, K)
    assert 0.5 < dispersion(wins, K, vault.truth(uncertain)) < 1.5
    pairs = list(zip(wins[::2], wins[1::2], strict=True))
    intervals = [newcombe(before, K, after, K) for before, after in pairs]
    covered = sum(low <= 0 <= high for low, high in intervals) / len(intervals)
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(intervals)) <= covered


@pytest.mark.parametrize(("before", "after"), [(0.5, 0.5), (0.2, 0.4), (0.25, 0.75), (0.1, 0.1)])
def test_intervals_cover_whatever_the_rates(before: float, after: float) -> None:
    """Exact coverage by enumeration: near 95 %, and never far below (.923 where all rates are
    half, .910 at 1/4 and 3/4)."""
    covered = sum(
        b * a
        for k0, b in enumerate(_binomial(before))
        for k1, a in enumerate(_binomial(after))
        if (bounds := newcombe(k0, K, k1, K))[0] <= after - before <= bounds[1]
    )
    assert 0.91 < covered <= 1


def test_the_bonus_of_a_segment_without_effect_is_that_of_the_formula(
    vault: Bench, uncertain: StateWork, drawn: list[dict[str, Any]]
) -> None:
    """Spec 1.6: E[max(gain, 0)] and P(gain > 0) at equal rates, from real continuations."""
    p, wins = vault.truth(uncertain), blocks(drawn, K)
    gains = [(after - before) / K for before, after in zip(wins[::2], wins[1::2], strict=True)]
    bonuses = [max(gain, 0.0) for gain in gains]
    mean, square = _moments(p)
    slack = 3 * math.sqrt((square - mean**2) / len(gains))
    assert abs(sum(bonuses) / len(bonuses) - mean) < slack
    chance = credited_by_chance(p, K, K)
    rate = sum(gain > 0 for gain in gains) / len(gains)
    assert abs(rate - chance) < 3 * math.sqrt(chance * (1 - chance) / len(gains))


@pytest.mark.parametrize(("p", "chance", "bonus"), [(0.5, 0.402, 0.098), (0.3, 0.392, 0.089)])
def test_the_formula_gives_the_figures_of_the_method(p: float, chance: float, bonus: float) -> None:
    assert credited_by_chance(p, K, K) == pytest.approx(chance, abs=5e-4)
    assert _moments(p)[0] == pytest.approx(bonus, abs=5e-4)


def test_counting_the_recorded_suffix_would_be_seen(
    vault: Bench, uncertain: StateWork, drawn: list[dict[str, Any]]
) -> None:
    """The recorded future of a chosen trajectory is a success, always."""
    wrong = [row for part in _parts(drawn, K - 1) for row in (*part, {"success": True})]
    assert z(wrong, vault.truth(uncertain)) > 3


def test_a_full_turn_budget_would_be_seen(vault: Bench, uncertain: StateWork) -> None:
    longer = replace(vault.plan.world, max_turns=vault.plan.world.max_turns + uncertain.turn)
    rows = vault.sample(uncertain, 300, world=longer)
    assert z(rows, vault.truth(uncertain)) > 3
    assert any(row["n_turns"] > row["turns_left"] for row in rows)


def test_another_temperature_would_be_seen(vault: Bench, uncertain: StateWork) -> None:
    rows = vault.sample(uncertain, 300, temperature=0.4)
    assert abs(z(rows, vault.truth(uncertain))) > 3


class SameFuture(State):
    """A state whose continuations all get the random numbers of the recording."""

    def begin(self, environment: Environment, task: Task, seed: int) -> Start:
        return super().begin(environment, task, 0)


def test_shared_random_state_would_be_seen(vault: Bench, uncertain: StateWork) -> None:
    """Within K continuations that share their future there is one outcome."""
    state = uncertain.state
    assert state is not None
    rows = []
    for number in range(40):
        one = vault.sample(uncertain, 1, seed=number)[0]
        rows += [one] * K
    assert dispersion(blocks(rows, K), K, vault.truth(uncertain)) > 3
    shared = replace(uncertain, state=SameFuture(**vars(state)))
    fresh = [vault.plan.world.environment, uncertain.task]
    pages = [_walk(shared, fresh, seed) for seed in range(12)]
    assert len({tuple(page) for page in pages}) == 1
    assert len({tuple(_walk(uncertain, fresh, seed)) for seed in range(12)}) > 1


def _walk(work: StateWork, place: list[Any], seed: int) -> Iterator[str]:
    assert work.state is not None
    session = work.state.begin(*place, seed).session
    for _ in range(8):
        yield session.step("go").observation.text


def test_the_engine_of_the_bench_is_an_engine(vault: Bench) -> None:
    from tests.stages.truth import WeightedEngine

    engine: Engine = WeightedEngine(vault.plan.agent, REPLIES, vault.policy)
    assert engine.policy_id == vault.plan.policy.policy_id


def _binomial(p: float) -> list[float]:
    return [math.comb(K, k) * p**k * (1 - p) ** (K - k) for k in range(K + 1)]


def _moments(p: float) -> tuple[float, float]:
    """First and second moment of the bonus where both rates are `p`."""
    rates = _binomial(p)
    both = [
        (max(k1 - k0, 0) / K, b * a) for k0, b in enumerate(rates) for k1, a in enumerate(rates)
    ]
    return sum(g * w for g, w in both), sum(g * g * w for g, w in both)


def _parts(rows: list[dict[str, Any]], size: int) -> list[list[dict[str, Any]]]:
    cuts = range(0, len(rows) + 1, size)
    return [rows[i:j] for i, j in pairwise(cuts)]


def test_recorded_futures_are_successes(vault: Bench) -> None:
    made = table(vault.run, "proposals").filter(pl.col("traj_id").is_not_null())
    outcomes = dict(table(vault.run, "trajectories").select("traj_id", "success").iter_rows())
    assert made.height and all(outcomes[traj_id] for traj_id in made["traj_id"])
