"""Which folders of a download are games, and how they are remembered."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs.alfworld import AlfworldEnvironment, environment, official
from prover_cli.envs.alfworld.official import TASK_TYPES
from prover_cli.errors import TaskMismatchError, UsageError
from tests.envs.test_alfworld_house import GOALS, tiny


def add(
    root: Path, folder: str, task_type: str = "pick_and_place_simple", game: Any = "tiny"
) -> Path:
    """A folder with a trajectory and, unless it is None, a game."""
    made = root / "json_2.1.1" / folder
    made.mkdir(parents=True)
    (made / "traj_data.json").write_text(json.dumps({"images": [], "task_type": task_type}))
    if game is not None:
        (made / "game.tw-pddl").write_text(json.dumps(tiny() if game == "tiny" else game))
    return made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A download in a folder whose own name must not matter."""
    root = tmp_path / "movable_Sliced"
    without_key = tiny()
    del without_key["solvable"]
    add(root, "train/pick_b/trial_2")
    add(root, "train/pick_b/trial_10")
    add(root, "train/pick_a/trial_1", "look_at_obj_in_light", tiny(GOALS["light"]))
    add(root, "train/pick_and_place_with_movable_recep/trial_1")
    add(root, "train/pick_AppleSliced/trial_1")
    add(root, "train/pick_c/trial_1", "pick_and_place_with_movable_recep")
    add(root, "train/pick_c/trial_2", game=None)
    add(root, "train/pick_c/trial_3", game=without_key)
    add(root, "train/pick_c/trial_4", game=tiny(solvable=False))
    add(root, "valid_seen/pick_a/trial_1")
    add(root, "valid_unseen/pick_a/trial_1")
    (root / "json_2.1.1/train/no_trajectory").mkdir()
    return root


def test_games_are_selected_in_the_order_of_paths(data: Path) -> None:
    panel = AlfworldEnvironment(data=str(data)).tasks("train")
    assert [task.payload["game"] for task in panel] == [
        "train/pick_a/trial_1/game.tw-pddl",
        "train/pick_b/trial_10/game.tw-pddl",
        "train/pick_b/trial_2/game.tw-pddl",
    ]
    assert [task.index for task in panel] == [0, 1, 2]
    assert {task.instruction for task in panel} == {"TASK."}


def test_what_is_left_out_is_counted_by_reason(data: Path) -> None:
    panel = AlfworldEnvironment(data=str(data)).tasks("train")
    assert panel.skipped == dict.fromkeys(
        ("movable", "sliced", "other task type", "no game file", "no solvable key", "unsolvable"), 1
    )
    assert panel.note is not None
    for fact in ("3 of 9 folders of train", "1 movable", "no solvable key in train/pick_c/trial_3"):
        assert fact in panel.note


def test_task_types_are_named_or_numbered(data: Path) -> None:
    def n(types: str) -> int:
        return len(AlfworldEnvironment(data=str(data), task_types=types).tasks("train"))

    assert (n("1"), n("2"), n("1,look_at_obj_in_light"), n("3, 4")) == (2, 1, 3, 0)
    with pytest.raises(UsageError, match="no ALFWorld task type '7'"):
        n("7")


@pytest.mark.parametrize("below", ["", "json_2.1.1"])
def test_the_data_folder_may_hold_or_be_the_download(data: Path, below: str) -> None:
    assert len(AlfworldEnvironment(data=str(data / below)).tasks("train")) == 3
    assert len(AlfworldEnvironment(data=str(data.parent)).tasks("train")) == 3


def test_a_folder_without_games_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no ALFWorld games"):
        AlfworldEnvironment(data=str(tmp_path))


def test_splits_have_official_names_too(data: Path) -> None:
    alfworld = AlfworldEnvironment(data=str(data))
    for ours, theirs in (("valid", "valid_seen"), ("test", "valid_unseen")):
        (one,), (other,) = alfworld.tasks(ours), alfworld.tasks(theirs)
        assert one.task_id == other.task_id
        assert one.payload["game"].startswith(theirs)
    everything = alfworld.tasks("all")
    assert [task.index for task in everything] == list(range(5))
    assert everything.skipped["movable"] == 1
    with pytest.raises(UsageError, match="valid_unseen"):
        alfworld.tasks("holiday")


