"""A judge on a server that misbehaves: what passes is asked again, and no key is ever written."""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from prover_cli.config import EngineConfig, JudgeConfig
from prover_cli.engines.chat_server import ServerChat
from prover_cli.engines.openai_server import Patience
from prover_cli.engines.scripted import ScriptedEngine
from prover_cli.errors import EngineDeadError, UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run
from prover_cli.stages import judge as judge_stage
from prover_cli.stages import judge_setup
from prover_cli.stages.report import Summary
from tests.engines.http_server import LocalServer
from tests.policies import scripted_policy
from tests.stages.pipeline import Listener, facts_of, table

QUICK = Patience(answer=5.0, first_wait=0.01, longest_wait=0.05, probe=0.05, outage=0.5, tries=3)
SUBMIT = {"tool": "submit", "start_turn": 0, "end_turn": 1, "failure_mode": "m", "rationale": "r"}
KEY = "sk-secret-of-mine"


@pytest.fixture
def run(tmp_path: Path, sampled: Path) -> Path:
    return Path(shutil.copytree(sampled, tmp_path / "run"))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setattr(
        judge_setup, "open_chat", lambda engine, model, url: ServerChat(url, model, patience=QUICK)
    )
    reply = json.dumps({**SUBMIT, "confidence": 0.5})
    folder = scripted_policy(tmp_path / "served", [reply], max_len=60_000)
    local = LocalServer(ScriptedEngine(folder), folder, "judge-1")
    yield local
    local.close()


def judged(run: Path, server: LocalServer, **changes: Any) -> tuple[Summary, Listener]:
    variant, mode = changes.pop("variant", None), changes.pop("mode", Mode.REFUSE)
    listener, engine = Listener(), EngineConfig("scripted", "cpu", concurrency=4)
    settings = {"judge_model": "judge-1", "judge_url": server.url, "max_success": 7, **changes}
    config = JudgeConfig(engine=engine, **settings)
    return judge_stage.run(config, run, mode, listener, variant), listener


def statuses(run: Path, stage: str = "judge") -> dict[str, int]:
    """How often each status is there, of the groups that are eligible."""
    rows = table(run, "proposals", stage).filter(pl.col("status") != "no_success")
    return dict(rows["status"].value_counts().iter_rows())


def test_a_server_judges(run: Path, server: LocalServer) -> None:
    _, listener = judged(run, server)
    host = server.url.removeprefix("http://")
    assert "judge agentic: --judge-model and --judge-url given" in listener.notes
    rows = table(run, "proposals")
    assert statuses(run) == {"ok": 3}
    assert set(rows["judge_model"].drop_nulls()) == {f"judge-1@{host}"}
    assert all("response_format" in body for body in server.bodies)
    assert len({body["seed"] for body in server.bodies}) == len(server.bodies) == 3
    schemas = {json.dumps(body["response_format"]) for body in server.bodies}
    assert len(schemas) == 1


@pytest.mark.parametrize("fault", ["slow", "busy", "error", "half", "cut", "reset", "html"])
def test_a_fault_that_passes_changes_no_proposal(
    run: Path, server: LocalServer, fault: str
) -> None:
    judged(run, server, variant="calm")
    server.slow_seconds = 0.1
    server.misbehave(fault, fault)
    judged(run, server)
    assert facts_of(run, "proposals").equals(facts_of(run, "proposals", "judge@calm"))


@pytest.mark.parametrize("fault", ["bad", "filtered"])
def test_a_request_that_is_refused_is_no_reply(run: Path, server: LocalServer, fault: str) -> None:
    server.misbehave(fault)
    summary, _ = judged(run, server)
    assert statuses(run) == {"ok": 2, "no_reply": 1} and summary.exit_code == 0
    server.always = fault
    summary, _ = judged(run, server, variant="never")
    assert statuses(run, "judge@never") == {"no_reply": 3} and summary.exit_code == 3


def test_another_model_on_the_server_is_refused(run: Path, server: LocalServer) -> None:
    with pytest.raises(UsageError, match="has no model 'judge-2'; it has: judge-1"):
        judged(run, server, judge_model="judge-2")


def test_a_server_that_takes_no_schemas_is_noted_and_its_replies_are_parsed(
    run: Path, server: LocalServer
) -> None:
    server.always = "no schema"
    _, listener = judged(run, server)
    assert statuses(run) == {"ok": 3}
    assert any("refuses JSON schemas" in note for note in listener.notes)


def test_a_server_that_dies_stops_the_stage_and_resume_goes_on(
    run: Path, server: LocalServer, tmp_path: Path
) -> None:
    cache = str(tmp_path / "cache")
    server.die()
    with pytest.raises(EngineDeadError):
        judged(run, server, judge_cache=cache)
    assert Run(run).stage("judge").manifest().state == "running"
    server.come_back()
    judged(run, server, judge_cache=cache, mode=Mode.RESUME)
    assert statuses(run) == {"ok": 3}


def test_a_recorded_server_need_not_be_there(
    run: Path, server: LocalServer, tmp_path: Path
) -> None:
    cache = str(tmp_path / "cache")
    judged(run, server, judge_cache=cache)
    server.die()
    judged(run, server, judge_cache=cache, variant="again")
    assert facts_of(run, "proposals").equals(facts_of(run, "proposals", "judge@again"))


def test_the_key_is_sent_and_nowhere_written(
    run: Path, server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVER_API_KEY", KEY)
    _, listener = judged(run, server, judge_cache=str(tmp_path / "cache"))
    assert server.keys == {f"Bearer {KEY}"}
    server.always = "unauthorised"
    with pytest.raises(UsageError, match="refuses the key") as refused:
        judged(run, server, variant="refused")
    text = "".join(traceback.format_exception(refused.value))
    everything = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    assert all(KEY.encode() not in content for content in everything)
    assert KEY not in text and all(KEY not in note for note in listener.notes)
