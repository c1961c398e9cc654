"""A state is re-entered exactly, or reported as diverged; its future is never the recorded one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from prover_cli.errors import TaskMismatchError
from prover_cli.ids import text_hash
from prover_cli.shards.run import Run, Stage
from prover_cli.stages.replay import Diverged, State, reenter
from prover_cli.stages.states import recorded_tasks
from prover_cli.stages.world import reopen
from tests.stages.pipeline import Rows, credit, judge, rewrite, rollout, table, verify


def again(
    run: Path, policy: Path, turns: Sequence[dict[str, Any]], boundaries: set[int]
) -> dict[int, State | Diverged]:
    """Re-enter a recorded trajectory with the given rows."""
    stage = Run(run).stage("rollout")
    config, world, _ = reopen(stage.manifest())
    tasks = recorded_tasks(stage.read("tasks"), world.environment.tasks("train"))
    rows = {row["traj_id"]: row for row in stage.read("trajectories").to_dicts()}
    row = rows[turns[0]["traj_id"]]
    return reenter(
        world.environment,
        world.agent(policy, config.sampling),
        tasks[row["task_id"]],
        row["env_seed"],
        turns,
        boundaries,
        world.max_turns,
    )


def longest(run: Path) -> Rows:
    parts = table(run, "turns").partition_by("traj_id", maintain_order=True)
    return max((part.sort("turn").to_dicts() for part in parts), key=len)


@pytest.mark.parametrize("history", ["full", "2"])
def test_every_recorded_state_is_entered_again(tmp_path: Path, policy: Path, history: str) -> None:
    rollout(tmp_path / "run", policy, {"rooms": 3, "slip": 0.4}, history=history)
    turns = longest(tmp_path / "run")
    states = again(tmp_path / "run", policy, turns, set(range(len(turns))))
    assert sorted(states) == list(range(len(turns)))
    stage = Run(tmp_path / "run").stage("rollout")
    _, world, _ = reopen(stage.manifest())
    (task,) = recorded_tasks(
        stage.read("tasks").filter(task_id=task_of(tmp_path / "run", turns)),
        world.environment.tasks("train"),
    ).values()
    for turn in turns:
        state = states[turn["turn"]]
        assert isinstance(state, State)
        start = state.begin(world.environment, task, seed=1)
        assert start.first_turn == turn["turn"]
        seen = start.session.observe()
        assert (seen.text, seen.state_key) == (turn["observation"], turn["state_key"])


def task_of(run: Path, turns: Rows) -> str:
    rows = table(run, "trajectories").filter(traj_id=turns[0]["traj_id"])
    return str(rows["task_id"].item())


def test_a_continuation_has_a_future_of_its_own(tmp_path: Path, policy: Path) -> None:
    """The environment alone: the same actions from the same state, under 32 seeds."""
    run = tmp_path / "run"
    rollout(run, policy, {"rooms": 12, "slip": 0.5})
    turns = longest(run)
    state = again(run, policy, turns, {0})[0]
    assert isinstance(state, State)
    stage = Run(run).stage("rollout")
    _, world, _ = reopen(stage.manifest())
    tasks = {t.task_id: t for t in world.environment.tasks("train")}
    task = tasks[task_of(run, turns)]

    def future(seed: int) -> tuple[str, ...]:
        session = state.begin(world.environment, task, seed).session
        return tuple(session.step("go").observation.text for _ in range(10))

    futures = [future(seed) for seed in range(32)]
    assert len(set(futures)) > 16
    assert futures[:8] == [future(seed) for seed in range(8)]


def test_no_continuation_shares_a_seed_with_the_recording(verified: Path) -> None:
    recorded, rows = table(verified, "trajectories"), table(verified, "continuations")
    assert rows["env_seed"].n_unique() == rows["sampler_seed"].n_unique() == rows.height > 0
    for name in ("env_seed", "sampler_seed"):
        assert not set(rows[name]) & set(recorded[name])
    different = rows.group_by("state_id").agg(pl.col("n_action_tokens").n_unique())
    assert (different["n_action_tokens"] > 1).all()


@pytest.mark.parametrize(
    ("column", "value"),
    [("observation_hash", text_hash("another page")), ("prompt_ids", [1, 2, 3]), ("done", True)],
)
def test_a_recording_that_is_not_reproduced_diverges(
    tmp_path: Path, policy: Path, column: str, value: object
) -> None:
    rollout(tmp_path / "run", policy, {"rooms": 3})
    turns = longest(tmp_path / "run")
    turns[2][column] = value
    states = again(tmp_path / "run", policy, turns, {1, 2, 3})
    assert isinstance(states[1], State)
    assert states[3] == Diverged(2)
    if column != "done":
        assert states[2] == Diverged(2)


def test_another_action_than_the_recorded_one_diverges(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy)
    turns = longest(tmp_path / "run")
    held = [turn for turn in turns if "hold: nothing" in turn["observation"]]
    boundary = len(held)
    assert 0 < boundary < len(turns)
    turns[boundary - 1]["action"] = "think"
    states = again(tmp_path / "run", policy, turns, {boundary})
    assert states == {boundary: Diverged(boundary)}


def test_another_first_page_is_another_task(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy)
    turns = longest(tmp_path / "run")
    turns[0]["observation_hash"] = text_hash("another page")
    with pytest.raises(TaskMismatchError, match="starts differently now"):
        again(tmp_path / "run", policy, turns, {1})


def test_a_diverged_side_gives_no_estimate_and_is_counted(tmp_path: Path, policy: Path) -> None:
    clean, run = tmp_path / "clean", tmp_path / "run"
    for path in (clean, run):
        rollout(path, policy)
    judge(clean)
    verify(clean)
    good = table(clean, "estimates").filter(status="ok")
    assert good.height >= 2
    broken = good.row(0, named=True)

    def corrupt(rows: Rows) -> Rows:
        text = "another page"
        change = {"observation": text, "observation_hash": text_hash(text)}
        place = (broken["traj_id"], broken["end_turn"])
        return [r | change if (r["traj_id"], r["turn"]) == place else r for r in rows]

    rewrite(Stage(run, "rollout"), "turns", corrupt)
    judge(run)
    summary = verify(run)
    estimates = {row["proposal_id"]: row for row in table(run, "estimates").to_dicts()}
    bad = estimates.pop(broken["proposal_id"])
    assert bad["status"] == "diverged" and bad["gain"] is None and bad["value_after"] is None
    assert all(row in good.to_dicts() for row in estimates.values() if row["status"] == "ok")
    assert summary.facts["diverged"] == 1 and summary.facts["verified"] == good.height - 1
    assert any("1 states could not be re-entered" in text for text in summary.warnings)
    row = table(run, "continuations").filter(stop_reason="diverged").row(0, named=True)
    assert (row["replay_ok"], row["diverged_turn"]) == (False, broken["end_turn"])
    assert row["reward"] is None and row["success"] is None
    credit(run)
    credited = table(run, "advantages").filter(reason="segment_without_estimate")
    assert set(credited["traj_id"]) == {broken["traj_id"]} and credited["local"].is_null().all()


_RECORD = """
import sys
from pathlib import Path
from tests.stages.pipeline import judge, rollout
home, policy = map(Path, sys.argv[1:])
for name, options in {"task": {}, "page": {"drift": "page"}, "seeded": {"seed": 5}}.items():
    env = "tests.stages.worlds:DriftingVault"
    rollout(home / name, policy, options, env=env, tasks=10)
    judge(home / name)
"""
_VERIFY = """
import json, sys
from pathlib import Path
from prover_cli.errors import ProverError
from tests.stages.pipeline import verify
found = {}
for name in ("task", "page", "seeded"):
    try:
        found[name] = verify(Path(sys.argv[1]) / name).facts["verified"]
    except ProverError as error:
        found[name] = f"{type(error).__name__}: {error.message}"
print(json.dumps(found))
"""


def test_tasks_that_drift_between_processes_are_refused(tmp_path: Path, policy: Path) -> None:
    arguments = [str(tmp_path), str(policy)]
    subprocess.run([sys.executable, "-c", _RECORD, *arguments], check=True)
    output = subprocess.run(
        [sys.executable, "-c", _VERIFY, *arguments], check=True, capture_output=True, text=True
    ).stdout
    found = json.loads(output)
    assert found["task"].startswith("TaskMismatchError: the environment offers no task")
    assert found["page"].startswith("TaskMismatchError: task ")
    assert "starts differently now" in found["page"]
    assert found["seeded"] > 0
