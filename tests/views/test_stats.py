"""`prover stats` gives the numbers of the stages that are there, and of no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from prover_cli import console
from prover_cli.commands import stats, validate
from tests.views.runs import proposal_rows, rollout_rows, whole_run, write_stage


def call(*arguments: object) -> str:
    app = typer.Typer()
    for command in (stats, validate):
        app.command(command.NAME)(console.guard(command.command))
    texts = [str(argument) for argument in arguments]
    result = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["stats", *texts])
    assert result.exit_code == 0, result.output
    return result.stdout


def facts(run: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(call(run, "--json"))
    return loaded


def test_each_stage_has_its_numbers(tmp_path: Path) -> None:
    found = facts(whole_run(tmp_path))
    assert list(found) == ["rollout", "judge", "verify", "advantage"]
    rollout = found["rollout"]
    assert (rollout["trajectories"], rollout["void"], rollout["groups"]) == (8, 2, 2)
    assert rollout["success_rate"] == rollout["mean_reward"] == 1 / 3
    assert rollout["mixed_share"] == 1.0
    assert rollout["successes_per_group"] == {"1": 2}
    assert rollout["stop_reasons"] == {"done": 6, "void": 2}
    judge = found["judge"]
    assert judge["status"] == {"no_contrast": 1, "ok": 1}
    assert (judge["proposals"], judge["mean_segment_turns"]) == (1, 2.0)
    verify = found["verify"]
    assert (verify["verified"], verify["positive_rate"], verify["mean_gain"]) == (1, 1.0, 0.5)
    assert 0 < verify["null_rate"] < 0.5
    assert verify["share_of_rollout_tokens"] == 0.25
    assert found["advantage"]["estimators"]["prover"]["local"] == 2


def test_variants_and_evaluations_stand_beside_each_other(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    write_stage(run, "judge@random", [proposal_rows("abc1"), proposal_rows("abd2")])
    for name in ("evaluate", "evaluate@base"):
        write_stage(run, name, [rollout_rows("abc1")])
    found = facts(run)
    assert found["judge@random"]["status"] == {"ok": 2}
    assert found["evaluate@base"]["success_rate"] == 1 / 3
    out = call(run)
    assert "random" in out and "base" in out and "33.3%" in out


def test_unknown_numbers_are_null_and_not_zero(tmp_path: Path) -> None:
    write_stage(tmp_path, "rollout", [])
    write_stage(tmp_path, "judge", [{"proposals": []}])
    write_stage(tmp_path, "verify", [{"continuations": [], "values": [], "estimates": []}])
    write_stage(tmp_path, "update", [])
    write_stage(tmp_path, "evaluate", [])
    found = facts(tmp_path)
    assert found["rollout"]["success_rate"] is None and found["rollout"]["mixed_share"] is None
    assert found["judge"]["mean_segment_turns"] is None
    for key in ("positive_rate", "null_rate", "mean_gain", "share_of_rollout_tokens"):
        assert found["verify"][key] is None
    assert found["update"]["last_step"] is None
    assert "n/a" in call(tmp_path)


def test_a_folder_without_stages_prints_no_data(tmp_path: Path) -> None:
    assert call(tmp_path) == ""
    assert facts(tmp_path) == {}
