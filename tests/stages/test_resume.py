"""A stage stopped anywhere and resumed is the stage that was never stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prover_cli.config import AdvantageConfig, JudgeConfig, SamplingConfig
from prover_cli.errors import ConfigMismatchError, UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Stage
from prover_cli.stages import advantage as advantage_stage
from prover_cli.stages import judge as judge_stage
from prover_cli.stages import rollout as rollout_stage
from prover_cli.stages import verify as verify_stage
from prover_cli.stages.report import Summary
from tests.policies import behave, scripted_policy
from tests.stages.pipeline import (
    Listener,
    Stopped,
    credit,
    facts_of,
    judge,
    rollout,
    rollout_config,
    table,
    verify,
    verify_config,
)

STAGES = {
    "rollout": ("tasks", "trajectories", "turns"),
    "judge": ("proposals",),
    "verify": ("continuations", "values", "estimates"),
    "advantage": ("advantages",),
}
Call = Callable[[Mode, Listener], Summary]


def prepare(stage: str, run: Path, policy: Path) -> None:
    """Run the stages that this one needs."""
    steps: list[Callable[[], object]] = [
        lambda: rollout(run, policy, groups_per_shard=1),
        lambda: judge(run),
        lambda: verify(run),
    ]
    for step in steps[: list(STAGES).index(stage)]:
        step()


def call(stage: str, run: Path, policy: Path) -> Call:
    """The stage as a function of mode and reporter."""
    config = rollout_config(policy, groups_per_shard=1, concurrency=3)
    calls: dict[str, Call] = {
        "rollout": lambda m, r: rollout_stage.run(config, run, m, r),
        "judge": lambda m, r: judge_stage.run(JudgeConfig("random", max_success=7), run, m, r),
        "verify": lambda m, r: verify_stage.run(verify_config(concurrency=3), run, m, r),
        "advantage": lambda m, r: advantage_stage.run(AdvantageConfig(), run, m, r),
    }
    return calls[stage]


@pytest.mark.parametrize(
    ("stage", "step"),
    [("rollout", 5), ("rollout", 12), ("judge", 1), ("verify", 3), ("advantage", 1)],
)
def test_a_stopped_stage_resumes_to_the_same_tables(
    tmp_path: Path, policy: Path, stage: str, step: int
) -> None:
    """Each resumption is stopped too, a little later, until the stage is whole."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    whole.mkdir()
    prepare(stage, whole, policy)
    shutil.copytree(whole, run)
    call(stage, whole, policy)(Mode.REFUSE, Listener())
    go, stops, done = call(stage, run, policy), 0, False
    while not done:
        try:
            go(Mode.RESUME, Listener(stop_at=step + stops))
            done = True
        except Stopped:
            stops += 1
            assert Stage(run, stage).manifest().state == "running"
    assert stops > 1
    assert not list((run / stage).glob(".tmp-*"))
    for name in STAGES[stage]:
        assert facts_of(run, name).equals(facts_of(whole, name)), name


