"""Two commands on one run: one of them works, the other says so."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prover_cli.errors import LockedError
from prover_cli.shards.lock import stage_lock
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.validate import faults
from tests.policies import behave
from tests.stages.pipeline import judge, rollout, same

MORE = ["--env-option", "rooms=2", "--max-turns", "12", "--tasks", "4", "--groups-per-shard", "2"]


def command(stage: str, run: Path, *arguments: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "prover_cli", stage, *arguments]
    where = ["--out", str(run)] if stage == "rollout" else [str(run)]
    return subprocess.Popen(
        [*line, *where, "--engine", "scripted"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, talk = process.communicate(timeout=120)
    return process.returncode, talk


def test_of_two_rollouts_at_once_exactly_one_succeeds(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    behave(policy, delay_ms=250)
    arguments = ["--env", "toy", "--policy", str(policy), "--resume", *MORE]
    both = [command("rollout", run, *arguments) for _ in range(2)]
    ends = [finish(process) for process in both]
    assert sorted(code for code, _ in ends) == [0, 5]
    (loser,) = [talk for code, talk in ends if code == 5]
    assert f"{run / 'rollout'} is being written by process" in loser and "Traceback" not in loser
    behave(policy)
    rollout(tmp_path / "alone", policy)
    assert same(run, tmp_path / "alone", "tasks", "trajectories", "turns")
    assert not list(faults(Run(run)))


def test_a_loser_names_the_winner_that_has_only_just_begun(tmp_path: Path) -> None:
    """Between taking the lock and signing it the file is empty, or signed by its last holder."""
    path = tmp_path / ".lock"
    path.write_text("1")
    with path.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.truncate()

        def sign() -> None:
            held.write("4711")
            held.flush()

        timer = threading.Timer(0.1, sign)
        timer.start()
        try:
            with pytest.raises(LockedError, match="process 4711"), stage_lock(tmp_path):
                pass
        finally:
            timer.join()


def test_an_engine_that_dies_ends_the_command_with_its_code(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    judge(run)
    behave(policy, fail_after=30)
    code, talk = finish(command("verify", run, "--k", "4"))
    assert code == 3 and "Traceback" not in talk
    assert "the scripted engine died" in talk
    assert Stage(run, "verify").manifest().state == "running"
