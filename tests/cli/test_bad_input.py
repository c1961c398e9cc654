"""Bad input gives one clear message, the right exit code, and loses nothing."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.run import environment, prover, succeed
from tests.policies import behave, scripted_policy

TOY = ("--env", "toy", "--engine", "scripted", "--tasks", "4", "--groups-per-shard", "1")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "policy")


@pytest.fixture
def run(tmp_path: Path, policy: Path) -> Path:
    folder = tmp_path / "shards"
    succeed("rollout", *TOY, "--policy", policy, "--out", folder)
    return folder


def refused(code: int, *arguments: str | Path, **variables: str) -> str:
    """The message of a command that must fail with `code`, without a traceback."""
    result = prover(*arguments, **variables)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize("verb", ["judge", "verify", "advantage", "update", "status", "stats"])
def test_a_run_directory_that_does_not_exist_is_named(tmp_path: Path, verb: str) -> None:
    message = refused(2, verb, tmp_path / "nowhere")
    assert "nowhere" in message and "prover rollout" in message


@pytest.mark.parametrize("verb", ["judge", "verify", "advantage", "update"])
def test_an_empty_directory_says_which_stage_is_missing(tmp_path: Path, verb: str) -> None:
    message = refused(2, verb, tmp_path)
    assert "rollout" in message and "was not run" in message


def test_the_stage_that_is_missing_is_named(run: Path) -> None:
    assert "prover judge" in refused(2, "verify", run)
    assert "prover verify" in refused(2, "advantage", run)
    assert "prover advantage" in refused(2, "update", run)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rollout", "--env", "mars"), ("mars", "toy", "webshop")),
        (("rollout", "--env", "no.such.module:Env"), ("no.such.module",)),
        (("rollout", "--env", "toy"), ("no starting policy", "--policy")),
        (("rollout", "--engine", "warp"), ("warp", "torch")),
        (("rollout", "--prompt", "haiku"), ("haiku", "compact")),
        (("rollout", "--split", "dev"), ("dev", "train")),
        (("rollout", "--tasks", "999999"), ("999999", "train")),
        (("rollout", "--env-option", "colour=red"), ("colour", "price_seed")),
        (("rollout", "--env-option", "colour"), ("key=value", "colour")),
        (("rollout", "--history", "some"), ("some", "full")),
        (("rollout", "--shard", "3/2"), ("3/2",)),
        (("rollout", "--policy", "nowhere"), ("nowhere", "config.json")),
        (("rollout", "--resume", "--overwrite"), ("exclude",)),
        (("rollout", "--group-size", "0"), ("group-size",)),
        (("rollout", "--config", "nowhere.toml"), ("nowhere.toml",)),
        (("rollout", "--data", "nowhere"), ("nowhere", "items_shuffle")),
        (("policy", "init", "--env", "mars", "--out", "x"), ("mars", "webshop")),
    ],
)
def test_a_value_that_cannot_be_used_is_answered_with_those_that_can(
    tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    extra = ("--out", str(tmp_path / "out")) if "--out" not in arguments else ()
    message = refused(2, *arguments, *extra)
    assert all(word in message for word in words), message


def test_names_of_judges_stages_estimators_and_knobs_are_checked(run: Path) -> None:
    assert "contrast" in refused(2, "judge", run, "--judge", "oracle")
    assert "there is no stage" in refused(2, "verify", run, "--from", "opinion")
    assert "grpo" in refused(2, "advantage", run, "--estimator", "magic")
    assert "no knob" in refused(2, "advantage", run, "--estimator", "grpo", "--knob", "magic=1")


def test_a_damaged_shard_is_named(run: Path) -> None:
    victim = run / "rollout" / "turns-00002.parquet"
    victim.write_bytes(victim.read_bytes()[:-20])
    assert "turns-00002.parquet" in refused(2, "judge", run)
    assert "turns-00002.parquet" in " ".join(prover("validate", run).stdout.split())
    succeed("rollout", *TOY, "--policy", run.parent / "policy", "--out", run, "--resume")
    succeed("judge", run, "--overwrite")


def test_a_missing_shard_is_named(run: Path) -> None:
    (run / "rollout" / "trajectories-00001.parquet").unlink()
    assert "trajectories-00001.parquet" in refused(2, "judge", run)


def test_a_run_of_another_schema_version_is_refused(run: Path) -> None:
    manifest = run / "rollout" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["schema_version"] = 99
    manifest.write_text(json.dumps(content))
    message = refused(2, "judge", run)
    assert "99" in message and "schema" in message


def test_a_policy_that_changed_under_its_name_is_refused(run: Path, policy: Path) -> None:
    succeed("judge", run)
    scripted_policy(policy, ["go", "open"])
    assert "not the policy that made these shards" in refused(2, "verify", run)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, policy: Path) -> None:
    (tmp_path / "file").write_text("I am no folder")
    message = refused(2, "rollout", *TOY, "--policy", policy, "--out", tmp_path / "file" / "shards")
    assert "file" in message


def test_a_full_disk_is_one_message_and_finished_shards_stay(tmp_path: Path, policy: Path) -> None:
    out = tmp_path / "shards"
    whole = tmp_path / "whole"
    succeed("rollout", *TOY, "--policy", policy, "--out", whole)
    sizes = sorted(path.stat().st_size for path in (whole / "rollout").glob("turns-*.parquet"))

    def small_files() -> None:
        # Writing beyond the limit fails as on a full disk.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (sizes[-1] - 1, sizes[-1] - 1))

    command = ["rollout", *TOY, "--policy", str(policy), "--out", str(out)]
    failed = subprocess.run(
        [sys.executable, "-m", "prover_cli", *command],
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=small_files,
    )
    assert failed.returncode == 2 and "Traceback" not in failed.stderr, failed.stderr
    assert "cannot write" in failed.stderr
    assert not list(out.rglob("*.tmp*"))
    succeed(*command, "--resume")
    assert "0 faults" in prover("validate", out).stderr


def test_ctrl_c_keeps_finished_shards_and_says_so(tmp_path: Path, policy: Path) -> None:
    out = tmp_path / "shards"
    behave(policy, delay_ms=40)
    command = ["rollout", *TOY, "--policy", str(policy), "--out", str(out), "--concurrency", "8"]
    process = subprocess.Popen(
        [sys.executable, "-m", "prover_cli", *command],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(out.glob("rollout/turns-*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 130, talk
    assert "interrupted" in talk and "Traceback" not in talk
    assert list(out.glob("rollout/turns-*.parquet"))
    behave(policy)
    succeed(*command, "--resume")


def test_a_group_without_contrast_and_a_run_without_eligible_groups_say_so(
    tmp_path: Path,
) -> None:
    hopeless = scripted_policy(tmp_path / "hopeless", ["open"])
    out = tmp_path / "shards"
    succeed("rollout", *TOY, "--policy", hopeless, "--out", out)
    judged = prover("judge", out)
    assert judged.returncode == 0 and "no group has a proposal" in judged.stderr
    verified = prover("verify", out)
    assert verified.returncode == 4 and "nothing to verify" in verified.stderr
    credited = prover("advantage", out)
    assert credited.returncode == 0 and "nothing to learn from" in credited.stderr
    updated = prover("update", out)
    assert updated.returncode == 4 and "nothing to learn from" in updated.stderr


def test_a_dead_engine_exits_3_and_the_rest_can_be_resumed(tmp_path: Path, policy: Path) -> None:
    behave(policy, fail_after=150)
    out = tmp_path / "shards"
    command = ("rollout", *TOY, "--policy", policy, "--out", out, "--concurrency", "8")
    assert "died" in refused(3, *command)
    assert list(out.glob("rollout/turns-*.parquet"))
    behave(policy)
    succeed(*command, "--resume")
    assert "0 faults" in prover("validate", out).stderr


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    result = prover("--debug", "judge", tmp_path / "nowhere")
    assert "Traceback" in result.stderr
