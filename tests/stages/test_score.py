"""A scoring pass: the engine's own log-probs again, a slow reference, and what hindsight shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from prover_cli.config import SamplingConfig, ScoreConfig
from prover_cli.envs.base import Message
from prover_cli.errors import (
    ConfigMismatchError,
    PolicyChangedError,
    ShardError,
    UsageError,
)
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run
from prover_cli.shards.validate import faults
from prover_cli.stages import score
from prover_cli.stages.report import Summary
from prover_cli.stages.score_context import demonstration, shown_siblings
from prover_cli.tokens.render import ChatRenderer
from tests.policies import tiny_model
from tests.stages.pipeline import Listener, Stopped, credit, episodes, rollout, table, verify

DICE = "tests.stages.worlds:DiceVault"
TEMPERATURE = 0.7


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny") / "model", max_len=1024)


def sample(run: Path, model: Path, **changes: Any) -> Path:
    sampling = SamplingConfig(TEMPERATURE)
    settings = {"tasks": 3, "max_turns": 6, "groups_per_shard": 2, "sampling": sampling, **changes}
    rollout(run, model, env=DICE, engine="torch", **settings)
    return run


def scored(run: Path, mode: Mode = Mode.REFUSE, **changes: Any) -> Summary:
    config = ScoreConfig(**{"device": "cpu", "microbatch_tokens": 700, **changes})
    return score.run(config, run, mode, Listener())


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """A rollout at a temperature, scored."""
    run = sample(tmp_path_factory.mktemp("scored") / "run", model)
    scored(run)
    return run


@pytest.fixture
def run(tmp_path: Path, model: Path) -> Path:
    """A small rollout of one's own."""
    return sample(tmp_path / "run", model, tasks=2, group_size=4, groups_per_shard=1)


def slow(model: Path, context: list[int], action: list[int]) -> tuple[list[float], list[float]]:
    """Log-probs and entropies of an action, one token and one forward pass at a time."""
    from transformers import AutoModelForCausalLM

    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    logprobs, entropies = [], []
    for i, token in enumerate(action):
        with torch.no_grad():
            logits = policy(torch.tensor([context + action[:i]])).logits[0, -1]
        logp = (logits.double() / TEMPERATURE).log_softmax(-1)
        logprobs.append(float(logp[token]))
        entropies.append(float(-(logp.exp() * logp).sum()))
    return logprobs, entropies


def rows_of(run: Path) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["traj_id"], row["turn"]): row for row in table(run, "scores").to_dicts()}


def test_scores_are_the_log_probs_that_the_engine_recorded(done: Path) -> None:
    both = table(done, "turns").join(table(done, "scores"), on=["traj_id", "turn"])
    assert both.height == table(done, "turns").height > 50
    for row in both.iter_rows(named=True):
        assert row["token_logprobs"] == pytest.approx(row["logprobs"], abs=1e-4)
        assert row["n_action_tokens"] == len(row["token_entropies"]) == len(row["action_ids"])
    assert score.describe(Run(done).stage("score"))["logprob_gap"] < 1e-5


def test_entropies_and_log_probs_equal_a_slow_reference(done: Path, model: Path) -> None:
    scores = rows_of(done)
    for turns in episodes(done)[::9]:
        context: list[int] = []
        for row in turns:
            context = row["prompt_ids"] if row["context_reset"] else context + row["prompt_ids"]
            found = scores[row["traj_id"], row["turn"]]
            logprobs, entropies = slow(model, context, row["action_ids"])
            assert found["token_logprobs"] == pytest.approx(logprobs, abs=1e-4)
            assert found["token_entropies"] == pytest.approx(entropies, abs=1e-4)
            assert found["entropy"] == pytest.approx(sum(entropies) / len(entropies), abs=1e-4)
            context = context + row["action_ids"]


def test_hindsight_is_the_same_ids_behind_the_shortest_other_success(
    done: Path, model: Path
) -> None:
    scores, by_id = rows_of(done), {turns[0]["traj_id"]: turns for turns in episodes(done)}
    trajectories = table(done, "trajectories")
    renderer, checked = ChatRenderer.load(model), 0
    for turns in list(by_id.values())[::7]:
        own = turns[0]["traj_id"]
        group = trajectories.filter(group_id=turns[0]["group_id"]).filter(pl.col("success"))
        others = group.filter(pl.col("traj_id") != own).sort("n_turns", "sample")
        if others.is_empty():
            assert all(scores[own, t["turn"]]["hindsight_logprobs"] is None for t in turns)
            continue
        sibling = others["traj_id"][0]
        text = demonstration(by_id[sibling], 400)
        context = renderer.told([Message("user", text)])
        for row in turns:
            context = context + row["prompt_ids"]
            found = scores[own, row["turn"]]
            logprobs, _ = slow(model, context, row["action_ids"])
            assert found["hindsight_logprobs"] == pytest.approx(logprobs, abs=1e-4)
            assert found["hindsight_logprobs"] != found["token_logprobs"]
            assert found["hindsight_traj_id"] == sibling
            context, checked = context + row["action_ids"], checked + 1
    assert checked


