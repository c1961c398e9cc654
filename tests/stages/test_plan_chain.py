"""What `plan` says of prover-chain is what it would have been worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from prover_cli.credit import CreditTables
from prover_cli.credit.prover_chain import ProVerChain
from prover_cli.stages import plan
from prover_cli.stages.plan_chain import ChainOption, chain_options, recommended
from tests.credit.worlds import SCHEMAS
from tests.stages.pipeline import Listener

GROUPS, STORED, TOKENS = 400, 10, 20.0


def segments(gains: np.ndarray, before: np.ndarray, rng: np.random.Generator) -> CreditTables:
    """A segment per group; both of its states have continuations of a single turn, whose success
    rates are known, and nothing but their own continuations tells of them."""
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in SCHEMAS}
    for i, (gain, rate) in enumerate(zip(gains, before, strict=True)):
        group, rates = f"g{i:03}", (rate, rate + gain)
        for sample in range(4):
            key = {"group_id": group, "traj_id": f"{group}.{sample}"}
            ended = {"success": sample < 2, "stop_reason": "done", "n_turns": 2}
            rows["trajectories"].append({**key, **ended, "reward": float(sample < 2)})
            for turn in (0, 1):
                state = f"{group}/{turn if sample == 0 else 8 + sample}"
                rows["turns"].append({**key, "turn": turn, "state_key": state})
        segment = {"traj_id": f"{group}.0", "start_turn": 0, "end_turn": 1, "gain": 0.0}
        states = {"state_before": f"{group}/0", "state_after": f"{group}/1"}
        rows["estimates"].append(
            {"proposal_id": group, "group_id": group, **segment, **states}
            | {"value_before": 0.0, "value_after": 0.0}
        )
        rows["continuations"] += [
            {
                "state_id": f"{group}/{side}",
                "k": k,
                "traj_id": f"{group}.0",
                "turn": side,
                "success": bool(rng.random() < rates[side]),
                "stop_reason": "done",
                "turns_left": 1,
                "state_keys": [f"{group}/{side}"],
            }
            for side in (0, 1)
            for k in range(STORED)
        ]
    frames = {name: pl.DataFrame(rows[name], SCHEMAS[name]) for name in SCHEMAS}
    many = frames["continuations"].with_columns(n_action_tokens=pl.lit(TOKENS))
    names = ("trajectories", "turns", "estimates")
    return CreditTables(**{name: frames[name] for name in names}, continuations=many)


def option(found: list[ChainOption], k_before: int, k_after: int) -> ChainOption:
    return next(o for o in found if (o.k_before, o.k_after) == (k_before, k_after))


@pytest.fixture(scope="module")
def known() -> tuple[CreditTables, np.ndarray, list[ChainOption]]:
    rng = np.random.default_rng(3)
    gains = rng.choice([0.0, 0.5], GROUPS)
    tables = segments(gains, rng.uniform(0.1, 0.4, GROUPS), rng)
    return tables, gains, list(chain_options(tables, 1e6, 0))


def test_the_error_of_the_chain_is_that_against_the_true_gains(
    known: tuple[CreditTables, np.ndarray, list[ChainOption]],
) -> None:
    tables, truth, found = known
    assert tables.continuations is not None
    method = ProVerChain()
    for k_before, k_after in ((1, 1), (1, 2), (4, 4)):
        k = pl.when(pl.col("turn") == 0).then(k_before).otherwise(k_after)
        errors = []
        for first in range(0, STORED - k_after + 1, k_after):
            place = pl.col("k") - first
            kept = tables.continuations.filter((place >= 0) & (place < k))
            few = replace(tables, continuations=kept)
            gains = method.fitted(method.statistics(few)).gains(few).sort("proposal_id")
            errors.append(((gains["chain_gain"].to_numpy() - truth) ** 2).mean())
        measured = option(found, k_before, k_after)
        assert measured.chain_error is not None and measured.chain_interval is not None
        assert measured.chain_error == pytest.approx(np.sqrt(np.mean(errors)), abs=0.03)
        low, high = measured.chain_interval
        assert low < measured.chain_error < high


def test_the_error_of_prover_is_the_deviation_of_its_counts(
    known: tuple[CreditTables, np.ndarray, list[ChainOption]],
) -> None:
    tables, _, found = known
    assert tables.continuations is not None
    rates = tables.continuations.group_by("state_id").agg(p=pl.col("success").mean(), n=pl.len())
    variance = rates.select((pl.col("p") * (1 - pl.col("p")) * STORED / (STORED - 1)).mean()).item()
    for one in found:
        if one.k_before == one.k_after:
            assert one.prover_error == pytest.approx(np.sqrt(2 * variance / one.k_before))
        expected = GROUPS * TOKENS * (one.k_before + one.k_after) / 1e6
        assert one.token_share == pytest.approx(expected)


def test_a_size_that_leaves_nothing_to_hold_out_has_no_error(
    known: tuple[CreditTables, np.ndarray, list[ChainOption]],
) -> None:
    tables, _, found = known
    assert option(found, 8, 8).chain_error is not None
    assert tables.continuations is not None
    fewer = replace(tables, continuations=tables.continuations.filter(pl.col("k") < 9))
    assert option(list(chain_options(fewer, 1e6, 0)), 8, 8).chain_error is None
    single = replace(tables, continuations=tables.continuations.filter(pl.col("k") < 1))
    assert list(chain_options(single, 1e6, 0)) == []


def test_the_recommended_size_is_the_largest_that_fits_the_budget(
    known: tuple[CreditTables, np.ndarray, list[ChainOption]],
) -> None:
    found = known[2]
    for budget, size in ((0.02, (1, 1)), (0.04, (2, 2)), (1.0, (8, 8))):
        chosen = recommended(found, budget)
        assert chosen is not None and (chosen.k_before, chosen.k_after) == size
    assert recommended(found, 0.001) is None
    assert recommended([replace(one, token_share=None) for one in found], 1.0) is None


def test_a_plan_says_both_and_shows_its_progress(verified: Path) -> None:
    listener = Listener()
    facts = plan.run(verified, listener, budget=5.0)
    sizes = [(o["k_before"], o["k_after"]) for o in facts["chain_options"]]
    assert sizes == [(1, 1), (1, 2), (2, 2), (4, 4), (8, 8)]
    assert facts["chain_recommended"] in facts["chain_options"]
    assert listener.advances == len(sizes)
