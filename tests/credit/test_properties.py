"""What every registered method keeps, whatever the data."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from prover_cli.credit import CreditTables, RunScoped, compute, credit, prepare, registry
from prover_cli.errors import UsageError
from tests.credit.reference import CONSTANTS
from tests.credit.worlds import World, world

ALL = registry.names()
RUN_SCOPED = {
    "reinforce++",
    "reinforce++-baseline",
    "gpg",
    "ragen",
    "triage",
    "constant",
    "prover-chain",
}
FLAT_IS_ZERO = (
    "agentopsd@code agentopsd@paper constant cw-grpo dr-grpo gpg grpo grpo-std hcapo maxrl pivoarl "
    "prover prover-chain prover-judge-only rloo search-r1 sharpo spo-tree tree-grpo@code "
    "tree-grpo@paper treerl"
).split()
"""Methods in which a group of equal outcomes has exactly 0."""
SEGMENTS = ("prover", "prover-chain", "prover-judge-only", "constant")
KNOBS: dict[str, dict[str, Any]] = {"triage": CONSTANTS}
seeds = st.integers(0, 10_000)


def rows_of(name: str, made: World, **knobs: Any) -> pl.DataFrame:
    return compute(name, **made.frames(), **(KNOBS.get(name, {}) | knobs))


def in_shards(name: str, shards: list[World]) -> pl.DataFrame:
    """As a run: methods see the statistics of all shards, then credit each on its own."""
    tables = [CreditTables(**shard.frames()) for shard in shards]
    estimator = prepare(name, registry.make(name, **KNOBS.get(name, {})), iter(tables))
    return pl.concat([credit(name, estimator, one) for one in tables]).sort("traj_id", "turn")


def test_the_methods_of_run_scope_are_known() -> None:
    scoped = {name for name in ALL if isinstance(registry.make(name), RunScoped)}
    assert scoped == RUN_SCOPED


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=12, deadline=None)
@given(seeds, seeds)
def test_neither_rows_nor_shards_change_a_value(name: str, seed: int, order: int) -> None:
    made = world(seed, 5)
    whole = rows_of(name, made)
    assert_frame_equal(rows_of(name, made.shuffled(order)), whole, abs_tol=1e-9)
    shards = [made.only(group_id).shuffled(order) for group_id in reversed(made.groups())]
    assert_frame_equal(in_shards(name, shards), whole, abs_tol=1e-9)


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=12, deadline=None)
@given(seeds)
def test_advantages_are_finite_and_every_turn_has_one_row(name: str, seed: int) -> None:
    made = world(seed)
    rows = rows_of(name, made)
    assert rows["advantage"].drop_nulls().is_finite().all()
    assert rows["local"].drop_nulls().is_finite().all()
    keys = sorted((row["traj_id"], row["turn"]) for row in made.turns)
    assert list(rows.select("traj_id", "turn").iter_rows()) == keys


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=12, deadline=None)
@given(seeds)
def test_a_void_trajectory_has_no_advantage_and_says_so(name: str, seed: int) -> None:
    made = world(seed, 8)
    void = [row["traj_id"] for row in made.trajectories if row["reward"] is None]
    rows = rows_of(name, made).filter(pl.col("traj_id").is_in(void))
    assert rows["advantage"].null_count() == rows.height
    assert set(rows["reason"]) <= {"void"}


@pytest.mark.parametrize("name", FLAT_IS_ZERO)
@settings(max_examples=12, deadline=None)
@given(seeds, st.sampled_from([0.0, 1.0]))
def test_a_group_of_equal_outcomes_has_exactly_zero(name: str, seed: int, outcome: float) -> None:
    made = world(seed)
    for row in made.trajectories:
        if row["reward"] is not None:
            row |= {"reward": outcome, "success": outcome == 1.0}
    rows = rows_of(name, made)
    assert set(rows["advantage"].drop_nulls()) <= {0.0}
    assert set(rows["reason"]) <= {"zero_variance", "void", "singleton"}


@pytest.mark.parametrize("name", SEGMENTS)
@settings(max_examples=12, deadline=None)
@given(seeds)
def test_trajectories_without_a_proposal_keep_their_base_bit_for_bit(name: str, seed: int) -> None:
    made = world(seed)
    proposed = [row["traj_id"] for row in made.proposals]
    outside = pl.col("traj_id").is_in([t for t in proposed if t is not None]).not_()
    found = rows_of(name, made).filter(outside)
    plain = rows_of("grpo", made).filter(outside)
    assert found.drop("estimator").equals(plain.drop("estimator"))


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("prover", "grpo"),
        ("prover-judge-only", "grpo"),
        ("constant", "grpo"),
        ("prover-chain", "grpo"),
        ("sharpo", "grpo-std"),
        ("agentopsd@paper", "grpo-std"),
        ("agentopsd@code", "grpo-std"),
    ],
)
@settings(max_examples=12, deadline=None)
@given(seeds)
def test_a_local_part_without_weight_leaves_the_base(name: str, base: str, seed: int) -> None:
    made = world(seed)
    found = rows_of(name, made, lambda_=0.0)["advantage"]
    assert found.equals(rows_of(base, made)["advantage"])


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_value_differences_telescope(seed: int) -> None:
    made = world(seed)
    known = {(row["traj_id"], row["turn"]): row["mean"] for row in made.values}
    for interval in (1, 2, 3):
        name, knobs = ("vineppo", {}) if interval == 1 else ("spo-chain", {"interval": interval})
        rows = rows_of(name, made, **knobs)
        for row in made.trajectories:
            cuts = range(0, row["n_turns"], interval)
            if row["success"] is None or any((row["traj_id"], k) not in known for k in cuts):
                continue
            own = rows.filter(traj_id=row["traj_id"])["advantage"].to_list()
            total = sum(own[k] for k in cuts)
            assert total == pytest.approx(row["success"] - known[row["traj_id"], 0], abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_gae_with_lambda_one_is_the_return_less_the_value(seed: int) -> None:
    made = world(seed)
    rows = rows_of("gae", made, lambda_=1.0)
    found = {(t, k): a for t, k, a in rows.select("traj_id", "turn", "advantage").iter_rows()}
    value = {(row["traj_id"], row["turn"]): row["value"] for row in made.scores}
    for row in made.trajectories:
        paid = [turn["reward"] for turn in made.of(row["traj_id"])]
        for k in range(row["n_turns"]):
            a = found[row["traj_id"], k]
            if a is not None:
                assert a == pytest.approx(sum(paid[k:]) - value[row["traj_id"], k], abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_the_control_has_provers_mass(seed: int) -> None:
    made = world(seed)
    verified, even = (rows_of(name, made)["local"].sum() for name in ("prover", "constant"))
    assert even == pytest.approx(verified, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_cw_grpo_keeps_the_sum_of_a_trajectory(seed: int) -> None:
    made = world(seed)
    rows = rows_of("cw-grpo", made).filter(pl.col("advantage").is_not_null())
    sums = rows.group_by("traj_id").agg(pl.col("base").sum(), pl.col("advantage").sum())
    assert_frame_equal(
        sums.select(pl.col("base").alias("x")), sums.select(pl.col("advantage").alias("x"))
    )


@pytest.mark.parametrize("name", ALL)
def test_an_empty_shard_has_an_empty_table(name: str) -> None:
    empty = World().frames()
    assert compute(name, **empty, **KNOBS.get(name, {})).is_empty()


@pytest.mark.parametrize("name", sorted(RUN_SCOPED))
def test_a_shard_without_siblings_is_credited_as_in_the_run(name: str) -> None:
    made = world(3, 6)
    alone = made.only(made.groups()[0])
    full = in_shards(name, [made.only(group_id) for group_id in made.groups()])
    part = full.filter(pl.col("traj_id").is_in([row["traj_id"] for row in alone.trajectories]))
    tables = [CreditTables(**made.frames())]
    estimator = prepare(name, registry.make(name, **KNOBS.get(name, {})), tables)
    found = credit(name, estimator, CreditTables(**alone.frames()))
    assert_frame_equal(found, part, abs_tol=1e-9)


def test_a_run_without_shards_cannot_be_prepared() -> None:
    with pytest.raises(UsageError, match="needs the whole run"):
        prepare("gpg", registry.make("gpg"), [])


def test_knobs_go_to_the_estimators_that_have_them() -> None:
    names = ["prover", "sharpo", "grpo"]
    knobs = {"lambda_": 2.0, "sharpo.lambda_": 0.1, "outcome": "success", "gate": "ci"}
    assert registry.split_knobs(names, knobs) == {
        "prover": {"lambda_": 2.0, "gate": "ci", "outcome": "success"},
        "sharpo": {"lambda_": 0.1, "outcome": "success"},
        "grpo": {"outcome": "success"},
    }
    for wrong in ("lamda", "grpo.gate", "rloo.eps"):
        with pytest.raises(UsageError, match=f"no knob {wrong} in prover, sharpo, grpo"):
            registry.split_knobs(names, {wrong: 1})


@pytest.mark.parametrize(
    ("name", "knob"),
    [(n, k) for n, k in itertools.product(ALL, ["norm", "outcome", "key"])],
)
def test_a_value_that_a_knob_does_not_have_is_refused(name: str, knob: str) -> None:
    with pytest.raises(UsageError, match=f"estimator {name.replace('+', '.')}"):
        registry.make(name, **{knob: "nonsense"})