def test_the_demonstration_is_the_documented_text() -> None:
    turns = [
        {"observation": "  a long room  ", "action": "go"},
        {"observation": "nothing was done here", "action": ""},
        {"observation": "a door", "action": "open"},
    ]
    assert demonstration(turns, 8) == (
        "Another attempt at this task succeeded. It went like this:\n\n"
        "Observation: a long\nAction: go\nObservation: a door\nAction: open"
    )
    assert "Observation" not in demonstration(turns, 0)


def test_nobody_is_shown_itself_or_a_failure() -> None:
    trajectories = pl.DataFrame(
        {
            "traj_id": ["a.0", "a.1", "a.2", "b.0", "b.1", "c.0"],
            "group_id": ["a", "a", "a", "b", "b", "c"],
            "sample": [0, 1, 2, 0, 1, 0],
            "n_turns": [3, 2, 2, 4, 5, 1],
            "success": [True, True, True, True, None, False],
        }
    )
    assert shown_siblings(trajectories) == {"a.0": "a.1", "a.1": "a.2", "a.2": "a.1", "b.1": "b.0"}


def test_what_has_no_room_behind_a_sibling_has_no_hindsight(tmp_path: Path, model: Path) -> None:
    tight = tiny_model(tmp_path / "tight", max_len=230)
    run = sample(tmp_path / "run", tight)
    scored(run)
    rows = table(run, "scores").sort("traj_id", "turn")
    shown = rows.filter(pl.col("hindsight_traj_id").is_not_null())
    assert shown["hindsight_logprobs"].count() > 0
    # Turns are shown from the first on, so what is cut off is the end of a trajectory.
    has = rows.filter(pl.col("traj_id").is_in(shown["traj_id"].unique().implode()))
    kept = has.group_by("traj_id", maintain_order=True).agg(
        pl.col("hindsight_logprobs").is_not_null().alias("has")
    )
    assert all(list(h) == sorted(h, reverse=True) for h in kept["has"])
    assert not all(all(h) for h in kept["has"])


def test_nothing_is_shown_without_hindsight(run: Path) -> None:
    summary = scored(run, hindsight=False)
    assert summary.facts["hindsight_turns"] == 0
    assert table(run, "scores")["hindsight_logprobs"].null_count() == summary.facts["turns"]


@pytest.mark.parametrize("history", ["full", "1"])
def test_micro_batches_do_not_change_scores(tmp_path: Path, model: Path, history: str) -> None:
    run = sample(tmp_path / "run", model, tasks=1, group_size=4, history=history)
    scored(run, microbatch_tokens=1)
    alone = table(run, "scores")
    scored(run, Mode.OVERWRITE, microbatch_tokens=10**6)
    for one, other in zip(alone.to_dicts(), table(run, "scores").to_dicts(), strict=True):
        for name in ("token_logprobs", "token_entropies", "hindsight_logprobs"):
            assert one[name] == pytest.approx(other[name], abs=1e-4)


def test_a_stopped_pass_resumes_to_the_same_table(tmp_path: Path, run: Path) -> None:
    config = ScoreConfig(device="cpu")
    with pytest.raises(Stopped):
        score.run(config, run, Mode.REFUSE, Listener(stop_at=1))
    assert len(Run(run).stage("score").manifest().shards) == 1
    with pytest.raises(ConfigMismatchError, match="hindsight"):
        scored(run, Mode.RESUME, hindsight=False)
    listener = Listener()
    score.run(config, run, Mode.RESUME, listener)
    assert listener.advances == 1
    parts = table(run, "scores")
    scored(run, Mode.OVERWRITE, microbatch_tokens=8192)
    assert parts.equals(table(run, "scores"))
    assert scored(run, Mode.RESUME).did_nothing
    assert not list(faults(Run(run)))


def test_another_policy_is_refused_and_a_moved_one_found(
    tmp_path: Path, run: Path, model: Path
) -> None:
    other = tiny_model(tmp_path / "other", seed=1, max_len=1024)
    with pytest.raises(PolicyChangedError, match="is not the policy that made these shards"):
        scored(run, policy=str(other))
    moved = tiny_model(tmp_path / "moved", max_len=1024)
    assert scored(run, policy=str(moved)).facts["turns"] > 0


