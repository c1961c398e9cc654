"""`prover judge` says which judge it takes and why, and keeps its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.run import prover, succeed
from tests.policies import VAULT_REPLIES, behave, scripted_policy, tiny_model

SUBMIT = (
    '{"tool": "submit", "start_turn": 0, "end_turn": 1, "failure_mode": "no key", '
    '"rationale": "it takes the key", "confidence": 0.9}'
)
SCRIPTED = ("--engine", "scripted", "--max-success", "7")


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("judged")
    policy = scripted_policy(home / "policy", (*VAULT_REPLIES, "go", "go"))
    toy = ("--env", "toy", "--engine", "scripted", "--policy", policy, "--tasks", "8")
    succeed("rollout", *toy, "--groups-per-shard", "2", "--out", home / "run")
    return home / "run"


@pytest.fixture
def run(tmp_path: Path, sampled: Path) -> Path:
    return Path(shutil.copytree(sampled, tmp_path / "run"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "model", [SUBMIT], max_len=60_000)


def test_without_a_model_contrast_judges_and_says_why(run: Path) -> None:
    result = prover("judge", run)
    assert result.returncode == 0
    assert "judge contrast: no --judge-model or --judge-url is given" in result.stderr


@pytest.mark.parametrize("how", ["flag", "variable", "file"])
def test_a_model_makes_the_agentic_judge_however_it_is_named(
    run: Path, model: Path, tmp_path: Path, how: str
) -> None:
    file = tmp_path / "judge.toml"
    file.write_text(f'[judge]\njudge-model = "{model}"\n')
    given = {"flag": ["--judge-model", model], "file": ["--config", file]}.get(how, [])
    variables = {"PROVER_JUDGE_MODEL": str(model)} if how == "variable" else {}
    result = prover("judge", run, *SCRIPTED, "--json", *given, **variables)
    assert result.returncode == 0, result.stderr
    assert "judge agentic: --judge-model given" in result.stderr
    facts = json.loads(result.stdout)
    assert 0 < facts["status"]["ok"] <= facts["asked"] and facts["answer_rate"] == 1.0
    succeed("validate", run)


def test_a_dry_run_shows_the_judge_that_would_be_taken() -> None:
    shown = json.loads(
        succeed(
            "judge",
            "nowhere",
            "--dry-run",
            "--judge-url",
            "http://x:1",
            "--judge-model",
            "m",
            "--labels",
            "turns,first-error",
            "--judge-price",
            "0.25,2",
        )
    )
    assert shown["judge"] == "agentic" and shown["labels"] == ["turns", "first_error"]
    assert shown["judge_price"] == [0.25, 2.0]
    assert json.loads(succeed("judge", "nowhere", "--dry-run"))["judge"] == "contrast"


def test_wrong_settings_are_usage_errors(run: Path) -> None:
    for words, said in (
        (["--judge-price", "cheap"], "--judge-price is IN,OUT"),
        (["--labels", "nice"], "--labels knows"),
        (["--judge-url", "http://me:pass@host"], "which model"),
        (["--judge-url", "http://me:pass@host", "--judge-model", "m"], "would be recorded"),
        (["--judge", "ensemble:last"], "two or more"),
        (["--trajectory", "best", "--judge", "agentic"], "--trajectory is"),
    ):
        result = prover("judge", run, *words)
        assert result.returncode == 2 and said in result.stderr and "pass@" not in result.stderr


def test_a_model_that_dies_is_exit_code_3_and_resume_goes_on(run: Path, model: Path) -> None:
    behave(model, fail_after=1)
    stopped = prover("judge", run, *SCRIPTED, "--judge-model", model, "--concurrency", "1")
    assert stopped.returncode == 3 and "Traceback" not in stopped.stderr
    behave(model)
    succeed("judge", run, *SCRIPTED, "--judge-model", model, "--resume")
    again = prover("judge", run, *SCRIPTED, "--judge-model", model, "--resume")
    assert "already complete: nothing to do" in again.stderr


def test_a_server_that_is_not_there_is_exit_code_3(run: Path) -> None:
    words = ("--judge-url", "http://127.0.0.1:9", "--judge-model", "m", "--max-success", "7")
    result = prover("judge", run, *words, PROVER_API_KEY="sk-secret-of-mine")
    assert result.returncode == 3 and "no server answers" in result.stderr
    assert "sk-secret" not in result.stderr + result.stdout


@pytest.mark.slow
def test_a_real_model_that_talks_nonsense_gives_invalid_replies(run: Path, tmp_path: Path) -> None:
    small = tiny_model(tmp_path / "small", max_len=20_000)
    words = ("--judge-model", small, "--engine", "torch", "--device", "cpu", "--max-success", "7")
    short = ("--judge-max-tokens", "8", "--max-repairs", "1", "--json")
    result = prover("judge", run, *words, *short)
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["status"]["invalid_reply"] == facts["asked"] > 0
    assert facts["replies"] == 2 * facts["asked"] and "nothing to verify" in result.stderr
