"""A model decides outcomes where it is asked to; what it does not decide has no outcome."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prover_cli.config import (
    EngineConfig,
    EnvConfig,
    JudgeConfig,
    RolloutConfig,
    SamplingConfig,
    VerifyConfig,
)
from prover_cli.engines.scripted import ScriptedEngine
from prover_cli.envs.base import Message, Task
from prover_cli.envs.toy import ToyEnvironment
from prover_cli.errors import EngineDeadError, PolicyChangedError, UsageError
from prover_cli.ids import policy_id
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run
from prover_cli.stages import judge, rollout, verify
from prover_cli.stages.report import SilentReporter
from tests.engines.http_server import LocalServer
from tests.policies import scripted_policy


class Appealed(ToyEnvironment):
    """A vault whose outcome a model may revise."""

    def grading(self, task: Task, info: Mapping[str, Any]) -> Sequence[Message]:
        return [Message("user", f"{task.instruction} Was it done?")]

    def verdict(self, reply: str) -> bool | None:
        return {"yes": True, "no": False}.get(reply)


def _config(policy: Path, **changes: Any) -> RolloutConfig:
    plain = RolloutConfig(
        EnvConfig(f"{__name__}:Appealed", {"rooms": 2}),
        SamplingConfig(),
        str(policy),
        tasks=4,
        engine=EngineConfig("scripted"),
    )
    return replace(plain, **changes)


def _graded(tmp_path: Path, *replies: str) -> RolloutConfig:
    policy = scripted_policy(tmp_path / "policy")
    grader = scripted_policy(tmp_path / "grader", replies)
    return _config(policy, grader="llm", grader_model=str(grader))


def _roll(config: RolloutConfig, run: Path, mode: Mode = Mode.REFUSE) -> Any:
    rollout.run(config, run, mode, SilentReporter())
    return Run(run).stage("rollout")


@pytest.mark.parametrize("reply", ["yes", "no"])
def test_the_verdict_is_the_outcome_and_the_rule_s_is_kept(tmp_path: Path, reply: str) -> None:
    stage = _roll(_graded(tmp_path, reply), tmp_path / "run")
    ended = stage.read("trajectories").filter(stop_reason="done")
    assert ended.height > 0
    assert set(ended["success"]) == {reply == "yes"} and set(ended["reward"]) == {reply == "yes"}
    last = [json.loads(text) for text in stage.read("turns").filter(done=True)["info_json"]]
    assert all(info["grader_reply"] == reply for info in last)
    assert {info["rule_reward"] for info in last} <= {0.0, 1.0}
    model = tmp_path / "grader"
    assert stage.manifest().config["grader_id"] == policy_id(model)


def test_a_reply_that_is_no_verdict_voids_the_episode(tmp_path: Path) -> None:
    stage = _roll(replace(_graded(tmp_path, "perhaps"), retries=0), tmp_path / "run")
    trajectories = stage.read("trajectories")
    void = trajectories.filter(stop_reason="void")
    assert void.height > 0 and void["reward"].null_count() == void.height
    assert "no verdict: 'perhaps'" in void["error_message"][0]


def test_continuations_are_graded_by_the_same_model(tmp_path: Path) -> None:
    run = tmp_path / "run"
    stage = _roll(_graded(tmp_path, "yes", "no"), run)
    judge.run(JudgeConfig(judge="uniform", max_success=7), run, Mode.REFUSE, SilentReporter())
    config = VerifyConfig(k=4, engine=EngineConfig("scripted"))
    verify.run(config, run, Mode.REFUSE, SilentReporter())
    ended = Run(run).stage("verify").read("continuations").filter(stop_reason="done")
    decided = dict(
        stage.read("trajectories")
        .filter(stop_reason="done")
        .select("group_id", "success")
        .iter_rows()
    )
    assert ended.height > 0 and set(decided.values()) == {True, False}
    assert all(decided[g] == won for g, won in ended.select("group_id", "success").iter_rows())
    scripted_policy(tmp_path / "grader", ["yes"])
    with pytest.raises(PolicyChangedError, match="not the grader of this rollout"):
        verify.run(config, run, Mode.OVERWRITE, SilentReporter())


def test_a_rollout_goes_on_with_the_same_grader_only(tmp_path: Path) -> None:
    config = _graded(tmp_path, "yes")
    _roll(config, tmp_path / "run")
    scripted_policy(tmp_path / "grader", ["no"])
    with pytest.raises(UsageError, match="grader_id"):
        _roll(config, tmp_path / "run", Mode.RESUME)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    """A server of the chat API that says yes and no as `grader-1`."""
    model = scripted_policy(tmp_path / "behind-the-server", ["yes", "no"])
    local = LocalServer(ScriptedEngine(model), model, "grader-1")
    yield local
    local.close()


def _graded_by(server: LocalServer, tmp_path: Path, **changes: Any) -> RolloutConfig:
    policy = scripted_policy(tmp_path / "policy")
    asked: dict[str, Any] = {"grader": "llm", "grader_model": "grader-1", "grader_url": server.url}
    return _config(policy, **(asked | changes))


def test_a_model_on_a_server_grades_as_a_checkpoint_does(
    tmp_path: Path, server: LocalServer
) -> None:
    stage = _roll(_graded_by(server, tmp_path), tmp_path / "run")
    local = _graded(tmp_path, "yes", "no")
    expected = _roll(local, tmp_path / "local")
    outcomes = [s.read("trajectories").select("traj_id", "success") for s in (stage, expected)]
    assert outcomes[0].equals(outcomes[1]) and outcomes[0]["success"].n_unique() == 2
    host = server.url.removeprefix("http://")
    assert stage.manifest().config["grader_id"] == f"grader-1@{host}"
    assert all(body["temperature"] == 0.0 for body in server.bodies)


def test_continuations_are_graded_on_the_same_server(tmp_path: Path, server: LocalServer) -> None:
    run = tmp_path / "run"
    _roll(_graded_by(server, tmp_path), run)
    judge.run(JudgeConfig(judge="uniform", max_success=7), run, Mode.REFUSE, SilentReporter())
    before = len(server.bodies)
    config = VerifyConfig(k=16, engine=EngineConfig("scripted"))
    verify.run(config, run, Mode.REFUSE, SilentReporter())
    ended = Run(run).stage("verify").read("continuations").filter(stop_reason="done")
    assert 0 < ended.height <= len(server.bodies) - before


def test_a_grader_on_a_server_goes_on_under_its_name_only(
    tmp_path: Path, server: LocalServer
) -> None:
    _roll(_graded_by(server, tmp_path), tmp_path / "run")
    with pytest.raises(UsageError, match="grader_id"):
        _roll(_graded_by(server, tmp_path, grader_model="other"), tmp_path / "run", Mode.RESUME)


def test_a_grader_that_is_gone_ends_the_rollout(tmp_path: Path, server: LocalServer) -> None:
    server.die()
    with pytest.raises(EngineDeadError, match="no server answers"):
        _roll(_graded_by(server, tmp_path), tmp_path / "run")


def test_a_key_in_the_grader_s_address_is_refused_before_anything_is_written(
    tmp_path: Path, server: LocalServer
) -> None:
    config = _graded_by(server, tmp_path, grader_url="http://me:sk-secret@host")
    with pytest.raises(UsageError, match="would be recorded"):
        _roll(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grader": "oracle"}, "rule or llm, not 'oracle'"),
        ({"grader": "llm"}, "needs a model"),
        ({"grader": "llm", "grader_url": "http://host"}, "needs a model"),
        ({"grader": "llm", "grader_model": "x", "env": EnvConfig("toy")}, "nothing for a model"),
    ],
)
def test_what_cannot_grade_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        _roll(_config(scripted_policy(tmp_path / "policy"), **changes), tmp_path / "run")
