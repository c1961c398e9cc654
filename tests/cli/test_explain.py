"""`prover explain` walks one number back to everything it was made of."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from prover_cli.app import app
from prover_cli.config import AdvantageConfig
from prover_cli.credit.base import Reason
from prover_cli.errors import ShardError, UsageError
from prover_cli.ids import derive_seed
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Stage
from prover_cli.stages import advantage, explain
from prover_cli.stages.explain import Question
from prover_cli.stages.explain_formula import REASONS
from prover_cli.stages.report import SilentReporter
from tests.cli.run import prover
from tests.policies import scripted_policy
from tests.stages.pipeline import credit, judge, rewrite, rollout, verify
from tests.views.compare_runs import put, whole
from tests.views.runs import rollout_rows


def credited(run: Path, *names: str, variant: str | None = None, **changes: Any) -> None:
    config = AdvantageConfig(names, **changes)
    advantage.run(config, run, Mode.REFUSE, SilentReporter(), variant)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = whole(tmp_path_factory.mktemp("hand"))
    credited(path, "grpo", "prover")
    credited(path, "vineppo", source="verify@audit", variant="values")
    credited(path, "grpo-std", "rloo", "maxrl", variant="norms")
    return path


def explained(run: Path, trajectory: str, turn: int, **changes: Any) -> dict[str, Any]:
    return explain.run(run, Question(trajectory, turn, **changes))


def test_a_credited_turn_is_walked_back_to_counts_and_outcomes(run: Path) -> None:
    found = explained(run, "ga.0", 1)
    assert found["advantage"]["advantage"] == 1.0
    assert found["advantage"]["recomputed"] == 1.0 and found["advantage"]["recomputed_is_same"]
    assert found["formula"] == [
        "reward R of the 2 scored trajectories: 1, 0",
        "base = R - mean(R) = 1 - 0.5 = +0.5",
        "segment [1, 2): gain = after - before = 6/8 - 2/8 = +0.5",
        "gate positive: gain +0.5 against 0: passed",
        "local = lambda x reward_scale x gain = 1 x 1 x +0.5 = +0.5",
        "advantage = base + local = +0.5 +0.5 = +1",
    ]
    assert [(m["traj_id"], m["reward"]) for m in found["group"]] == [("ga.0", 1), ("ga.1", 0)]


def test_continuations_stand_with_seeds_outcomes_and_caches(run: Path) -> None:
    before, after = explained(run, "ga.0", 1)["states"]
    assert (before["successes"], before["scored"], before["cached"]) == (2, 8, 1)
    assert (after["successes"], after["scored"], after["turn"]) == (6, 8, 2)
    assert before["stop_reasons"] == {"done": 2, "max_turns": 6} and before["turns_left"] == 5
    assert [c["env_seed"] for c in before["continuations"]] == list(range(100, 108))
    assert [c["sampler_seed"] for c in after["continuations"]] == list(range(200, 208))


def test_who_else_was_in_the_state_and_what_came_of_it(run: Path) -> None:
    (sibling,) = explained(run, "ga.0", 1)["siblings"]
    assert sibling == {
        "traj_id": "ga.1",
        "turn": 1,
        "action": "[b]act1[/b] of ga.1",
        "action_valid": True,
        "success": False,
        "reward": 0.0,
    }


def test_seeds_policy_and_files_are_named(run: Path) -> None:
    found = explained(run, "ga.0", 1)
    assert found["seeds"] == {
        "env_seed": 11,
        "sampler_seed": 12,
        "turn_seed": derive_seed(12, 1),
    }
    assert (found["policy_id"], found["policy_path"]) == ("pol1", "policies/p")
    assert {"advantages", "proposals", "estimates", "continuations", "turns"} <= set(found["files"])
    assert all(Path(file).is_file() for file in found["files"].values())
    assert found["files"]["estimates"].endswith("verify/estimates-00000.parquet")


def test_raw_replies_are_cut_unless_all_is_wanted(run: Path) -> None:
    (short,) = explained(run, "ga.0", 1)["proposals"]
    (whole_,) = explained(run, "ga.0", 1, full=True)["proposals"]
    assert short["raw_text_is_cut"] and not whole_["raw_text_is_cut"]
    assert len(whole_["raw_text"]) == 2000 and whole_["raw_text"].startswith(short["raw_text"])


def test_a_turn_outside_the_segment_owes_nothing_to_it(run: Path) -> None:
    found = explained(run, "ga.0", 0)
    assert found["formula"][-1] == "advantage = base = +0.5"
    assert not found["proposals"][0]["holds_turn"] and found["estimates"][0]["gain"] == 0.5
    assert found["states"] == []


def test_values_are_put_into_their_difference(run: Path) -> None:
    path = {"source": "advantage@values"}
    middle, last = explained(run, "ga.0", 1, **path), explained(run, "ga.0", 2, **path)
    assert middle["formula"][-1] == "advantage = local = +0.5"
    assert last["formula"][-1] == "advantage = local = +0.25"
    assert middle["proposals"] == [] and middle["estimates"] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("grpo-std", "base = (R - mean(R)) / (std(R) + eps) = (1 - 0.5) / (0.707107 + 1e-06)"),
        ("rloo", "base = (R - mean(R)) n / (n - 1) = (1 - 0.5) x 2 / 1 = +1"),
        ("maxrl", "base = (R - mean(R)) / mean(R) = (1 - 0.5) / 0.5 = +1"),
    ],
)
def test_every_norm_is_written_out(run: Path, name: str, words: str) -> None:
    found = explained(run, "ga.0", 0, estimator=name, source="advantage@norms")
    assert found["formula"][1].startswith(words)


@pytest.mark.parametrize(
    ("knobs", "lines"),
    [
        ({"gate": "margin", "margin": 0.75}, ["gate margin: gain +0.5 against margin 0.75: not"]),
        ({"gate": "ci"}, ["gate ci: interval [+0.018, +0.752] against 0: passed"]),
        ({"gate": "posterior"}, ["gate posterior: P(gain > 0) +0.971 against posterior 0.9: pas"]),
        ({"gate": "shrink"}, ["local = lambda x reward_scale x shrunk gain = 1 x 1 x +0.4 = +0.4"]),
        ({"lambda_": 3.0}, ["local = lambda x reward_scale x gain = 3 x 1 x +0.5 = +1.5"]),
    ],
)
def test_every_gate_says_what_it_compared(
    tmp_path: Path, knobs: dict[str, Any], lines: list[str]
) -> None:
    path = whole(tmp_path)
    credited(path, "prover", knobs=knobs)
    found = explained(path, "ga.0", 1)
    for line in lines:
        assert any(text.startswith(line) for text in found["formula"]), found["formula"]
    assert found["advantage"]["recomputed_is_same"]


def test_a_void_trajectory_has_a_reason_and_no_number(run: Path) -> None:
    found = explained(run, "gb.2", 0)
    assert found["advantage"]["advantage"] is None
    assert found["advantage"]["recomputed_is_same"]
    assert found["formula"][-1] == "advantage = null: the trajectory has no outcome"
    assert found["proposals"][0]["status"] == "no_contrast"


def test_a_number_that_the_tables_do_not_give_is_noticed(tmp_path: Path) -> None:
    path = whole(tmp_path)
    credited(path, "prover")
    rewrite(
        Stage(path, "advantage"),
        "advantages",
        lambda rows: [{**row, "advantage": 7.0} for row in rows],
    )
    found = explained(path, "ga.0", 1)["advantage"]
    assert (found["advantage"], found["recomputed"]) == (7.0, 1.0)
    assert not found["recomputed_is_same"]
    out = printed(path, "ga.0", "--turn", 1)
    assert "computed again from the tables below: +1, NOT what is stored" in out


def test_every_reason_is_explained() -> None:
    assert set(REASONS) == set(Reason)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four groups of the vault, a judged and verified segment in some, and values everywhere."""
    home = tmp_path_factory.mktemp("sampled")
    rollout(home / "run", scripted_policy(home / "policy"), {"slip": 0.3})
    judge(home / "run")
    verify(home / "run", k=5)
    verify(home / "run", k=3, proposer="all-turns", variant="turns")
    return home / "run"


