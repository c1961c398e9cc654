"""The main job: one whole iteration from the shipped policy, and the scripts that chain it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from prover_cli.ids import policy_id
from prover_cli.policies.shipped import shipped_policy
from prover_cli.shards.run import Stage
from tests.cli.run import ROOT, environment, prover, succeed

SMALL = ("--config", ROOT / "pipelines" / "small.toml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty directory with one iteration made by the commands of the README."""
    folder = tmp_path_factory.mktemp("loop")
    first = prover("rollout", "--env", "webshop", cwd=folder)
    assert first.returncode == 0 and "small starting policy" in first.stderr, first.stderr
    succeed("judge", "shards/", cwd=folder)
    succeed("verify", "--k", "8", cwd=folder)
    succeed("advantage", "--estimator", "grpo,prover", cwd=folder)
    succeed("update", "--estimator", "prover", "--lr", "2e-4", cwd=folder)
    return folder


def test_the_shipped_policy_gives_groups_with_mixed_outcomes(folder: Path) -> None:
    facts = json.loads(succeed("stats", "--json", cwd=folder))["rollout"]
    assert 0.15 < facts["success_rate"] < 0.6
    assert facts["mixed_groups"] >= 8
    assert facts["void"] == 0 and facts["truncated_share"] < 0.2


def test_segments_are_proposed_verified_and_credited(folder: Path) -> None:
    run = folder / "shards"
    proposals = Stage(run, "judge").read("proposals")
    estimates = Stage(run, "verify").read("estimates")
    advantages = Stage(run, "advantage").read("advantages")
    assert (proposals["status"] == "ok").sum() >= 2
    gains = dict(estimates.drop_nulls("gain").select("traj_id", "gain").iter_rows())
    assert gains
    credited = advantages.drop_nulls("local")
    assert set(credited["estimator"]) <= {"prover"}
    for row in credited.iter_rows(named=True):
        assert row["local"] == pytest.approx(gains[row["traj_id"]]) and row["local"] > 0
        assert row["advantage"] == pytest.approx(row["base"] + row["local"])


def test_the_update_changed_the_policy_and_nothing_else(folder: Path) -> None:
    run = folder / "shards"
    new, old = run / "update" / "policy", shipped_policy("webshop")
    assert policy_id(new) != policy_id(old)
    assert (new / "tokenizer.json").read_bytes() == (old / "tokenizer.json").read_bytes()
    (line,) = (run / "update" / "metrics.jsonl").read_text().splitlines()
    metrics = json.loads(line)
    assert metrics["params_changed_fraction"] > 0.99
    assert metrics["clip_fraction"] == 0.0
    # The checkpoint is sampled and trained in float32 here, so both see the same distribution.
    assert metrics["logprob_gap"] < 1e-4


def test_the_new_policy_is_evaluated_beside_the_old_one(folder: Path) -> None:
    panel = ("--split", "valid", "--tasks", "8", "--samples", "2")
    start = str(shipped_policy("webshop"))
    succeed("evaluate", "--policy", start, "--as", "before", *panel, cwd=folder)
    facts = json.loads(succeed("evaluate", "--baseline", "before", *panel, "--json", cwd=folder))
    assert facts["paired"]["tasks"] == 8
    assert facts["policy_id"] == policy_id(folder / "shards" / "update" / "policy")


def test_status_validate_show_and_stats_agree_that_all_is_well(folder: Path) -> None:
    stages = json.loads(succeed("status", "--json", cwd=folder))
    assert {stage["state"] for stage in stages} == {"complete"}
    assert "0 faults" in prover("validate", cwd=folder).stderr
    group = json.loads(succeed("show", "--json", cwd=folder))[0]["group_id"]
    assert group in succeed("show", "shards", group, cwd=folder)
    assert "prover" in succeed("stats", cwd=folder)


def test_iterate_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    settings = tmp_path / "tiny.toml"
    settings.write_text(
        "[rollout]\ntasks = 3\n[update]\nlr = 2e-4\n"
        "[evaluate]\nsplit = 'valid'\ntasks = 4\nsamples = 2\n"
    )
    out = tmp_path / "demo"
    script = ROOT / "pipelines" / "iterate.sh"
    options = ["--env", "webshop", "--out", out, "--config", settings]

    command = ["bash", script, *options, "--iterations", "2"]
    first = subprocess.Popen(
        command, env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
    )
    while not (out / "iteration-001" / "rollout").is_dir():
        assert first.poll() is None
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    kept = policy_id(out / "iteration-000" / "update" / "policy")

    second = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert second.stderr.count("already complete") == 5
    assert policy_id(out / "iteration-000" / "update" / "policy") == kept
    assert "optimizer state carried over" in second.stderr
    assert "difference" in second.stderr
