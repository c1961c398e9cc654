"""`--check-replay`: what is reproduced is certified, what is not is quarantined."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prover_cli.config import RolloutConfig
from prover_cli.errors import UsageError
from prover_cli.ids import text_hash
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.stages import rollout as rollout_stage
from prover_cli.stages.verify_quarantine import CERTIFICATE, quarantined, read_quarantine
from prover_cli.stages.verify_replay import check_replay
from prover_cli.stages.world import open_world
from tests.policies import behave
from tests.stages.pipeline import (
    Listener,
    Rows,
    judge,
    rewrite,
    rollout,
    rollout_config,
    table,
    verify,
)


@pytest.fixture
def recorded(tmp_path: Path, policy: Path) -> Path:
    rollout(tmp_path / "run", policy, {"slip": 0.3, "rooms": 3})
    return tmp_path / "run"


def certificate(run: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run / CERTIFICATE).read_text())
    return loaded


def longest(run: Path) -> dict[str, Any]:
    rows = table(run, "trajectories").sort("n_turns", "traj_id", descending=True)
    return rows.row(0, named=True)


def test_every_trajectory_is_reproduced_without_an_engine(recorded: Path, policy: Path) -> None:
    behave(policy, fail_after=0)
    summary = check_replay(recorded, Listener())
    found = certificate(recorded)
    assert found["replay_rate"] == 1.0 and found["trajectories"] == found["reproduced"] == 32
    assert found["turns"] == table(recorded, "turns").height
    assert found["environment"] == "toy" and found["quarantine"] == []
    assert len(found["tasks"]) == 4
    assert all(task["replay_rate"] == 1.0 for task in found["tasks"].values())
    assert summary.exit_code == 0 and not summary.warnings and "100.0%" in summary.lines[0]
    assert read_quarantine(Run(recorded), None) == frozenset()


@pytest.mark.parametrize(
    ("column", "value", "turn", "what"),
    [
        ("observation_hash", text_hash("another page"), 2, "observation"),
        ("observation_hash", text_hash("another page"), 0, "observation"),
        ("state_key", "another", 2, "state"),
        ("prompt_ids", [1, 2, 3], 2, "prompt"),
        ("done", True, 2, "end"),
        ("reward", 0.5, 2, "reward"),
        ("reward", 0.5, -1, "reward"),
    ],
)
def test_whatever_differs_is_named_and_its_task_quarantined(
    recorded: Path, column: str, value: object, turn: int, what: str
) -> None:
    victim = longest(recorded)
    place = (victim["traj_id"], turn if turn >= 0 else victim["n_turns"] - 1)

    def corrupt(rows: Rows) -> Rows:
        return [
            row | {column: value} if (row["traj_id"], row["turn"]) == place else row for row in rows
        ]

    rewrite(Stage(recorded, "rollout"), "turns", corrupt)
    summary = check_replay(recorded, Listener())
    found = certificate(recorded)
    assert found["quarantine"] == [victim["task_id"]]
    assert found["reproduced"] == 31 and found["differences"] == {what: 1}
    task = found["tasks"][victim["task_id"]]
    first = {"traj_id": place[0], "turn": place[1], "what": what}
    assert task["first_difference"] == first and task["replay_rate"] == 7 / 8
    assert "1 of 4 tasks are not reproduced" in summary.warnings[0]


def test_quarantined_tasks_are_left_out_with_a_status(recorded: Path) -> None:
    judge(recorded)
    verify(recorded, variant="whole")
    whole = table(recorded, "estimates", "verify@whole").filter(status="ok")
    task_of = dict(table(recorded, "trajectories").select("group_id", "task_id").iter_rows())
    bad = task_of[whole["group_id"][0]]
    file = recorded.parent / "bad.json"
    file.write_text(json.dumps({"quarantine": [bad]}))
    summary = verify(recorded, quarantine=str(file))
    made = table(recorded, "estimates")
    left = made.filter(status="quarantined")
    assert left.height == 1 == summary.facts["skipped_groups"]
    assert task_of[left["group_id"].item()] == bad and left["gain"].is_null().all()
    kept = made.filter(status="ok")
    assert kept.equals(whole.filter(whole["group_id"].is_in(kept["group_id"].to_list())))
    assert kept.height == whole.height - 1
    assert Stage(recorded, "verify").manifest().facts["identity"]["quarantined"] == [bad]


def test_a_rollout_passes_quarantined_tasks_over(tmp_path: Path, policy: Path) -> None:
    config = rollout_config(policy, {"rooms": 3}, tasks=4)
    plain = drawn(config, tmp_path / "plain")
    file = tmp_path / "bad.json"
    bad = set(sorted(plain)[:2])
    file.write_text(json.dumps({"quarantine": sorted(bad)}))
    without = drawn(replace(config, quarantine=str(file)), tmp_path / "without")
    assert len(without) == 4 and without & plain == plain - bad
    offered = [t.task_id for t in open_world(config.env).environment.tasks("train")]
    file.write_text(json.dumps({"quarantine": offered[:-1]}))
    with pytest.raises(UsageError, match=r"leaves 1 tasks of train, and 4 are wanted"):
        drawn(replace(config, quarantine=str(file)), tmp_path / "none")


def drawn(config: RolloutConfig, run: Path) -> set[str]:
    """The tasks of a rollout."""
    rollout_stage.run(config, run, Mode.REFUSE, Listener())
    return set(table(run, "tasks")["task_id"])


def test_the_runs_own_certificate_is_honoured_for_its_own_rollout(recorded: Path) -> None:
    tasks = sorted(set(table(recorded, "trajectories")["task_id"]))
    check_replay(recorded, Listener())
    found = certificate(recorded) | {"quarantine": tasks[:1]}
    (recorded / CERTIFICATE).write_text(json.dumps(found))
    assert read_quarantine(Run(recorded), None) == frozenset(tasks[:1])
    (recorded / CERTIFICATE).write_text(json.dumps(found | {"rollout": "another"}))
    assert read_quarantine(Run(recorded), None) == frozenset()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"quarantine": [1]}'])
def test_a_file_that_is_no_quarantine_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.json").write_text(text)
    with pytest.raises(UsageError, match=r"q\.json"):
        quarantined(tmp_path / "q.json")