def test_real_runs_are_explained_for_every_kind_of_method(sampled: Path) -> None:
    names = ("prover", "gigpo", "ragen", "constant", "reinforce++")
    credit(sampled, *names)
    rows = Stage(sampled, "verify").read("estimates").drop_nulls("gain")
    assert rows.height
    for row in rows.iter_rows(named=True):
        for name in names:
            found = explained(sampled, row["traj_id"], row["start_turn"], estimator=name)
            assert found["advantage"]["recomputed_is_same"]
            counts = [(s["successes"], s["scored"]) for s in found["states"]]
            assert (row["success_before"], row["n_before"]) in counts


def test_the_gain_of_a_chain_follows_from_the_numbers_that_are_printed(sampled: Path) -> None:
    credit(sampled, "prover-chain", variant="chain")
    rows = Stage(sampled, "verify").read("estimates").drop_nulls("gain")
    number = r"([-+]?[\d.e-]+)"
    for row in rows.iter_rows(named=True):
        found = explained(sampled, row["traj_id"], row["start_turn"], source="advantage@chain")
        assert found["advantage"]["recomputed_is_same"]
        lines = "\n".join(found["formula"])
        coefficients = re.search(rf"sigmoid\({number} {number} \(after\) {number} logit", lines)
        gain = re.search(
            rf"gain = rate after - rate before = {number} - {number} = {number}", lines
        )
        assert coefficients is not None and gain is not None
        intercept, side, slope = map(float, coefficients.groups())
        after, before, difference = map(float, gain.groups())
        assert after - before == pytest.approx(difference, abs=1e-5)
        for name, rate in (("before", before), ("after", after)):
            value = re.search(rf"{number} {name}", lines.splitlines()[2])
            if value is None:  # the trajectory ends there
                assert rate == row[f"value_{name}"]
                continue
            v = min(max(float(value.group(1)), 0.02), 0.98)
            logit = intercept + side * (name == "after") + slope * math.log(v / (1 - v))
            assert rate == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-3)


