"""`prover rollout --engine openai` writes what the engine behind the servers would write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from prover_cli.engines.scripted import ScriptedEngine
from prover_cli.shards.run import Stage
from tests.cli.run import prover, succeed
from tests.engines.http_server import LocalServer
from tests.policies import scripted_policy

TOY = ("--env", "toy", "--tasks", "4", "--group-size", "4")
KEY = "sk-secret-of-mine"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "policy")


@pytest.fixture
def servers(policy: Path) -> Iterator[list[LocalServer]]:
    local = [LocalServer(ScriptedEngine(policy), policy) for _ in range(2)]
    yield local
    for server in local:
        server.close()


def table(run: Path, name: str) -> pl.DataFrame:
    frame = Stage(run, "rollout").read(name)
    return frame.drop("seconds", strict=False).sort(pl.all())


def test_a_rollout_with_servers_is_the_rollout_without(
    policy: Path, servers: list[LocalServer], tmp_path: Path
) -> None:
    at = [part for server in servers for part in ("--server", server.url)]
    common = (*TOY, "--policy", policy)
    servers[0].misbehave("busy", "half")  # too few to be put aside for
    succeed("rollout", *common, "--engine", "scripted", "--out", tmp_path / "here")
    remote = ("--engine", "openai", *at, "--out", tmp_path / "there")
    succeed("rollout", *common, *remote, PROVER_API_KEY=KEY)
    for name in ("tasks", "trajectories"):
        assert table(tmp_path / "here", name).equals(table(tmp_path / "there", name))
    here, there = (Stage(tmp_path / n, "rollout").read("turns") for n in ("here", "there"))
    assert here.sort("traj_id", "turn").equals(there.sort("traj_id", "turn"))
    assert all(server.work for server in servers)
    written = (tmp_path / "there").rglob("*")
    assert not any(KEY.encode() in file.read_bytes() for file in written if file.is_file())


def test_servers_that_are_gone_end_the_command_with_code_3(
    policy: Path, servers: list[LocalServer], tmp_path: Path
) -> None:
    servers[0].die()
    result = prover(
        *("rollout", *TOY, "--policy", policy, "--engine", "openai"),
        *("--server", servers[0].url, "--out", tmp_path / "run"),
    )
    assert result.returncode == 3
    assert "no server answers" in result.stderr and "Traceback" not in result.stderr


def test_a_server_of_another_policy_ends_the_command_with_code_2(
    servers: list[LocalServer], tmp_path: Path
) -> None:
    other = scripted_policy(tmp_path / "other", ["go"])
    result = prover(
        *("rollout", *TOY, "--policy", other, "--engine", "openai"),
        *("--server", servers[0].url, "--out", tmp_path / "run"),
    )
    assert result.returncode == 2
    assert "not known to be the policy" in result.stderr
    assert "vllm serve" in result.stderr


def test_a_rollout_that_a_server_stopped_goes_on_where_it_was(
    policy: Path, servers: list[LocalServer], tmp_path: Path
) -> None:
    common = (*TOY, "--policy", policy, "--engine", "openai", "--groups-per-shard", "1")
    at = ("--server", servers[0].url, "--concurrency", "1")
    n = 0

    def refuse_after_a_while() -> str | None:
        nonlocal n
        n += 1
        return "unauthorised" if n > 60 else None

    servers[0].next_fault = refuse_after_a_while  # type: ignore[method-assign]
    stopped = prover("rollout", *common, *at, "--out", tmp_path / "run")
    assert stopped.returncode == 2 and "refuses the key" in stopped.stderr
    finished = json.loads((tmp_path / "run" / "rollout" / "manifest.json").read_text())
    assert finished["state"] == "running" and len(finished["shards"]) > 0
    servers[0].next_fault = lambda: None  # type: ignore[method-assign]
    succeed("rollout", *common, *at, "--out", tmp_path / "run", "--resume")
    whole = ("--engine", "scripted", "--out", tmp_path / "whole", "--groups-per-shard", "1")
    succeed("rollout", *TOY, "--policy", policy, *whole)
    assert table(tmp_path / "run", "trajectories").equals(table(tmp_path / "whole", "trajectories"))