def test_a_split_is_read_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = AlfworldEnvironment(data=str(data)).tasks("train")
    monkeypatch.setattr(official, "_read", lambda folder: pytest.fail(f"{folder} was read again"))
    again = AlfworldEnvironment(data=str(data)).tasks("train")
    assert again.panel_hash == first.panel_hash and again.note == first.note
    assert len(AlfworldEnvironment(data=str(data), task_types="1").tasks("train")) == 2


def test_a_changed_game_is_noticed_and_refused_for_old_tasks(data: Path) -> None:
    alfworld = AlfworldEnvironment(data=str(data))
    old = alfworld.tasks("train")
    path = data / "json_2.1.1" / old[1].payload["game"]
    path.write_text(json.dumps(tiny(GOALS["two"])))
    new = alfworld.tasks("train")
    assert new[1].task_id != old[1].task_id and new[0].task_id == old[0].task_id
    alfworld.start(new[1], 0)
    with pytest.raises(TaskMismatchError, match="has changed"):
        alfworld.start(old[1], 0)
    path.unlink()
    assert alfworld.tasks("train").skipped["no game file"] == 2
    with pytest.raises(TaskMismatchError, match="is gone"):
        alfworld.start(old[1], 0)


def test_games_that_become_solvable_are_found(data: Path) -> None:
    assert len(AlfworldEnvironment(data=str(data)).tasks("train")) == 3
    (data / "json_2.1.1/train/pick_c/trial_2/game.tw-pddl").write_text(json.dumps(tiny()))
    shutil.rmtree(data / "json_2.1.1/train/pick_a")
    panel = AlfworldEnvironment(data=str(data)).tasks("train")
    assert [task.payload["game"].split("/")[1] for task in panel] == ["pick_b", "pick_b", "pick_c"]


@pytest.mark.parametrize("damage", [b"", b"not gzip", b"\x1f\x8b cut off"])
def test_a_damaged_cache_is_made_anew(
    data: Path, damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVER_CACHE", str(tmp_path / "cache"))
    before = AlfworldEnvironment(data=str(data)).tasks("train")
    (stored,) = (tmp_path / "cache/alfworld").iterdir()
    whole = stored.read_bytes()
    stored.write_bytes(damage)
    assert AlfworldEnvironment(data=str(data)).tasks("train").panel_hash == before.panel_hash
    assert stored.read_bytes() == whole


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_cache_that_cannot_be_written_costs_only_time(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    monkeypatch.setenv("PROVER_CACHE", str(locked))
    assert len(AlfworldEnvironment(data=str(data)).tasks("train")) == 3


def test_a_file_that_is_no_game_is_named(data: Path) -> None:
    broken = add(data, "train/pick_z/trial_1", game="no game")
    with pytest.raises(UsageError, match=str(broken)):
        AlfworldEnvironment(data=str(data)).tasks("train")


def test_without_data_games_are_generated() -> None:
    made = AlfworldEnvironment(games=12, seed=5, task_types="2")
    panel = made.tasks("train")
    assert (len(panel), panel.skipped) == (2, {"other task type": 10})
    assert panel[0].payload["game"].startswith(f"train/{TASK_TYPES[1]}")
    assert len(made.tasks("test")) == environment.HELD_OUT_GAMES // len(TASK_TYPES)
    session = made.start(panel[0], 0)
    while not session.won:
        session = made.restore(panel[0], session.snapshot())
        assert session.step(made.expert(panel[0], session)).valid
    changed = replace(panel[0], payload={**panel[0].payload, "content": "0"})
    with pytest.raises(TaskMismatchError, match="no longer generated"):
        made.start(changed, 0)


def test_full_splits_are_compared_with_the_official_counts(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(official, "FOLDERS", {"train": 9})
    monkeypatch.setattr(official, "EXPECTED", {"train": 4, "valid_seen": 1, "valid_unseen": 1})
    types = (*TASK_TYPES, "pick_and_place_with_movable_recep")
    selection = official.select(data / "json_2.1.1", "train", types)
    assert len(selection.games) == 4 and "warning" not in selection.note
    monkeypatch.setattr(official, "EXPECTED", {"train": 5})
    selection = official.select(data / "json_2.1.1", "train", types)
    assert "warning: the official train has 5 games" in selection.note