def test_a_gap_that_has_a_reason_is_said_aloud(tmp_path: Path, model: Path) -> None:
    run = sample(tmp_path / "run", model, tasks=1, sampling=SamplingConfig(1.0, top_k=3))
    summary = scored(run, hindsight=False)
    assert summary.facts["logprob_gap"] > 1e-2
    assert "top_k 3" in summary.warnings[0]


def values_file(path: Path, run: Path, **columns: Any) -> Path:
    turns = table(run, "turns").select("traj_id", "turn")
    turns.with_columns(value=pl.col("turn") / 10).with_columns(**columns).write_parquet(path)
    return path


def test_a_critics_values_are_joined_by_turn(tmp_path: Path, run: Path) -> None:
    file = values_file(tmp_path / "values.parquet", run)
    pl.read_parquet(file).filter(pl.col("turn") > 0).write_parquet(file)
    summary = scored(run, values=str(file))
    rows = table(run, "scores")
    later = rows.filter(pl.col("turn") > 0)
    assert later["value"].to_list() == pytest.approx([turn / 10 for turn in later["turn"]])
    assert rows.filter(turn=0)["value"].null_count() == rows.filter(turn=0).height
    assert summary.facts["valued_turns"] == rows["value"].count()
    values_file(file, run)
    with pytest.raises(ConfigMismatchError, match="values_hash"):
        scored(run, Mode.RESUME, values=str(file))


def test_values_that_cannot_be_used_are_refused_in_words(tmp_path: Path, run: Path) -> None:
    file = tmp_path / "values.parquet"
    with pytest.raises(UsageError, match="cannot be read as values"):
        scored(run, values=str(file))
    values_file(file, run, value=pl.lit(float("nan")))
    with pytest.raises(UsageError, match="not finite"):
        scored(run, values=str(file))
    values_file(file, run, turn=pl.lit(0))
    with pytest.raises(UsageError, match="duplicated keys"):
        scored(run, values=str(file))
    values_file(file, run, traj_id=pl.col("traj_id") + "x")
    with pytest.raises(UsageError, match=r"no row of .* is a turn"):
        scored(run, values=str(file))
    assert not Run(run).stage("score").exists()


@pytest.mark.parametrize(
    "estimator", ["gaca", "sharpo", "agentopsd@paper", "agentopsd@code", "hcapo"]
)
def test_methods_with_a_scoring_pass_are_credited(done: Path, estimator: str) -> None:
    credit(done, estimator, variant=estimator.replace("@", "-"))
    stage = f"advantage@{estimator.replace('@', '-')}"
    rows = table(done, "advantages", stage)
    assert set(Run(done).stage(stage).manifest().inputs) == {"rollout", "score"}
    assert rows.height == table(done, "turns").height and "local" in set(rows["reason"])


def test_methods_with_a_scoring_pass_name_the_command_without_one(
    tmp_path: Path, model: Path
) -> None:
    run = sample(tmp_path / "run", model, tasks=1)
    with pytest.raises(ShardError, match=r"sharpo needs scores, and .*score was not run") as caught:
        credit(run, "sharpo")
    assert f"prover score {run}" in str(caught.value.hint)


def test_critics_are_credited_from_a_file_of_values(tmp_path: Path, run: Path) -> None:
    scored(run, values=str(values_file(tmp_path / "values.parquet", run)))
    credit(run, "gae", "steppo", "actor-critic")
    rows = table(run, "advantages")
    assert set(rows["reason"]) == {"value_difference"}
    first = rows.filter(estimator="actor-critic").join(
        table(run, "turns").select("traj_id", "turn", "reward", "done"), on=["traj_id", "turn"]
    )
    inner = first.filter(pl.col("turn") < pl.col("turn").max().over("traj_id"))
    assert inner["advantage"].to_list() == pytest.approx(
        (inner["reward"] + (inner["turn"] + 1) / 10 - inner["turn"] / 10).to_list()
    )


def test_critical_turns_are_those_of_the_highest_entropy(run: Path) -> None:
    verify(run, k=1, engine="torch", proposer="all-turns")
    scored(run, hindsight=False)
    credit(run, "carl", knobs={"n": 1})
    rows = table(run, "advantages")
    assert set(Run(run).stage("advantage").manifest().inputs) == {"rollout", "verify", "score"}
    by_entropy = table(run, "scores").sort("entropy", "turn", descending=[True, False])
    highest = by_entropy.group_by("traj_id", maintain_order=True).first()
    critical = rows.filter(pl.col("reason") != "not_critical").select("traj_id", "turn")
    assert critical.sort("traj_id").equals(highest.select("traj_id", "turn").sort("traj_id"))


def test_the_summary_is_json(done: Path) -> None:
    assert json.loads(json.dumps(score.describe(Run(done).stage("score"))))["turns"] > 0
