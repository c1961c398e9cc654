"""The judge stage with a model: nothing is asked twice, and an outage is never an answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from prover_cli.config import EngineConfig, JudgeConfig
from prover_cli.engines.scripted import ScriptedEngine
from prover_cli.errors import ConfigMismatchError, EngineDeadError, PolicyChangedError, UsageError
from prover_cli.ids import policy_id
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.stages import judge as judge_stage
from prover_cli.stages.report import Summary
from tests.policies import behave, scripted_policy
from tests.stages.pipeline import Listener, credit, facts_of, rollout, table

CONTEXT = 60_000
NOTED = {"failure_mode": "they open the vault without the key", "rationale": "it takes the key"}


def replies() -> list[str]:
    """Segments of one turn that suit nearly every success, a look, and nonsense."""
    segments = [
        {"tool": "submit", "start_turn": t, "end_turn": t + 1, **NOTED, "confidence": 0.5}
        for t in (0, 1)
    ]
    look = {"tool": "search_trajectory", "query": "key", "k": 2}
    return [json.dumps(x) for x in (*segments, look)] + ["the second turn"]


@pytest.fixture
def run(tmp_path: Path, sampled: Path) -> Path:
    """A rollout of four groups in two shards, of one's own."""
    return Path(shutil.copytree(sampled, tmp_path / "run"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "judge", replies(), max_len=CONTEXT)


def config(model: Path | str | None, **changes: Any) -> JudgeConfig:
    engine = EngineConfig("scripted", "cpu", concurrency=changes.pop("concurrency", 16))
    settings = {"max_success": 7, "judge_model": None if model is None else str(model)}
    return JudgeConfig(**{**settings, "engine": engine, **changes})


def judged(
    run: Path, model: Path | str | None, mode: Mode = Mode.REFUSE, **changes: Any
) -> tuple[Summary, Listener]:
    variant, listener = changes.pop("variant", None), changes.pop("listener", Listener())
    summary = judge_stage.run(config(model, **changes), run, mode, listener, variant)
    return summary, listener


def asked(run: Path) -> pl.DataFrame:
    """The proposals for groups that are eligible; one of the four has no success."""
    rows = table(run, "proposals").filter(pl.col("status") != "no_success")
    assert rows.height == 3
    return rows


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every request that a scripted engine answers."""
    seen: list[Any] = []
    generate = ScriptedEngine.generate

    async def watched(self: ScriptedEngine, request: Any) -> Any:
        generation = await generate(self, request)
        seen.append(request)
        return generation

    monkeypatch.setattr(ScriptedEngine, "generate", watched)
    return seen


# Which judge, which model


def test_a_judge_model_makes_the_agentic_judge_the_default(run: Path, model: Path) -> None:
    summary, listener = judged(run, model)
    assert "judge agentic: --judge-model given" in listener.notes
    assert f"judge model {model}, {policy_id(model)}" in listener.notes
    rows = table(run, "proposals")
    assert set(rows["judge"]) == {"agentic"}
    assert set(rows["judge_model"].drop_nulls()) == {policy_id(model)}
    assert summary.facts["asked"] == 3 and summary.facts["replies"] >= 3
    manifest = Run(run).stage("judge").manifest()
    assert manifest.config["judge"] == "agentic"
    assert manifest.config["judge_model_id"] == policy_id(model)
    assert manifest.config["prompt_hash"] == rows["prompt_hash"].drop_nulls()[0]


def test_without_a_model_contrast_is_the_default_and_says_so(run: Path) -> None:
    _, listener = judged(run, None)
    assert "judge contrast: no --judge-model or --judge-url is given" in listener.notes
    assert set(table(run, "proposals")["judge"]) == {"contrast"}


def test_the_policy_itself_judges_where_no_model_is_named(
    tmp_path: Path, requests: list[Any]
) -> None:
    policy = scripted_policy(tmp_path / "policy", [*replies(), "go", "open"], max_len=CONTEXT)
    rollout(tmp_path / "run", policy)
    requests.clear()
    _, listener = judged(tmp_path / "run", None, judge="agentic", min_success=1)
    said = f"judge model the policy of the rollout itself, {policy_id(policy)}"
    assert said in listener.notes
    scripted_policy(policy, ["go"])
    with pytest.raises(PolicyChangedError, match="is not the policy of this rollout"):
        judged(tmp_path / "run", None, judge="agentic", variant="again")


def test_settings_that_cannot_be_are_refused(run: Path, model: Path, tmp_path: Path) -> None:
    def refused(match: str, **changes: Any) -> None:
        with pytest.raises(UsageError, match=match):
            judged(run, changes.pop("model", model), **changes)
        assert not Stage(run, "judge").exists()

    refused("--trajectory is shortest, random, all, not 'longest'", trajectory="longest")
    refused("--trajectory is for --judge agentic", judge="last", trajectory="all")
    refused("--judge-cost needs the prices", judge_cost=1.0)
    refused("which model does the server", model=None, judge_url="http://127.0.0.1:1")
    refused("would be recorded", model="m", judge_url="http://user:sk-secret@127.0.0.1:1")
    refused("is not a policy", model=tmp_path / "nowhere")
    refused("cannot be read", judge_prompt=str(tmp_path / "nowhere.md"))
    refused("--labels knows", labels=("good",))
    refused("two or more different judges", judge="ensemble:last")


def test_a_prompt_of_ones_own_is_used_and_part_of_the_identity(
    run: Path, model: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.md"
    own.write_text("Pick the turn that matters, $max_segment turns at most.")
    judged(run, model)
    judged(run, model, variant="own", judge_prompt=str(own))
    hashes = [
        table(run, "proposals", s)["prompt_hash"].drop_nulls()[0] for s in ("judge", "judge@own")
    ]
    assert hashes[0] != hashes[1]
    own.write_text("Pick another.")
    with pytest.raises(ConfigMismatchError, match="prompt_hash"):
        judged(run, model, Mode.RESUME, variant="own", judge_prompt=str(own))


# Results


def test_every_proposal_is_valid_or_says_why_not(run: Path, model: Path) -> None:
    summary, _ = judged(run, model)
    rows = asked(run)
    lengths = dict(table(run, "trajectories").select("traj_id", "n_turns").iter_rows())
    for row in rows.iter_rows(named=True):
        if row["status"] == "ok":
            assert 0 <= row["start_turn"] < row["end_turn"] < lengths[row["traj_id"]]
            labels = json.loads(row["labels_json"])
            assert labels["confidence"] == {row["traj_id"]: 0.5}
        else:
            assert row["status"] == "invalid_reply" and row["traj_id"] is None
        assert len(json.loads(row["raw_text"])) == row["attempts"] > 0
    facts = summary.facts
    assert facts["replies"] == rows["attempts"].sum()
    ended = rows.filter(pl.col("status") == "ok").height
    given_back = facts["replies"] - facts["tool_calls"] - rows.height
    assert facts["repairs"] == given_back >= 0
    assert sum(facts["positions"]) == ended
    assert facts["prompt_tokens"] == rows["n_prompt_tokens"].sum()


def test_nonsense_is_an_invalid_reply_and_never_a_segment(run: Path, tmp_path: Path) -> None:
    fool = scripted_policy(tmp_path / "fool", ["the second turn"], max_len=CONTEXT)
    summary, _ = judged(run, fool, max_repairs=2)
    rows = table(run, "proposals")
    assert rows["traj_id"].is_null().all()
    rows = asked(run)
    assert set(rows["status"]) == {"invalid_reply"} and (rows["attempts"] == 3).all()
    assert summary.exit_code == 0 and summary.facts["repairs"] == 2 * rows.height
    assert (summary.facts["answer_rate"], summary.facts["valid_rate"]) == (1.0, 0.0)
    assert "nothing to verify" in summary.warnings[0]


def test_a_failed_request_is_a_group_without_reply_and_the_others_go_on(
    run: Path, tmp_path: Path
) -> None:
    flaky = scripted_policy(tmp_path / "flaky", replies()[:1], CONTEXT, fail_requests=0.4)
    summary, _ = judged(run, flaky)
    rows = table(run, "proposals")
    failed = rows.filter(status="no_reply")
    assert 0 < failed.height < 3 and summary.exit_code == 0
    assert all("scripted request failed" in text for text in failed["labels_json"])
    assert any("groups have no reply; the first: a scripted" in w for w in summary.warnings)


def test_no_answer_at_all_is_exit_code_3(run: Path, tmp_path: Path) -> None:
    broken = scripted_policy(tmp_path / "broken", replies(), CONTEXT, fail_requests=1.0)
    summary, _ = judged(run, broken)
    assert summary.exit_code == 3 and summary.facts["answer_rate"] == 0.0
    small = scripted_policy(tmp_path / "small", replies(), max_len=500)
    summary, _ = judged(run, small, variant="small")
    assert summary.exit_code == 3
    assert any("does not fit into a context of 500 tokens" in w for w in summary.warnings)


def test_an_ensemble_of_a_model_and_others(run: Path, model: Path) -> None:
    judged(run, model, judge="ensemble:contrast,agentic,last")
    rows = asked(run)
    assert set(rows["judge"]) == {"ensemble:contrast,agentic,last"}
    assert set(rows["judge_model"]) == {policy_id(model)}
    assert all(len(json.loads(text)["votes"]) == 3 for text in rows["labels_json"])


# Stopping and going on


def test_a_dead_model_leaves_finished_shards_and_resume_asks_for_the_rest(
    run: Path, model: Path, requests: list[Any]
) -> None:
    whole = shutil.copytree(run, run.parent / "whole")
    judged(whole, model, concurrency=1)
    n = len(requests)
    requests.clear()
    behave(model, fail_after=n - 1)
    with pytest.raises(EngineDeadError):
        judged(run, model, concurrency=1)
    assert 0 < len(Run(run).stage("judge").manifest().shards) < 2
    behave(model)
    requests.clear()
    judged(run, model, Mode.RESUME, concurrency=1)
    assert 0 < len(requests) < n
    assert facts_of(run, "proposals").equals(facts_of(whole, "proposals"))
    requests.clear()
    summary, _ = judged(run, model, Mode.RESUME)
    assert summary.did_nothing and requests == []


def test_with_a_cache_nothing_is_asked_twice_inside_a_shard(
    run: Path, model: Path, tmp_path: Path, requests: list[Any]
) -> None:
    cache = str(tmp_path / "cache")
    behave(model, fail_after=3)
    with pytest.raises(EngineDeadError):
        judged(run, model, judge_cache=cache, concurrency=1)
    behave(model)
    judged(run, model, Mode.RESUME, judge_cache=cache, concurrency=1)
    keys = [(request.seed, request.prompt_ids) for request in requests]
    assert len(keys) == len(set(keys))


def test_a_cache_is_replayed_without_the_model(
    run: Path, model: Path, tmp_path: Path, requests: list[Any]
) -> None:
    cache = str(tmp_path / "cache")
    judged(run, model, judge_cache=cache, labels=("first-error",))
    requests.clear()
    shutil.rmtree(model)
    judged(run, model, judge_cache=cache, labels=("first-error",), variant="again")
    assert requests == []
    assert facts_of(run, "proposals").equals(facts_of(run, "proposals", "judge@again"))


def test_the_number_of_groups_in_flight_changes_nothing(run: Path, model: Path) -> None:
    judged(run, model, concurrency=1)
    judged(run, model, concurrency=64, variant="many")
    assert facts_of(run, "proposals").equals(facts_of(run, "proposals", "judge@many"))


# Budgets


def test_a_budget_is_kept_over_resumptions_and_says_what_it_left_out(
    run: Path, model: Path, tmp_path: Path
) -> None:
    one = scripted_policy(tmp_path / "one", replies()[:1], max_len=CONTEXT)
    judged(run, one, variant="all")
    cost = table(run, "proposals", "judge@all").select(
        pl.col("n_prompt_tokens") + pl.col("n_output_tokens")
    )["n_prompt_tokens"]
    budget = int(cost.sum() * 0.6)
    summary, _ = judged(run, one, judge_tokens=budget, concurrency=1, judge_max_tokens=200)
    rows = table(run, "proposals")
    assert set(asked(run)["status"]) == {"ok", "over_budget"}
    assert summary.facts["prompt_tokens"] + summary.facts["output_tokens"] <= budget * 1.2
    counters = Run(run).stage("judge").manifest().counters
    assert counters["paid_prompt_tokens"] == rows["n_prompt_tokens"].sum()


def test_dollars_are_reported(run: Path, model: Path) -> None:
    summary, _ = judged(run, model, judge_price=(1.0, 2.0), judge_cost=100.0)
    facts = summary.facts
    assert facts["dollars"] == (facts["prompt_tokens"] + 2 * facts["output_tokens"]) / 1e6
    assert any("dollars" in line for line in summary.lines)


# Labels


def test_labels_of_a_model_stand_beside_the_proposals_of_any_judge(
    run: Path, tmp_path: Path
) -> None:
    """Groups that are not eligible are labelled too: the methods compare all of them."""
    labeller = scripted_policy(tmp_path / "labels", ['{"first_error": 0}'], max_len=CONTEXT)
    judged(run, labeller, judge="contrast", labels=("first-error",), max_success=1)
    rows, runs = table(run, "proposals"), table(run, "trajectories")
    found = [json.loads(text)["first_error"] for text in rows["labels_json"]]
    assert sum(map(len, found)) == runs.filter(pl.col("n_turns") > 0).height
    assert set(rows["judge"]) == {"contrast"} and rows["raw_text"].is_not_null().all()
    assert "too_many_successes" in set(rows["status"])
    credit(run, "vppo")
    assert table(run, "advantages")["advantage"].is_not_null().all()
