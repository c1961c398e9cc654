"""Chain values worked out by hand, and what the calibrated gains of prover-chain promise."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from prover_cli.credit import CreditTables
from prover_cli.credit.calibration import Calibration
from prover_cli.credit.chain import PRIOR_TURNS, Episode, Question, chain_values
from prover_cli.credit.prover import ProVer
from prover_cli.credit.prover_chain import Calibrated, ProVerChain
from prover_cli.errors import UsageError
from tests.credit.worlds import SCHEMAS, world

WON, LOST = Episode(["a", "b"], True), Episode(["a", "c"], False)


def values(episodes: list[Episode], *questions: Question, share: float = 0.5) -> list[float]:
    return chain_values(episodes, share, questions).tolist()


def smoothed(won: float, visits: int, share: float = 0.5) -> float:
    return (won + PRIOR_TURNS * share) / (visits + PRIOR_TURNS)


def test_a_last_turn_is_its_outcome() -> None:
    found = values([WON, LOST], Question("b", 1), Question("c", 1))
    assert found == pytest.approx([smoothed(1, 1), smoothed(0, 1)])


def test_a_state_has_the_mean_of_what_it_led_to() -> None:
    ahead = smoothed(1, 1) + smoothed(0, 1)
    assert values([WON, LOST], Question("a", 2)) == pytest.approx([smoothed(ahead, 2)])


def test_success_counts_only_within_the_turns_that_are_left() -> None:
    assert values([WON], Question("a", 1)) == pytest.approx([smoothed(0, 1)])


def test_episodes_that_meet_lend_each_other_their_outcomes() -> None:
    meets = Episode(["x", "b"], False)
    alone, met = (values([meets, *more], Question("x", 2))[0] for more in ([], [WON]))
    assert met > alone


def test_a_turn_that_the_limit_cut_off_is_no_failure() -> None:
    cut, lost = (Episode(["b"], False, cut=c) for c in (True, False))
    assert values([WON, cut], Question("b", 1)) == values([WON], Question("b", 1))
    assert values([WON, lost], Question("b", 1)) < values([WON], Question("b", 1))


def test_a_state_that_nobody_visits_has_the_share_of_the_group() -> None:
    assert values([WON], Question("z", 3), share=0.25) == pytest.approx([0.25])
    assert values([], Question("z", 3), share=0.25) == pytest.approx([0.25])


def test_leaving_an_episode_out_is_as_if_it_was_not_there() -> None:
    episodes = [WON, LOST, Episode(["a", "b", "c", "a", "b"], False)]
    for i in range(3):
        rest = episodes[:i] + episodes[i + 1 :]
        for state, left in (("a", 4), ("b", 2), ("c", 7)):
            found = values(episodes, Question(state, left, i), Question(state, left))
            expected = values(rest, Question(state, left)) + values(episodes, Question(state, left))
            assert found == pytest.approx(expected)


def test_without_continuations_chain_values_are_taken_as_they_are() -> None:
    nothing = np.array([], dtype=np.float64), np.array([], dtype=np.int64)
    fitted = Calibration.fit(nothing[0], nothing[1], nothing[1])
    assert fitted == Calibration(0.0, 0.0, 1.0)
    assert fitted.rate(np.array([0.3]), np.array([1])) == pytest.approx([0.3])


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.5])
def test_calibration_finds_how_rates_depend_on_chain_values(slope: float) -> None:
    rng = np.random.default_rng(7)
    seen, after = rng.uniform(0.05, 0.95, 20_000), rng.integers(0, 2, 20_000)
    truth = Calibration(-0.5, 0.8, slope)
    success = (rng.random(20_000) < truth.rate(seen, after)).astype(np.int64)
    found = Calibration.fit(seen, after, success)
    for name in ("intercept", "side", "slope"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), abs=0.08)


def test_values_that_say_nothing_do_not_reach_the_credit() -> None:
    rng = np.random.default_rng(1)
    seen, after = rng.uniform(0.02, 0.98, 5_000), np.ones(5_000, dtype=np.int64)
    success = (rng.random(5_000) < 0.3).astype(np.int64)
    rates = Calibration.fit(seen, after, success).rate(seen, after)
    assert rates == pytest.approx(0.3, abs=0.04)


def test_groups_that_share_a_state_share_its_continuations() -> None:
    frames = world(3).frames()
    segment = frames["estimates"].filter(pl.col("state_before").is_not_null()).head(1)
    other = segment.with_columns(proposal_id=pl.lit("other"), group_id=pl.lit("other"))
    frames["estimates"] = pl.concat([segment, other])
    tables = CreditTables(**frames)
    gains = ProVerChain().fitted(ProVerChain().statistics(tables)).gains(tables)
    assert sorted(gains["proposal_id"]) == sorted(["other", *segment["proposal_id"]])
    assert gains["chain_gain"].is_finite().all()


def test_an_estimate_without_continuations_is_refused_by_name() -> None:
    frames = world(3).frames()
    frames["continuations"] = pl.DataFrame(schema=SCHEMAS["continuations"])
    with pytest.raises(UsageError, match=r"the state .* has no continuation"):
        Calibrated(ProVer(), Calibration(0.0, 0.0, 1.0)).gains(CreditTables(**frames))
