"""What a verification leaves out, and its controls without effect."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from prover_cli.credit.intervals import credited_by_chance
from prover_cli.errors import UsageError
from prover_cli.shards.run import Stage
from prover_cli.stages.verify_budget import GroupCost, affordable, expected_information
from prover_cli.stages.verify_proposers import Wanted
from prover_cli.stages.verify_rule import Rule
from tests.policies import behave
from tests.stages.pipeline import Rows, credit, judge, rewrite, rollout, table, verify


@pytest.fixture
def judged(tmp_path: Path, policy: Path) -> Path:
    run = tmp_path / "run"
    rollout(run, policy, {"slip": 0.3}, tasks=10)
    judge(run)
    return run


def test_a_bound_on_continuations_holds_with_complete_pairs(judged: Path) -> None:
    whole = verify(judged, k=4, variant="whole")
    bounded = verify(judged, k=4, max_continuations=20)
    assert 0 < bounded.facts["continuations"] <= 20 < whole.facts["continuations"]
    made = table(judged, "estimates")
    skipped = made.filter(status="budget")
    assert skipped.height == bounded.facts["skipped_groups"] > 0
    assert skipped["gain"].is_null().all() and skipped["traj_id"].is_not_null().all()
    done = made.filter(status="ok")
    assert (done["n_before"] == 4).all() and (done["n_after"] == 4).all()
    full = table(judged, "estimates", "verify@whole").filter(status="ok")
    assert full.filter(pl.col("proposal_id").is_in(done["proposal_id"].to_list())).equals(done)
    assert set(table(judged, "values")["group_id"]) == set(done["group_id"])
    assert any("beyond the budget" in text for text in bounded.warnings)
    credit(judged)
    assert "segment_without_estimate" in set(table(judged, "advantages")["reason"])


def test_a_larger_budget_adds_groups_and_drops_none(judged: Path) -> None:
    chosen = []
    for n in (8, 24, 400):
        verify(judged, k=4, max_continuations=n, variant=str(n))
        made = table(judged, "estimates", f"verify@{n}").filter(status="ok")
        chosen.append(set(made["group_id"]))
    assert chosen[0] < chosen[1] < chosen[2]


def test_the_order_of_groups_is_drawn_by_seed(judged: Path) -> None:
    found = set()
    for seed in range(4):
        verify(judged, k=4, max_continuations=16, seed=seed, variant=str(seed))
        made = table(judged, "estimates", f"verify@{seed}").filter(status="ok")
        found.add(tuple(sorted(made["group_id"])))
    assert len(found) > 1


def test_information_is_the_expected_fall_of_the_variance() -> None:
    """By hand: (2/3 visits won) before, nobody but the proposed trajectory after."""
    trajectories = pl.DataFrame(
        {"traj_id": ["a", "b", "c", "d"], "success": [True, True, False, True]}
    )
    turns = pl.DataFrame(
        [(t, n, "g", key) for t, keys in {"a": "sx", "b": "sy", "c": "sss", "d": "s"}.items()
         for n, key in enumerate(keys)],
        schema=["traj_id", "turn", "group_id", "state_key"], orient="row",
    )  # fmt: skip
    row = {"group_id": "g", "traj_id": "a", "start_turn": 0, "end_turn": 1, "status": "ok"}
    rule = Rule(((8, 4),))
    before = 3 * 2 / (5**2 * 6) * 8 / (8 + 5)
    after = 1 / (2**2 * 3) * 4 / (4 + 2)
    found = expected_information(Wanted([row]), trajectories, turns, rule)
    assert found == {"g": pytest.approx(before + after)}
    ended = expected_information(Wanted([row | {"end_turn": 2}]), trajectories, turns, rule)
    assert ended == {"g": pytest.approx(before)}


def test_ranked_groups_fill_the_budget_with_what_tells_most() -> None:
    costs = [
        GroupCost("small", 2, 10.0, 0.1),
        GroupCost("dear", 50, 1000.0, 1.0),
        GroupCost("best", 4, 10.0, 0.3),
        GroupCost("none", 2, 10.0, 0.0),
    ]
    assert affordable(costs, 0, 6, None, by_information=True) == {"best", "small"}
    assert affordable(costs, 0, None, 15.0, by_information=True) == {"best"}
    assert affordable(costs, 0, None, None, by_information=True) == {c.group_id for c in costs}


def test_ranking_obeys_the_budget_whatever_the_seed(judged: Path) -> None:
    chosen = []
    for seed in (0, 1):
        facts = verify(
            judged, k=4, max_continuations=20, budget_order="information", seed=seed,
            variant=str(seed),
        ).facts  # fmt: skip
        assert 0 < facts["continuations"] <= 20
        chosen.append(
            set(table(judged, "estimates", f"verify@{seed}").filter(status="ok")["group_id"])
        )
    assert chosen[0] == chosen[1]
    with pytest.raises(UsageError, match="--budget-order is seeded or information"):
        verify(judged, budget_order="best", variant="x")


def test_a_token_budget_is_kept_about(judged: Path) -> None:
    whole = verify(judged, k=8, variant="whole").facts["share_of_rollout_tokens"]
    share = whole / 2
    found = verify(judged, k=8, token_budget=share).facts
    assert 0 < found["share_of_rollout_tokens"] < 1.3 * share
    assert found["skipped_groups"] > 0


def test_a_budget_for_nothing_says_so(judged: Path, policy: Path) -> None:
    behave(policy, fail_after=0)
    summary = verify(judged, k=4, max_continuations=1)
    assert summary.exit_code == 4
    assert any("within the budget" in text for text in summary.warnings)
    assert set(table(judged, "estimates")["status"]) >= {"budget"}


def test_values_obey_the_budget_too(judged: Path) -> None:
    summary = verify(judged, k=1, proposer="all-turns", max_continuations=60)
    groups = table(judged, "values")["group_id"].n_unique()
    assert summary.facts["continuations"] <= 60 and groups + summary.facts["skipped_groups"] == 10


def test_controls_change_no_estimate_and_cost_one_side_each(judged: Path) -> None:
    verify(judged, k=4, variant="plain")
    plain = Stage(judged, "verify@plain").manifest().counters
    summary = verify(judged, k=4, measure_null=3)
    assert summary.facts["null_segments"] == 3
    for name in ("values", "estimates"):
        assert table(judged, name).equals(table(judged, name, "verify@plain")), name
    assert summary.facts["continuations"] == plain["continuations"] + 3 * 4
    assert "measured on 3 segments without effect" in " ".join(summary.lines)


def test_the_measured_null_rate_agrees_with_the_formula(judged: Path) -> None:
    """Many controls: the rate is within three standard errors of the formula's, and the formula's
    that of the continuations themselves."""
    facts = verify(judged, k=4, proposer="every:3", measure_null=10_000).facts
    n, measured = facts["null_segments"], facts["measured_null_rate"]
    expected = facts["controls_null_rate"]
    assert n == table(judged, "values").height > 40
    distinct = table(judged, "continuations")["state_id"].n_unique()
    assert abs(measured - expected) < 3 * (0.25 / distinct) ** 0.5
    rows = table(judged, "continuations").to_dicts()
    wins: dict[str, list[bool]] = {}
    for row in sorted(rows, key=lambda row: (row["state_id"], row["k"])):
        wins.setdefault(row["state_id"], []).append(row["success"])
    assert all(len(found) == 8 for found in wins.values())
    by_state = [credited_by_chance(sum(found) / 8, 4, 4) for found in wins.values()]
    states = table(judged, "values")["state_id"].to_list()
    chances = dict(zip(wins, by_state, strict=True))
    assert expected == pytest.approx(sum(chances[s] for s in states) / len(states))


def test_a_segment_with_a_lost_side_costs_nothing(judged: Path) -> None:
    """Complete pairs only: the side that could be entered is not sampled."""
    verify(judged, k=4, variant="clean")
    first = table(judged, "estimates", "verify@clean").filter(status="ok").row(0, named=True)

    def other(rows: Rows) -> Rows:
        place = (first["traj_id"], first["end_turn"])
        return [
            r | {"state_key": "another"} if (r["traj_id"], r["turn"]) == place else r for r in rows
        ]

    rewrite(Stage(judged, "rollout"), "turns", other)
    shutil.rmtree(judged / "judge")
    judge(judged)
    verify(judged, k=4)
    made = table(judged, "estimates").filter(traj_id=first["traj_id"])
    assert made["status"].to_list() == ["diverged"]
    assert first["state_before"] not in set(
        table(judged, "continuations").filter(replay_ok=True)["state_id"]
    )
