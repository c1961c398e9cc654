"""Flags beat environment variables, which beat the file, which beats defaults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.run import prover, succeed
from tests.policies import scripted_policy


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "policy")


def resolved(policy: Path, *arguments: str | Path, **variables: str) -> dict[str, object]:
    base = ("rollout", "--env", "toy", "--policy", policy, "--dry-run")
    result: dict[str, object] = json.loads(succeed(*base, *arguments, **variables))
    return result


def test_precedence(tmp_path: Path, policy: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("seed = 1\n[rollout]\ntasks = 3\ngroup-size = 5\n[update]\nlr = 0.1\n")
    # 16 by default, or as many as the split has.
    assert resolved(policy)["tasks"] == 12
    from_file = resolved(policy, "--config", file)
    assert (from_file["seed"], from_file["tasks"], from_file["group_size"]) == (1, 3, 5)
    variables = {"PROVER_TASKS": "4", "PROVER_SEED": "2"}
    from_env = resolved(policy, "--config", file, **variables)
    assert (from_env["seed"], from_env["tasks"], from_env["group_size"]) == (2, 4, 5)
    flagged = resolved(policy, "--config", file, "--tasks", "6", **variables)
    assert (flagged["seed"], flagged["tasks"]) == (2, 6)
    assert resolved(policy, PROVER_CONFIG=str(file))["tasks"] == 3


def test_a_dry_run_prints_everything_resolved_and_writes_nothing(
    tmp_path: Path, policy: Path
) -> None:
    out = tmp_path / "shards"
    config = resolved(policy, "--out", out)
    assert config["env"] == {
        "name": "toy",
        "options": {},
        "prompt": "plain",
        "history": "full",
        "max_turns": 8,
        "thinking": "keep",
    }
    assert config["sampling"] == {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_tokens": 12}
    assert not out.exists()


def test_the_resolved_configuration_is_in_the_manifest(tmp_path: Path, policy: Path) -> None:
    out = tmp_path / "shards"
    arguments = ("--env", "toy", "--engine", "scripted", "--tasks", "2", "--policy", policy)
    succeed("rollout", *arguments, "--out", out)
    recorded = json.loads((out / "rollout" / "manifest.json").read_text())["config"]
    printed = resolved(policy, "--engine", "scripted", "--tasks", "2")
    assert recorded == printed


def test_an_unknown_key_of_a_commands_table_is_refused(tmp_path: Path, policy: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[rollout]\ntask = 3\n")
    result = prover("rollout", "--env", "toy", "--policy", policy, "--config", file)
    assert result.returncode == 2 and "no option task" in " ".join(result.stderr.split())


def test_stdout_is_data_and_stderr_is_talk(tmp_path: Path, policy: Path) -> None:
    out = tmp_path / "shards"
    arguments = ("--env", "toy", "--engine", "scripted", "--tasks", "2", "--policy", policy)
    plain = prover("rollout", *arguments, "--out", out)
    assert plain.stdout == f"{out}\n" and "success" in plain.stderr
    again = prover("rollout", *arguments, "--out", out, "--resume", "--json")
    assert json.loads(again.stdout)["trajectories"] == 16
    assert "already complete" in again.stderr
    for verb in ("status", "validate", "stats", "show"):
        json.loads(succeed(verb, out, "--json"))
