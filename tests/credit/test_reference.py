"""Every method agrees with its formula computed slowly in plain Python."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from prover_cli.credit import compute, registry
from tests.credit.reference import CONSTANTS, REFERENCE, Credit, judge_confidence, spo_chain
from tests.credit.worlds import World, world

KNOBS: dict[str, dict[str, Any]] = {"triage": CONSTANTS}
SEEDS = range(25)


def credit(name: str, made: World, **knobs: Any) -> Credit:
    rows = compute(name, **made.frames(), **(KNOBS.get(name, {}) | knobs))
    keys = zip(rows["traj_id"], rows["turn"], strict=True)
    return dict(zip(keys, rows["advantage"], strict=True))


def assert_same(found: Credit, expected: Credit, where: str) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if value is None:
            assert found[key] is None, (where, key)
        else:
            assert found[key] == pytest.approx(value, abs=1e-9, rel=1e-9), (where, key)


def test_every_registered_method_has_a_reference() -> None:
    assert sorted(REFERENCE) == registry.names()


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_agrees_with_the_slow_reference(name: str) -> None:
    n_known = 0
    for seed in SEEDS:
        made = world(seed)
        expected = REFERENCE[name](made)
        assert_same(credit(name, made.shuffled(seed)), expected, f"{name} seed {seed}")
        n_known += sum(value not in (None, 0.0) for value in expected.values())
    assert n_known > 50


@pytest.mark.parametrize("interval", [2, 3])
def test_longer_segments_agree_with_the_slow_reference(interval: int) -> None:
    for seed in SEEDS:
        made = world(seed)
        assert_same(
            credit("spo-chain", made, interval=interval), spo_chain(interval)(made), str(seed)
        )


def test_confidence_scores_agree_with_the_slow_reference() -> None:
    for seed in SEEDS:
        made = world(seed)
        found = credit("prover-judge-only", made, score="confidence")
        assert_same(found, judge_confidence(made), str(seed))


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_advantage_is_base_plus_local_and_null_says_why(name: str) -> None:
    for seed in range(5):
        made = world(seed)
        rows = compute(name, **made.frames(), **KNOBS.get(name, {}))
        assert rows.height == len(made.turns)
        total = pl.sum_horizontal("base", "local")
        off = rows.filter(pl.col("advantage").is_not_null()).select(
            (pl.col("advantage") - total).abs().max()
        )
        assert (off.item() or 0.0) < 1e-12
        assert rows["reason"].null_count() == 0
        unassigned = set(rows.filter(pl.col("advantage").is_null())["reason"])
        assert not unassigned & {"base", "local", "segment", "value_difference"}
