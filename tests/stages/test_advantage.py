"""Credit is a function of facts, not of how they are laid out, and mistakes are told in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from prover_cli.config import AdvantageConfig
from prover_cli.credit import compute
from prover_cli.errors import ShardError, UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.stages import advantage
from prover_cli.stages.report import SilentReporter
from tests.stages.pipeline import credit, judge, rewrite, rollout, same, table, verify

ALL = ("grpo", "grpo-std", "maxrl", "prover", "rloo", "vineppo")


def advantages(run: Path, stage: str | None = None) -> pl.DataFrame:
    return table(run, "advantages", stage).drop("estimator")


def test_credit_does_not_depend_on_shards(tmp_path: Path, policy: Path, run: Path) -> None:
    other = tmp_path / "other"
    rollout(other, policy, {"slip": 0.3}, groups_per_shard=3)
    judge(other)
    verify(other, k=5)
    for path in (run, other):
        credit(path, *ALL)
    assert same(run, other, "advantages")
    assert set(table(run, "advantages")["estimator"]) == set(ALL)


@pytest.mark.parametrize(
    "estimator", ["reinforce++", "reinforce++-baseline", "gpg", "ragen", "constant"]
)
def test_numbers_of_a_whole_run_do_not_depend_on_shards_or_slices(
    tmp_path: Path, policy: Path, run: Path, estimator: str
) -> None:
    other = tmp_path / "other"
    rollout(other, policy, {"slip": 0.3}, groups_per_shard=1)
    judge(other)
    verify(other, k=5)
    credit(run, estimator)
    for slice_ in ("0/2", "1/2"):
        advantage.run(
            AdvantageConfig((estimator,)), other, Mode.RESUME, SilentReporter(), slice_=slice_
        )
    keys = ["traj_id", "turn"]
    one, two = (advantages(path).sort(keys) for path in (run, other))
    assert one["advantage"].drop_nulls().len() > 0
    assert_frame_equal(one, two, rel_tol=1e-9)


def test_credit_does_not_depend_on_the_order_of_rows(run: Path) -> None:
    credit(run, *ALL)
    before = table(run, "advantages")
    shuffled = {
        name: table(run, name).sample(fraction=1.0, shuffle=True, seed=3)
        for name in ("trajectories", "turns", "values", "estimates")
    }
    for estimator in ALL:
        mixed = compute(estimator, **shuffled)
        assert_frame_equal(mixed, before.filter(estimator=estimator), rel_tol=1e-12)


def test_a_gain_without_weight_leaves_the_group_advantage(run: Path) -> None:
    credit(run, "grpo", variant="grpo")
    credit(run, "prover", variant="none", knobs={"lambda_": 0.0})
    credit(run, "prover")
    plain, none = advantages(run, "advantage@grpo"), advantages(run, "advantage@none")
    assert none["advantage"].equals(plain["advantage"])
    assert none["base"].equals(plain["base"])
    assert not advantages(run)["advantage"].equals(plain["advantage"])


def test_a_gain_is_added_to_the_turns_of_its_segment_and_to_no_other(run: Path) -> None:
    credit(run, "prover", knobs={"lambda_": 2.0})
    estimates = table(run, "estimates").filter(pl.col("gain") > 0).to_dicts()
    assert estimates
    gains = {
        (row["traj_id"], turn): row["gain"]
        for row in estimates
        for turn in range(row["start_turn"], row["end_turn"])
    }
    for row in advantages(run).iter_rows(named=True):
        gain = gains.get((row["traj_id"], row["turn"]))
        assert row["local"] == (None if gain is None else pytest.approx(2 * gain))
        assert row["advantage"] == pytest.approx(row["base"] + 2 * (gain or 0.0))
        assert (row["reason"] == "segment") == (gain is not None)


def test_the_group_mean_is_over_episodes_and_not_over_turns(run: Path) -> None:
    credit(run, "grpo")
    per_episode = advantages(run).group_by("traj_id", "group_id").agg(pl.col("base").first())
    sums = per_episode.group_by("group_id").agg(pl.col("base").sum())
    assert (sums["base"].abs() < 1e-12).all()
    assert (per_episode["base"].abs() > 0).any()


def test_every_turn_has_one_row_per_estimator(run: Path) -> None:
    credit(run, "grpo", "prover")
    turns = table(run, "turns").select("traj_id", "turn")
    for estimator in ("grpo", "prover"):
        rows = table(run, "advantages").filter(estimator=estimator)
        assert rows.select("traj_id", "turn").equals(turns)


def test_nothing_but_zeros_is_said_aloud(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy, group_size=1)
    (warning,) = credit(tmp_path / "run", "grpo").warnings
    assert warning.startswith("grpo: every advantage is zero or unassigned")
    assert set(table(tmp_path / "run", "advantages")["reason"]) == {"singleton"}


@pytest.mark.parametrize(
    ("estimators", "knobs", "message"),
    [
        (("oracle",), {}, "no estimator called 'oracle'; known: "),
        (("grpo",), {"lambda_": 1.0}, "no knob lambda_ in grpo; they have: ddof, eps, outcome"),
        (("prover",), {"lambada": 1.0}, "no knob lambada in prover; they have: .*lambda_"),
        (("prover",), {"gate": "open"}, "gate.*open"),
        (("prover",), {"norm": "max"}, "norm.*max"),
        (("grpo",), {"outcome": "score"}, "outcome.*score"),
        (("prover",), {"sign": "minus"}, "sign.*minus"),
        (("prover",), {"lambda_": "much"}, "lambda_.*much"),
        (("grpo", "grpo"), {}, "grpo"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_words(
    run: Path, estimators: tuple[str, ...], knobs: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        credit(run, *estimators, knobs=knobs)


@pytest.mark.parametrize(
    ("estimator", "source", "command"),
    [
        ("prover", "verify", "prover verify {run} --k 8"),
        ("vineppo", "verify", "prover verify {run} --k 8"),
        ("prover", "verify@other", "prover verify {run} --k 8"),
    ],
)
def test_a_missing_stage_names_its_command(
    tmp_path: Path, policy: Path, estimator: str, source: str, command: str
) -> None:
    path = tmp_path / "run"
    rollout(path, policy)
    with pytest.raises(ShardError, match=f"{source} was not run") as caught:
        credit(path, estimator, source=source)
    assert command.format(run=path) in str(caught.value.hint)
    assert not Run(path).stage("advantage").exists()


def test_an_unfinished_stage_is_not_read(run: Path) -> None:
    path = run / "verify" / "manifest.json"
    path.write_text(path.read_text().replace('"state": "complete"', '"state": "running"'))
    with pytest.raises(ShardError, match="verify is not complete") as caught:
        credit(run)
    assert caught.value.hint == f"finish it: prover verify {run} --k 8 --resume"


def test_a_variant_of_the_verification_is_credited_beside_the_first(run: Path) -> None:
    verify(run, k=2, seed=7, variant="other")
    credit(run)
    credit(run, source="verify@other", variant="other")
    manifest = Run(run).stage("advantage@other").manifest()
    assert set(manifest.inputs) == {"rollout", "verify@other"}
    one, other = advantages(run), advantages(run, "advantage@other")
    assert one["base"].equals(other["base"]) and not one["local"].equals(other["local"])


def test_a_void_trajectory_has_no_advantage_in_any_method(run: Path) -> None:
    gone = table(run, "trajectories")["traj_id"][0]

    def void(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        nothing = {"reward": None, "success": None, "stop_reason": "void"}
        return [row | nothing if row["traj_id"] == gone else row for row in rows]

    rewrite(Stage(run, "rollout"), "trajectories", void)
    for name in ("judge", "verify"):
        for path in (run / name).iterdir():
            path.unlink()
    judge(run)
    verify(run)
    credit(run, *ALL)
    rows = table(run, "advantages").filter(traj_id=gone)
    assert rows["estimator"].n_unique() == len(ALL) and set(rows["reason"]) == {"void"}
    assert rows["advantage"].is_null().all() and rows["local"].is_null().all()


TREES = ("tree-grpo@paper", "tree-grpo@code", "treerl", "spo-tree")


@pytest.mark.parametrize("estimator", TREES)
def test_trees_are_needed_by_the_methods_that_compare_branches(run: Path, estimator: str) -> None:
    assert table(run, "trajectories")["parent_traj_id"].null_count() > 0
    with pytest.raises(UsageError, match="needs trajectories that branch"):
        credit(run, estimator)


def test_branches_in_any_shard_make_a_run_of_trees(run: Path) -> None:
    """One trajectory branched; the groups of the other shard are trees of one each."""
    trajectories = table(run, "trajectories")
    group = trajectories.filter(group_id=trajectories["group_id"][0])
    child, parent = group["traj_id"][1], group["traj_id"][0]

    def branch(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        grown = {"parent_traj_id": parent, "parent_turn": 0}
        return [row | grown if row["traj_id"] == child else row for row in rows]

    rewrite(Stage(run, "rollout"), "trajectories", branch)
    for name in ("judge", "verify"):
        for path in (run / name).iterdir():
            path.unlink()
    credit(run, *TREES)
    rows = table(run, "advantages")
    turns = table(run, "turns")
    assert rows.height == len(TREES) * turns.height
    for estimator in TREES:
        whole = compute(estimator, trajectories=table(run, "trajectories"), turns=turns)
        assert_frame_equal(rows.filter(estimator=estimator), whole, rel_tol=1e-9)


def test_credit_reads_no_text_and_no_tokens(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prover_cli.shards import store

    read: set[str] = set()
    original = store.read_arrow

    def listening(path: Path, table: Any, columns: Any = None) -> Any:
        read.update(f"{table.name}.{name}" for name in columns or table.names)
        return original(path, table, columns)

    monkeypatch.setattr(store, "read_arrow", listening)
    credit(run, "grpo", "prover")
    of_turns = {name for name in read if name.startswith("turns.")}
    assert of_turns == {"turns.traj_id", "turns.turn", "turns.group_id"}
    assert not any(name.startswith(("continuations.", "values.", "proposals.")) for name in read)


def test_the_summary_is_of_all_shards(run: Path) -> None:
    summary = credit(run, "grpo", "prover")
    rows = table(run, "advantages")
    for facts in summary.facts["estimators"]:
        own = rows.filter(estimator=facts["estimator"])
        assert facts["turns"] == own.height == table(run, "turns").height
        assert facts["non_zero"] == (own["advantage"] != 0).sum()
        assert facts["mean_size"] == pytest.approx(own["advantage"].abs().mean())


@pytest.mark.parametrize(
    ("estimators", "variant", "words"),
    [
        (("prover",), None, ""),
        (("grpo", "prover"), "both", " --from advantage@both --estimator prover"),
    ],
)
def test_the_next_command_trains_on_one_of_the_methods(
    run: Path, estimators: tuple[str, ...], variant: str | None, words: str
) -> None:
    assert credit(run, *estimators, variant=variant).next_command == f"prover update {run}{words}"