@pytest.mark.parametrize("stage", ["rollout", "verify"])
def test_a_finished_stage_asks_the_engine_nothing(tmp_path: Path, policy: Path, stage: str) -> None:
    prepare(stage, tmp_path / "run", policy)
    go = call(stage, tmp_path / "run", policy)
    assert not go(Mode.REFUSE, Listener()).did_nothing
    behave(policy, fail_after=0)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.parquet")}
    summary = go(Mode.RESUME, Listener())
    assert summary.did_nothing and summary.exit_code == 0
    assert files == {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*.parquet")}


@pytest.mark.parametrize("stage", ["judge", "advantage"])
def test_a_finished_stage_is_left_alone(tmp_path: Path, policy: Path, stage: str) -> None:
    prepare(stage, tmp_path / "run", policy)
    go = call(stage, tmp_path / "run", policy)
    facts = go(Mode.REFUSE, Listener()).facts
    again = go(Mode.RESUME, Listener())
    assert again.did_nothing and again.facts == facts
    with pytest.raises(UsageError, match="exists already") as caught:
        go(Mode.REFUSE, Listener())
    assert "--resume" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "seed: 0 -> 1"),
        ({"group_size": 4}, "group_size: 8 -> 4"),
        ({"tasks": 3}, "tasks: 4 -> 3"),
        ({"groups_per_shard": 1}, "groups_per_shard: 2 -> 1"),
        ({"split": "valid"}, "split: 'train' -> 'valid'"),
        ({}, r"env.options.slip: None -> 0\.3"),
        ({"max_turns": 5}, "env.max_turns: 12 -> 5"),
        ({"history": "1"}, "env.history: 'full' -> '1'"),
        ({"sampling": SamplingConfig(temperature=0.5)}, r"sampling.temperature: 1\.0 -> 0\.5"),
        ({"sampling": SamplingConfig(max_tokens=3)}, "sampling.max_tokens: 12 -> 3"),
    ],
)
def test_a_changed_setting_is_refused_and_named(
    sampled: Path, policy: Path, changes: dict[str, Any], message: str
) -> None:
    options = {"slip": 0.3} if "env.options" in message else None
    config = rollout_config(policy, options, **changes)
    with pytest.raises(ConfigMismatchError, match=message) as caught:
        rollout_stage.run(config, sampled, Mode.RESUME, Listener())
    assert caught.value.exit_code == 2 and "--overwrite" in str(caught.value.hint)


def test_a_setting_that_was_removed_is_refused_too(verified: Path, policy: Path) -> None:
    with pytest.raises(ConfigMismatchError, match=r"env.options.slip: 0\.3 -> None"):
        rollout_stage.run(rollout_config(policy), verified, Mode.RESUME, Listener())


def test_another_policy_under_the_same_path_is_refused(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy)
    scripted_policy(policy, ("go",))
    with pytest.raises(ConfigMismatchError, match="policy_id: "):
        rollout_stage.run(rollout_config(policy), tmp_path / "run", Mode.RESUME, Listener())


def test_how_the_work_is_done_may_change(tmp_path: Path, policy: Path) -> None:
    """Concurrency, retries, and the path of the same policy."""
    rollout(tmp_path / "run", policy)
    moved = policy.rename(tmp_path / "moved")
    config = rollout_config(moved, concurrency=2, retries=0)
    assert rollout_stage.run(config, tmp_path / "run", Mode.RESUME, Listener()).did_nothing


def test_a_changed_setting_of_a_later_stage_is_named(run: Path) -> None:
    credit(run)
    with pytest.raises(ConfigMismatchError, match="max_segment: 4 -> 2"):
        shorter = JudgeConfig("random", max_success=7, max_segment=2)
        judge_stage.run(shorter, run, Mode.RESUME, Listener())
    with pytest.raises(ConfigMismatchError, match="k: 5 -> 8"):
        verify_stage.run(verify_config(8), run, Mode.RESUME, Listener())
    half = AdvantageConfig(knobs={"lambda_": 0.5})
    with pytest.raises(ConfigMismatchError, match=r"knobs.lambda_: None -> 0\.5"):
        advantage_stage.run(half, run, Mode.RESUME, Listener())


def test_a_rollout_can_be_repeated_after_a_refused_engine(tmp_path: Path, policy: Path) -> None:
    """Nothing was sampled, so nothing stands in the way."""
    with pytest.raises(
        UsageError, match="no engine 'script'; engines: auto, vllm, openai, torch, scripted"
    ):
        rollout(tmp_path / "run", policy, engine="script")
    assert rollout(tmp_path / "run", policy).facts["groups"] == 4


def test_a_damaged_shard_is_made_again_as_it_was(tmp_path: Path, policy: Path) -> None:
    go = call("rollout", tmp_path / "run", policy)
    go(Mode.REFUSE, Listener())
    before = facts_of(tmp_path / "run", "trajectories")
    broken = Stage(tmp_path / "run", "rollout").files("turns")[1]
    broken.write_bytes(b"PAR1")
    listener = Listener()
    assert not go(Mode.RESUME, listener).did_nothing
    assert any(f"shard 1 will be written again: {broken}" in note for note in listener.notes)
    assert facts_of(tmp_path / "run", "trajectories").equals(before)
    assert table(tmp_path / "run", "turns").height == before["n_turns"].sum()
