"""`prover score` and `prover export` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.run import prover, succeed
from tests.policies import scripted_policy, tiny_model
from tests.stages.pipeline import rollout

DICE = "tests.stages.worlds:DiceVault"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("cli")
    model = tiny_model(home / "model", max_len=1024)
    settings = {"tasks": 2, "group_size": 4, "max_turns": 6}
    rollout(home / "run", model, env=DICE, engine="torch", **settings)
    return home / "run"


def test_a_run_is_scored_credited_and_exported(run: Path, tmp_path: Path) -> None:
    facts = json.loads(succeed("score", run, "--json", "--device", "cpu"))
    assert facts["turns"] > 0 and facts["logprob_gap"] < 1e-5
    again = prover("score", run, "--resume")
    assert again.returncode == 0 and "already complete: nothing to do" in again.stderr
    succeed("advantage", run, "--estimator", "gaca,sharpo")
    out = tmp_path / "out.jsonl"
    options = ("--estimator", "sharpo", "--to", "jsonl", "--out", out)
    assert json.loads(succeed("export", run, *options, "--json"))["sequences"] == 8
    assert {json.loads(line)["estimator"] for line in out.read_text().splitlines()} == {"sharpo"}
    refused = prover("export", run, *options)
    assert refused.returncode == 2 and "exists already" in refused.stderr
    assert "0 faults in rollout, score, advantage" in prover("validate", run).stderr


def test_a_policy_without_weights_cannot_score(tmp_path: Path) -> None:
    rollout(tmp_path / "run", scripted_policy(tmp_path / "policy"), tasks=1)
    refused = prover("score", tmp_path / "run")
    assert refused.returncode == 2
    assert "cannot be loaded as a causal LM" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_unknown_precision_is_refused_and_costs_nothing(run: Path) -> None:
    refused = prover("score", run, "--dtype", "float8", "--overwrite")
    assert (run / "score" / "manifest.json").is_file()
    assert refused.returncode == 2 and "--dtype is float32, bfloat16, float16" in refused.stderr
