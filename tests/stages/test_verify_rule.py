"""How many continuations a segment gets, decided by a rule that was fixed before."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from prover_cli.config import VerifyConfig
from prover_cli.errors import UsageError
from prover_cli.shards.run import Stage
from prover_cli.stages.verify_rule import (
    Rule,
    endings,
    expected_bonus,
    expected_share,
    rule_of,
    unbiased_gain,
)
from tests.stages.pipeline import judge, rollout, table, verify

ADAPTIVE = rule_of(VerifyConfig(adaptive=True))
WIDTH = rule_of(VerifyConfig(k=2, until_ci=0.7, max_k=16))
RATES = [(0.5, 0.5), (0.1, 0.1), (0.2, 0.6), (0.8, 0.3), (0.0, 1.0)]


def gain(counts: tuple[int, int, int, int]) -> float:
    return counts[2] / counts[3] - counts[0] / counts[1]


def test_the_plain_rule_has_one_round() -> None:
    assert rule_of(VerifyConfig()) == Rule(((8, 8),))
    assert rule_of(VerifyConfig(k_before=4, k_after=16)) == Rule(((4, 16),))


def test_rounds_double_up_to_the_most() -> None:
    assert ADAPTIVE.rounds == ((2, 2), (4, 4), (8, 8))
    assert WIDTH.rounds == ((2, 2), (4, 4), (8, 8), (16, 16))
    assert rule_of(VerifyConfig(adaptive=True, k_before=3, k_after=8)).most == (3, 8)
    assert rule_of(VerifyConfig(k=8, until_ci=0.3, max_k=20)).rounds == ((8, 8), (16, 16), (20, 20))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"adaptive": True, "until_ci": 0.3, "max_k": 16}, "two rules"),
        ({"max_k": 16}, "--max-k belongs to"),
        ({"until_ci": 0.3}, "--until-ci needs an end"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rule_of(VerifyConfig(**settings))  # type: ignore[arg-type]


def test_what_is_decided_stops_and_what_is_open_goes_on() -> None:
    assert ADAPTIVE.stops((0, 2, 2, 2)) and ADAPTIVE.stops((2, 2, 0, 2))
    assert not ADAPTIVE.stops((1, 2, 1, 2)) and not ADAPTIVE.stops((0, 2, 1, 2))
    assert ADAPTIVE.stops((0, 4, 0, 4)), "what can still be gained is negligible"
    assert WIDTH.stops((0, 8, 0, 8)) and not WIDTH.stops((4, 8, 4, 8))
    assert not ADAPTIVE.stops((0, 0, 2, 2)), "a side without outcomes decides nothing"


@pytest.mark.parametrize("rule", [ADAPTIVE, WIDTH, Rule(((8, 8),))])
@pytest.mark.parametrize(("before", "after"), RATES)
def test_the_corrected_gain_has_no_bias(rule: Rule, before: float, after: float) -> None:
    """Exactly, over all endings of the rule; the plain difference has some."""
    found = list(endings(rule, before, after))
    assert sum(e.probability for e in found) == pytest.approx(1)
    mean = sum(
        e.probability * unbiased_gain(rule, e.round, e.counts[0], e.counts[2]) for e in found
    )
    assert mean == pytest.approx(after - before, abs=1e-12)


def test_stopping_early_biases_the_plain_difference() -> None:
    found = endings(ADAPTIVE, 0.2, 0.6)
    assert sum(e.probability * gain(e.counts) for e in found) > 0.4 + 0.02


def test_one_round_needs_no_correction() -> None:
    assert unbiased_gain(Rule(((8, 8),)), 0, 2, 6) == pytest.approx(0.5)


def test_the_expected_bonus_is_that_of_the_posteriors() -> None:
    assert expected_bonus(0, 0, 0, 0) == pytest.approx(1 / 6)
    assert expected_bonus(0, 4, 0, 4) == pytest.approx(
        1 - 2 / 6 + 1 / 11 - 1 + 1 / 6 + 1 / 6 - 1 / 66
    )
    steps = [(i + 0.5) / 400 for i in range(400)]
    before = [(1 - x) ** 5 * x**3 for x in steps]
    after = [(1 - x) ** 2 * x**6 for x in steps]
    total = sum(
        b * a * max(y - x, 0.0)
        for x, b in zip(steps, before, strict=True)
        for y, a in zip(steps, after, strict=True)
    )
    assert expected_bonus(3, 8, 6, 8) == pytest.approx(total / sum(before) / sum(after), abs=1e-4)


def test_adaptive_rounds_spend_less_than_the_plain_rule() -> None:
    assert expected_share(Rule(((8, 8),))) == 1
    assert 0.2 < expected_share(ADAPTIVE) < 0.6


def test_adaptive_verification_stops_where_the_rule_says(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, {"slip": 0.3}, tasks=8)
    judge(run)
    plain = verify(run, k=8)
    summary = verify(run, k=8, variant="adaptive", adaptive=True)
    assert 0 < summary.facts["continuations"] < plain.facts["continuations"]
    made = table(run, "estimates", "verify@adaptive").filter(status="ok")
    rounds = dict(ADAPTIVE.rounds)
    for row in made.iter_rows(named=True):
        counts = tuple(
            row[name] for name in ("success_before", "n_before", "success_after", "n_after")
        )
        assert rounds[row["n_before"]] == row["n_after"]
        assert row["n_before"] == 8 or ADAPTIVE.stops(counts)
        number = list(rounds).index(row["n_before"])
        expected = unbiased_gain(ADAPTIVE, number, counts[0], counts[2])
        assert row["gain_unbiased"] == pytest.approx(expected)
    assert made["n_before"].n_unique() > 1
    rule = Stage(run, "verify@adaptive").manifest().facts["rule"]
    assert rule["rounds"] == [[2, 2], [4, 4], [8, 8]] and rule["undecided"] and rule["negligible"]
    assert summary.facts["stopping_bias"] is not None and plain.facts["stopping_bias"] == 0


def test_the_first_rounds_are_the_continuations_of_the_plain_rule(
    tmp_path: Path, policy: Path
) -> None:
    run = tmp_path / "run"
    rollout(run, policy, {"slip": 0.3})
    judge(run)
    verify(run, k=8)
    verify(run, k=8, variant="adaptive", adaptive=True)
    keys = ["state_id", "k"]
    plain, rounds = (table(run, "continuations", s) for s in ("verify", "verify@adaptive"))
    both = rounds.join(plain, on=keys, suffix="_plain")
    assert both.height == rounds.height
    assert both["success"].equals(both["success_plain"])


def test_a_wide_interval_gets_more_until_the_end(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, {"slip": 0.3}, tasks=8)
    judge(run)
    verify(run, k=2, until_ci=0.7, max_k=16)
    made = (
        table(run, "estimates")
        .filter(status="ok")
        .with_columns((pl.col("ci_high") - pl.col("ci_low")).alias("width"))
    )
    assert set(made["n_before"]) <= {2, 4, 8, 16} and made["n_before"].n_unique() > 1
    for row in made.iter_rows(named=True):
        assert row["n_before"] == row["n_after"]
        assert row["width"] <= 0.7 or row["n_before"] == 16
    assert math.isfinite(made["gain_unbiased"].sum())


def test_both_sides_may_have_their_own_number(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, {"slip": 0.3})
    judge(run)
    verify(run, k=4, k_before=3, k_after=6)
    made = table(run, "estimates").filter(status="ok")
    assert set(made["n_before"]) == {3} and set(made["n_after"]) == {6}
