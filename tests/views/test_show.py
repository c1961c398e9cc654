"""`prover show` says what the shards say, and nothing in them can act on the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from prover_cli import console
from prover_cli.commands import show, validate
from prover_cli.views.group import fitting
from tests.views.runs import (
    HOSTILE,
    proposal_rows,
    rollout_rows,
    verify_rows,
    whole_run,
    write_stage,
)


def call(*arguments: object, width: int = 200) -> Result:
    app = typer.Typer()
    for command in (show, validate):
        app.command(command.NAME)(console.guard(command.command))
    texts = [str(argument) for argument in arguments]
    return CliRunner(env={"COLUMNS": str(width)}).invoke(app, ["show", *texts])


def shown(*arguments: object, width: int = 200) -> str:
    result = call(*arguments, width=width)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def facts(*arguments: object) -> Any:
    return json.loads(shown(*arguments, "--json"))


def without_space(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("what", ["abc1", "abc1.1"])
def test_every_visible_character_is_printed_and_no_escape_passes(tmp_path: Path, what: str) -> None:
    out = shown(whole_run(tmp_path), what)
    for text in HOSTILE:
        visible = text.replace("\x1b", "␛").replace("\x07", "␇")
        assert visible in out
    assert "Buy [/INST] a ␛[2Jred shirt." in out
    assert not [c for c in out if ord(c) < 0x20 and c != "\n"]


def test_nothing_is_lost_on_a_narrow_terminal(tmp_path: Path) -> None:
    out = shown(whole_run(tmp_path), "abc1", width=40)
    assert max(len(line) for line in out.splitlines()) <= 40
    assert "[bold]nomarkup[/bold]" in without_space(out)
    left_out = "left out for lack of room: 3 of 4 trajectories (#0, #2, #3)"
    assert left_out in " ".join(out.split())
    assert "#1 success" in out and "#0 failure" not in out


def test_all_trajectories_that_fit_are_shown_with_the_proposed_one_first(tmp_path: Path) -> None:
    header = next(line for line in shown(whole_run(tmp_path), "abc1").splitlines() if "#1" in line)
    places = [header.index(h) for h in ("#1 success", "#0 failure", "#2 failure", "#3 void")]
    assert places == sorted(places)
    assert [fitting(width) for width in (10, 53, 54, 80, 200)] == [1, 1, 2, 3, 8]


def test_the_segment_is_marked_without_colours_and_only_in_its_trajectory(tmp_path: Path) -> None:
    out = shown(whole_run(tmp_path), "abc1").splitlines()
    table = out[: next(i for i, line in enumerate(out) if "segment by judge" in line)]
    assert [line.split()[:3] for line in table if "▌" in line] == [
        ["2", "▌", "[bold]no"],
        ["3", "▌", "\\[x]"],
    ]
    assert all(line.count("▌") == 1 for line in table if "▌" in line)


def test_verification_reason_and_advantages_are_told(tmp_path: Path) -> None:
    out = shown(whole_run(tmp_path), "abc1")
    line = "before turn 2: 2/8 -> after turn 3: 6/8, gain +0.50 [+0.02, +0.75], P(gain>0) 0.97"
    assert line in out
    assert "failure mode: They [bold] leave␛[5m." in out
    assert "advantage: prover" in out
    assert out.count("+0.667 +0.500 = +1.167") == 2
    assert "1 of 3 successful, 1 void, policy pol1" in out
    assert out.count("invalid: ") == 4


def test_a_group_without_segment_says_why(tmp_path: Path) -> None:
    out = shown(whole_run(tmp_path), "abd2")
    assert "no segment by judge contrast: no_contrast" in out
    assert "▌" not in out and "before turn" not in out


def test_groups_are_listed_with_what_is_known_of_each(tmp_path: Path) -> None:
    rows = [line.split() for line in shown(whole_run(tmp_path)).splitlines()]
    first, second = (next(row for row in rows if row[:1] == [name]) for name in ("abc1", "abd2"))
    assert first[:6] == ["abc1", "1/3", "ok", "#1", "[2,4)", "+0.50"]
    assert second[:5] == ["abd2", "1/3", "no_contrast", "-", "-"]


def test_a_narrow_list_cuts_the_task_and_nothing_else(tmp_path: Path) -> None:
    out = shown(whole_run(tmp_path), width=64)
    assert "…" in out and "no_contrast" in out and "#1 [2,4)" in out and "+0.50" in out
    assert max(len(line) for line in out.splitlines()) <= 64


def test_a_rollout_alone_can_be_shown(tmp_path: Path) -> None:
    write_stage(tmp_path, "rollout", [rollout_rows("abc1", n_turns=0)])
    assert "1/3" in shown(tmp_path)
    assert "#2 failure" in shown(tmp_path, "abc1")
    assert "0 turns" in shown(tmp_path, "abc1.0")
    assert facts(tmp_path, "abc1")["proposal"] is None


def test_json_holds_the_same_facts_unchanged(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    (first, second) = facts(run)
    assert (first["gain"], first["proposal"]["end_turn"], second["gain"]) == (0.5, 4, None)
    group = facts(run, "abc1")
    assert group["estimate"]["success_after"] == 6
    assert [t["action"] for t in group["trajectories"][0]["turns"]] == list(HOSTILE)
    inside = [t["turn"] for t in group["trajectories"][1]["turns"] if t["in_segment"]]
    assert inside == [2, 3]
    trajectory = facts(run, "abc1.1")
    assert trajectory["turns"][4]["reply"] == f"reply {HOSTILE[4]}"
    assert trajectory["advantages"][2]["local"] == 0.5


def test_a_prefix_names_a_group_when_it_is_the_only_one(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    assert facts(run, "abc")["group_id"] == "abc1"
    assert facts(run, "abd.2")["traj_id"] == "abd2.2"
    for what, message in (
        ("ab", "'ab' names several groups: abc1, abd2"),
        ("x", "'x' names no group"),
        ("abc1.9", "group abc1 has no trajectory '9'; it has 0, 1, 2, 3"),
    ):
        result = call(run, what)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr and f"prover show {run}" in result.stderr


def test_an_exact_id_wins_over_longer_ones(tmp_path: Path) -> None:
    write_stage(tmp_path, "rollout", [rollout_rows("abc"), rollout_rows("abc1")])
    assert facts(tmp_path, "abc")["group_id"] == "abc"


def test_a_variant_is_shown_on_request_and_must_exist(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    write_stage(run, "judge@random", [{"proposals": []}, {"proposals": []}])
    assert facts(run, "abc1", "--as", "random")["proposal"] is None
    assert call(run, "--as", "nosuch").exit_code == 2


def test_an_estimate_of_another_segment_is_not_shown(tmp_path: Path) -> None:
    write_stage(tmp_path, "rollout", [rollout_rows("abc1")])
    write_stage(tmp_path, "judge", [proposal_rows("abc1")])
    rows = verify_rows("abc1")
    changed = {**rows, "estimates": [{**rows["estimates"][0], "start_turn": 3}]}
    write_stage(tmp_path, "verify", [changed])
    assert facts(tmp_path, "abc1")["estimate"] is None


def test_a_missing_run_is_a_usage_error(tmp_path: Path) -> None:
    for arguments in ((tmp_path / "none",), (tmp_path,), (tmp_path, "abc")):
        result = call(*arguments)
        assert result.exit_code == 2 and "->" in result.stderr