def test_values_of_a_real_run_are_traced_to_their_continuations(sampled: Path) -> None:
    credit(sampled, "vineppo", source="verify@turns", variant="turns")
    turns = Stage(sampled, "rollout").read("turns").filter(turn=2)
    found = explained(sampled, turns["traj_id"][0], 1, source="advantage@turns")
    before, after = found["states"]
    assert (before["scored"], after["scored"]) == (3, 3)
    assert found["formula"][0] == (
        f"V(s[2]) - V(s[1]) = {after['successes']}/3 - {before['successes']}/3"
    )


def test_prefixes_name_a_trajectory_when_they_are_unique(run: Path, tmp_path: Path) -> None:
    assert explained(run, "ga.1", 0)["traj_id"] == "ga.1"
    with pytest.raises(UsageError, match=r"'ga' names several .*ga\.0, ga\.1"):
        explained(run, "ga", 0)
    with pytest.raises(UsageError, match=r"no trajectory 'ga\.7'; near it: ga\.[01]"):
        explained(run, "ga.7", 0)
    long = tmp_path / "long"
    long.mkdir()
    put(long, "rollout", [rollout_rows("abc1"), rollout_rows("abd2")])
    credited(long, "grpo")
    assert explained(long, "abd.1", 0)["traj_id"] == "abd2.1"


def test_unknown_turns_methods_and_stages_are_told_in_words(run: Path) -> None:
    with pytest.raises(UsageError, match=r"ga\.0 has no turn 9; its turns are 0 to 2"):
        explained(run, "ga.0", 9)
    with pytest.raises(UsageError, match=r"no estimator 'prove'; it holds grpo, prover \(near"):
        explained(run, "ga.0", 0, estimator="prove")
    with pytest.raises(UsageError, match="advantage@norms holds grpo-std, rloo, maxrl") as caught:
        explained(run, "ga.0", 0, source="advantage@norms")
    assert "--estimator" in str(caught.value.hint)
    with pytest.raises(ShardError, match="advantage@gone has no manifest"):
        explained(run, "ga.0", 0, source="advantage@gone")
    with pytest.raises(UsageError, match="--from is advantage or advantage@NAME, not 'verify'"):
        explained(run, "ga.0", 0, source="verify")


def printed(*words: object) -> str:
    texts = [str(word) for word in words]
    result = CliRunner(env={"COLUMNS": "160"}).invoke(app, ["explain", *texts])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_prints_everything_and_obeys_nothing(run: Path) -> None:
    out = printed(run, "ga.0", "--turn", 1)
    for text in (
        "advantage +1 by prover",
        "[b]act1[/b] of ga.1",
        "2/8 before -> 6/8 after",
        "env seed 11",
        "policy pol1 (policies/p)",
        "--full shows the rest",
        "the same",
    ):
        assert text in out
    facts = json.loads(printed(run, "ga.0", "--turn", 1, "--json"))
    assert facts["advantage"]["advantage"] == 1.0


def test_mistakes_are_told_on_stderr_without_a_traceback(run: Path) -> None:
    result = prover("explain", run, "gx.0", "--turn", "0")
    assert result.returncode == 2 and "no trajectory 'gx.0'; near it: g" in result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""


def test_a_judge_that_was_asked_again_makes_the_numbers_stale(tmp_path: Path) -> None:
    path = tmp_path / "run"
    rollout(path, scripted_policy(tmp_path / "policy"), {"slip": 0.3})
    judge(path)
    verify(path, k=2)
    credit(path)
    traj_id = Stage(path, "rollout").read("trajectories")["traj_id"][0]
    assert explained(path, traj_id, 0)["advantage"]["recomputed_is_same"]
    for file in (path / "judge").iterdir():
        file.unlink()
    judge(path, seed=5)
    with pytest.raises(ShardError, match="stale"):
        explained(path, traj_id, 0)
