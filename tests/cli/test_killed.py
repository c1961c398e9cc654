"""Killed at random instants and resumed, every stage writes what an undisturbed run writes."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from prover_cli.ids import policy_id
from prover_cli.shards.run import Stage
from prover_cli.shards.schema import STAGE_TABLES
from tests.cli.run import environment, succeed
from tests.policies import behave, scripted_policy

TOY = ("--env", "toy", "--engine", "scripted", "--groups-per-shard", "1", "--tasks", "6")
STAGES = {
    "rollout": (),
    "judge": (),
    "verify": ("--engine", "scripted", "--k", "4"),
    "advantage": ("--estimator", "grpo,prover"),
    "evaluate": ("--engine", "scripted", "--split", "all"),
}
REPLIES = ("go", "open", "take red", "take blue", "take green", "take white", "go", "go")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scripted_policy(tmp_path_factory.mktemp("killed") / "policy", REPLIES)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "shards"
    for stage in STAGES:
        succeed(*command(stage, run, policy))
    return run


def command(stage: str, run: Path, policy: Path) -> list[str]:
    if stage == "rollout":
        return ["rollout", *TOY, "--policy", str(policy), "--out", str(run)]
    if stage == "evaluate":
        return ["evaluate", str(run), "--policy", str(policy), *STAGES[stage]]
    return [stage, str(run), *STAGES[stage]]


def tables(run: Path, stage: str) -> dict[str, pl.DataFrame]:
    """The tables of a stage without the columns that hold wall time."""
    return {
        name: Stage(run, stage).read(name).drop("seconds", strict=False)
        for name in STAGE_TABLES[stage]
    }


def finish_with_kills(arguments: list[str], generator: random.Random, latest: float = 1.3) -> int:
    """Resume the command again and again, killing it at random instants up to `latest` seconds;
    returns the number of kills."""
    kills = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "-m", "prover_cli", *arguments, "--resume"],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if kills < 4:
            time.sleep(generator.uniform(0.3, latest))
            process.send_signal(signal.SIGKILL)
        _, talk = process.communicate(timeout=120)
        if process.returncode == 0:
            return kills
        assert process.returncode == -signal.SIGKILL, talk
        kills += 1


@pytest.mark.parametrize("stage", list(STAGES))
def test_a_killed_stage_resumes_to_the_undisturbed_tables(
    tmp_path: Path, policy: Path, undisturbed: Path, stage: str
) -> None:
    generator = random.Random(stage)
    run = tmp_path / "shards"
    # Slow answers, so that kills fall in the middle of the work.
    behave(policy, delay_ms=15)
    for earlier in STAGES:
        if earlier == stage:
            break
        behave(policy)
        succeed(*command(earlier, run, policy))
        behave(policy, delay_ms=15)
    finish_with_kills(command(stage, run, policy), generator)
    behave(policy)
    expected = tables(undisturbed, stage)
    for name, found in tables(run, stage).items():
        assert found.equals(expected[name]), name
    assert not [path for path in (run / stage).iterdir() if ".tmp" in path.name]
    succeed("validate", run)


def test_a_killed_update_resumes_to_the_undisturbed_policy(tmp_path: Path) -> None:
    run, undisturbed = tmp_path / "run", tmp_path / "undisturbed"
    succeed("rollout", "--env", "webshop", "--tasks", "2", "--group-size", "4", "--out", run)
    succeed("advantage", run, "--estimator", "grpo")
    shutil.copytree(run, undisturbed)
    began = time.monotonic()
    succeed("update", undisturbed, "--lr", "1e-3")
    took = time.monotonic() - began
    finish_with_kills(["update", str(run), "--lr", "1e-3"], random.Random(0), latest=took)
    assert policy_id(run / "update" / "policy") == policy_id(undisturbed / "update" / "policy")
    left = {path.name for path in (run / "update").iterdir() if not path.name.startswith(".lock")}
    assert left == {"manifest.json", "metrics.jsonl", "policy", "trainer_state"}
