"""`prover compare` as a user calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.run import ROOT, environment, prover, succeed
from tests.policies import scripted_policy
from tests.views.compare_runs import whole

REFERENCE = ("--reference", "vineppo", "--reference-from", "verify@audit")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole(tmp_path_factory.mktemp("hand"))


def test_no_advantage_stage_and_no_torch_are_needed(run: Path) -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from prover_cli.app import app; "
        "results = [CliRunner().invoke(app, ['compare', *words]) for words in "
        f"(['estimators', {str(run)!r}], ['judges', {str(run)!r}], "
        f"['estimators', {str(run)!r}, *{REFERENCE!r}])]; "
        "assert [r.exit_code for r in results] == [0, 0, 0], [r.output for r in results]; "
        "loaded = [n for n in ('torch', 'transformers', 'vllm', 'openai') if n in sys.modules]; "
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())
    assert not (run / "advantage").exists()


def test_estimators_are_data_on_stdout_and_a_drawing(run: Path, tmp_path: Path) -> None:
    plot = tmp_path / "compared.svg"
    result = prover(
        "compare", "estimators", run, "--estimator", "grpo,prover", "--lambda", "2", "--json",
        "--plot", plot,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["estimators"][1]["most_raised"][0]["advantage"] == 1.5
    assert f"drawn in {plot}" in result.stderr
    assert ElementTree.fromstring(plot.read_text()).tag.endswith("svg")


def test_an_audit_is_data_on_stdout(run: Path) -> None:
    facts = json.loads(succeed("compare", "estimators", run, *REFERENCE, "--decided", "--json"))
    assert facts["reference"]["compared_turns"] == 4
    assert [one["estimator"] for one in facts["estimators"]] == ["grpo", "prover"]


def test_judges_are_data_on_stdout(run: Path) -> None:
    facts = json.loads(succeed("compare", "judges", run, "--json"))
    assert facts["judges"][0]["verified"][0]["mean_gain"] == 0.5
    assert facts["judges"][0]["segment_rate"] == 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--decided",), "need a --reference"),
        ((*REFERENCE, "--per-task"), "exclude each other"),
        (("--estimator", "oracle"), "no estimator called 'oracle'"),
        (("--estimator", "vineppo:audit"), "there is no stage 'audit'"),
        (("--estimator", "prover:verify@gone"), "verify@gone was not run"),
    ],
)
def test_what_cannot_be_compared_is_told_in_words(
    run: Path, words: tuple[str, ...], message: str
) -> None:
    result = prover("compare", "estimators", run, *words)
    assert result.returncode == 2 and message in result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""


@pytest.mark.slow
def test_the_audit_pipeline_ends_with_scores(tmp_path: Path) -> None:
    policy = scripted_policy(tmp_path / "policy")
    (tmp_path / "vault.toml").write_text('env-option = ["rooms=2"]\nmax-turns = 8\n')
    command: list[str | Path] = [
        "bash", ROOT / "pipelines" / "audit.sh", "--env", "toy", "--policy", policy,
        "--out", tmp_path / "run", "--config", tmp_path / "vault.toml", "--engine", "scripted",
        "--tasks", "8", "--k", "2", "--audit-k", "4", "--plots", tmp_path / "plots",
    ]  # fmt: skip
    result = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "reference: vineppo of verify@audit" in result.stdout
    assert "prover:verify@random" in result.stdout and "judge@random" in result.stdout
    assert "share continuations" not in result.stderr
    assert len(list((tmp_path / "plots").glob("*-toy.svg"))) == 3
