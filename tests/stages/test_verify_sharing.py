"""What was sampled once is never sampled again: value caches, top-ups, shared boundaries."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest

from prover_cli.config import SamplingConfig
from prover_cli.engines.base import FinishReason, Generation, GenerationRequest, Sampling
from prover_cli.engines.scripted import ScriptedEngine
from prover_cli.errors import ConfigMismatchError, EngineDeadError, ShardError, UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Stage
from prover_cli.stages import verify as verify_stage
from prover_cli.stages.report import Summary
from prover_cli.stages.verify import KEPT
from prover_cli.stages.verify_cache import CACHED, ValueCache
from prover_cli.stages.verify_sample import Metered, PromptTokens
from tests.policies import behave, scripted_policy
from tests.stages.pipeline import Listener, judge, rollout, table, verify, verify_config

_TABLES = ("continuations", "values", "estimates")


def prepared(run: Path, policy: Path, **changes: object) -> Path:
    rollout(run, policy, {"slip": 0.3}, **changes)
    judge(run)
    return run


def facts(run: Path, name: str, stage: str = "verify") -> pl.DataFrame:
    return table(run, name, stage).drop("seconds", "cached", "source", strict=False)


def same(run: Path, one: str, other: str) -> bool:
    return all(facts(run, name, one).equals(facts(run, name, other)) for name in _TABLES)


def top_up(run: Path, k: int, mode: Mode = Mode.REFUSE, **changes: object) -> Summary:
    config = verify_config(k, **changes)  # type: ignore[arg-type]
    return verify_stage.run(config, run, mode, Listener(), top_up=True)


def test_a_cached_verification_finds_the_same_and_samples_nothing(
    tmp_path: Path, policy: Path
) -> None:
    run, cache = prepared(tmp_path / "run", policy), str(tmp_path / "cache")
    first = verify(run, k=4, value_cache=cache)
    behave(policy, fail_after=0)
    again = verify(run, k=4, value_cache=cache, variant="again")
    assert first.facts["continuations"] > 0 and first.facts["cached_continuations"] == 0
    assert again.facts["continuations"] == 0 and again.facts["action_tokens"] == 0
    assert again.facts["cached_continuations"] == first.facts["continuations"]
    assert again.facts["cached_action_tokens"] == first.facts["action_tokens"]
    assert again.exit_code == 0
    assert same(run, "verify", "verify@again")
    assert set(table(run, "values", "verify@again")["source"]) == {"cached"}
    assert table(run, "continuations", "verify@again")["cached"].all()


def test_a_cache_changes_the_cost_and_not_the_result(tmp_path: Path, policy: Path) -> None:
    run, cache = prepared(tmp_path / "run", policy), str(tmp_path / "cache")
    verify(run, k=2, value_cache=cache, variant="small")
    verify(run, k=6)
    partly = verify(run, k=6, value_cache=cache, variant="partly")
    assert partly.facts["continuations"] == 2 * partly.facts["cached_continuations"] > 0
    assert same(run, "verify", "verify@partly")


def test_judges_that_propose_the_same_states_share_them(tmp_path: Path, policy: Path) -> None:
    run, cache = prepared(tmp_path / "run", policy), str(tmp_path / "cache")
    judge(run, judge="last", variant="last")
    verify(run, k=4, value_cache=cache, proposer="all-turns", variant="all")
    for source, variant in (("judge", None), ("judge@last", "last")):
        summary = verify(run, k=4, value_cache=cache, source=source, variant=variant)
        assert summary.facts["continuations"] == 0 < summary.facts["verified"]


def test_another_run_from_the_same_state_shares_it(tmp_path: Path, policy: Path) -> None:
    """The first state of a task does not depend on how its group was sampled."""
    cache = str(tmp_path / "cache")
    for seed in (0, 1):
        run = tmp_path / str(seed)
        rollout(run, policy, {"slip": 0.3}, tasks=12, seed=seed)
        summary = verify(run, k=2, proposer="every:99", value_cache=cache)
    assert summary.facts["continuations"] == 0
    assert summary.facts["cached_continuations"] == 24
    other = [table(tmp_path / str(seed), "values") for seed in (0, 1)]
    assert set(other[0]["state_id"]) == set(other[1]["state_id"])


@pytest.mark.parametrize(
    "change", [{"slip": 0.2}, {"max_turns": 9}, {"history": "1"}, {"temperature": 0.5}]
)
def test_another_setting_shares_nothing(
    tmp_path: Path, policy: Path, change: dict[str, object]
) -> None:
    cache = str(tmp_path / "cache")
    prepared(tmp_path / "one", policy, tasks=2)
    verify(tmp_path / "one", k=2, value_cache=cache, proposer="all-turns")
    sampling = SamplingConfig(temperature=0.5) if change.pop("temperature", None) else None
    options = {"slip": change.pop("slip", 0.3)}
    rollout(tmp_path / "two", policy, options, tasks=2, sampling=sampling, **change)
    summary = verify(tmp_path / "two", k=2, value_cache=cache, proposer="all-turns")
    assert summary.facts["cached_continuations"] == 0


def test_another_policy_or_seed_shares_nothing(tmp_path: Path, policy: Path) -> None:
    cache = str(tmp_path / "cache")
    prepared(tmp_path / "one", policy, tasks=2)
    verify(tmp_path / "one", k=2, value_cache=cache, proposer="all-turns")
    prepared(tmp_path / "two", scripted_policy(tmp_path / "other", ("go", "open")), tasks=2)
    for run, settings in (("two", {}), ("one", {"seed": 1})):
        summary = verify(
            tmp_path / run, k=2, value_cache=cache, proposer="all-turns", variant="x", **settings
        )
        assert summary.facts["cached_continuations"] == 0


def test_void_continuations_are_tried_again(tmp_path: Path, policy: Path) -> None:
    run, cache = prepared(tmp_path / "run", policy), str(tmp_path / "cache")
    behave(policy, fail_requests=0.2)
    failed = verify(run, k=4, value_cache=cache, retries=0)
    behave(policy)
    healed = verify(run, k=4, value_cache=cache, variant="healed")
    assert healed.facts["continuations"] == failed.facts["void"] > 0 == healed.facts["void"]


def test_writers_of_one_cache_do_not_disturb_each_other(tmp_path: Path, policy: Path) -> None:
    run = prepared(tmp_path / "run", policy)
    verify(run, k=2)
    rows = table(run, "continuations").to_dicts()
    caches = [ValueCache(tmp_path / "cache", "p", 0) for _ in range(4)]
    threads = [threading.Thread(target=cache.add, args=(rows,)) for cache in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list((tmp_path / "cache" / "p").glob("*.parquet"))) == 4
    found = ValueCache(tmp_path / "cache", "p", 0).find({row["state_id"] for row in rows})
    assert len(found) == len(rows)
    assert set(found) == {(row["state_id"], row["k"]) for row in rows}
    assert "seed" in CACHED.names and "group_id" not in CACHED.names


def test_a_damaged_cache_file_is_named(tmp_path: Path, policy: Path) -> None:
    run, cache = prepared(tmp_path / "run", policy), tmp_path / "cache"
    verify(run, k=2, value_cache=str(cache))
    broken = next(cache.rglob("*.parquet"))
    broken.write_bytes(b"PAR1")
    with pytest.raises(ShardError, match="the value cache cannot be read") as caught:
        verify(run, k=2, value_cache=str(cache), variant="x")
    assert str(broken) in str(caught.value.hint)


def test_a_top_up_samples_what_is_missing_and_pools(tmp_path: Path, policy: Path) -> None:
    run = prepared(tmp_path / "run", policy)
    verify(run, k=6, variant="whole")
    first = verify(run, k=2)
    summary = top_up(run, 6)
    assert summary.facts["cached_continuations"] == first.facts["continuations"]
    assert summary.facts["continuations"] == 2 * first.facts["continuations"]
    assert same(run, "verify", "verify@whole")
    assert not (run / KEPT).exists()
    assert top_up(run, 6).did_nothing


def test_a_top_up_that_dies_loses_nothing(tmp_path: Path, policy: Path) -> None:
    run = prepared(tmp_path / "run", policy)
    verify(run, k=6, variant="whole")
    verify(run, k=4)
    behave(policy, fail_after=3)
    with pytest.raises(EngineDeadError):
        top_up(run, 6)
    behave(policy)
    summary = top_up(run, 6)
    assert summary.facts["cached_continuations"] == 2 * summary.facts["continuations"]
    assert same(run, "verify", "verify@whole")


def test_a_top_up_may_change_the_size_alone(tmp_path: Path, policy: Path) -> None:
    run = prepared(tmp_path / "run", policy)
    with pytest.raises(UsageError, match="was not run"):
        top_up(run, 4)
    verify(run, k=2)
    with pytest.raises(UsageError, match="differs in seed"):
        top_up(run, 4, seed=1)
    with pytest.raises(UsageError, match="writes a whole stage"):
        top_up(run, 4, mode=Mode.RESUME)
    assert Stage(run, "verify").manifest().config["k"] == 2
    with pytest.raises(ConfigMismatchError, match="k: 2 -> 4") as caught:
        verify_stage.run(verify_config(4), run, Mode.RESUME, Listener())
    assert "--top-up" in str(caught.value.hint)
    assert top_up(run, 8, adaptive=True).facts["cached_continuations"] > 0


def test_neighbouring_segments_share_the_state_between_them(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, {"rooms": 4, "slip": 0.3}, tasks=2)
    summary = verify(run, k=3, proposer="random:99")
    estimates = table(run, "estimates")
    lengths = dict(table(run, "trajectories").select("traj_id", "n_turns").iter_rows())
    assert estimates.height == sum(n - 1 for n in lengths.values())
    states = table(run, "continuations")["state_id"].n_unique()
    assert summary.facts["continuations"] == 3 * states < 3 * 2 * estimates.height


class Prefixed:
    """An engine that had computed all but the last two tokens of every prompt."""

    name, policy_id, max_model_len = "prefixed", "p", 100

    async def generate(self, request: GenerationRequest) -> Generation:
        n_cached = len(request.prompt_ids) - 2
        return Generation((1,), (0.0,), FinishReason.STOP, n_cached=n_cached)

    def load_policy(self, path: Path) -> str:
        return self.policy_id

    async def close(self) -> None:
        pass


def test_prompt_tokens_that_were_computed_before_are_counted() -> None:
    engine = Metered(Prefixed())
    sampling = Sampling(max_tokens=1, stop_ids=(1,))

    async def ask() -> None:
        for session, n in (("a", 10), ("a", 20), ("b", 5)):
            await engine.generate(GenerationRequest(tuple(range(n)), sampling, 0, session))

    asyncio.run(ask())
    assert engine.sessions == {"a": PromptTokens(30, 26), "b": PromptTokens(5, 3)}


class Listening(ScriptedEngine):
    """Notes the order in which states are asked for."""

    asked: ClassVar[list[str]] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        state = str(request.session).partition("/")[0]
        if state not in self.asked[-1:]:
            self.asked.append(state)
        return await super().generate(request)


def test_the_continuations_of_a_state_are_submitted_together(
    tmp_path: Path, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepared(tmp_path / "run", policy)
    monkeypatch.setattr(Listening, "asked", [])
    monkeypatch.setattr("prover_cli.stages.verify_work.open_engine", lambda _, p: Listening(p))
    verify(run, k=4, concurrency=1)
    assert len(Listening.asked) == len(set(Listening.asked)) > 2
