"""The paper's presets: every stage accepts every one, with the values that the paper states."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from prover_cli.app import app
from prover_cli.envs.alfworld.generate import games
from prover_cli.envs.alfworld.prepare import write
from prover_cli.envs.searchqa.panels import PRESETS
from prover_cli.envs.webshop.prepare import generate_files
from prover_cli.stages.report import SilentReporter
from tests.cli.run import environment

PIPELINES = Path(__file__).parents[2] / "pipelines"
FILES = sorted(PIPELINES.glob("paper-*.toml"))
ENVS = ("alfworld", "webshop", "searchqa")
MODELS = ("qwen3.5-2b", "qwen3.5-4b")
MACHINES = ("1gpu", "8gpus")
PRESETS_ = list(itertools.product(ENVS, MODELS, MACHINES))
TURNS = {"alfworld": 50, "webshop": 15, "searchqa": 30}
PANELS = {"alfworld": 134, "webshop": 500, "searchqa": 400}
STATED = {
    "env", "tasks", "group-size", "min-success", "max-success", "max-segment", "k", "estimator",
    "lambda", "gate", "knob", "outcome", "samples", "max-turns", "policy",
}  # fmt: skip
"""What the paper says, and the names of its environments and models."""


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name == "ALFWORLD_DATA" or (name.startswith("PROVER_") and name != "PROVER_CACHE"):
            monkeypatch.delenv(name)


Variables = dict[str, str]


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Variables]:
    """Generated data of the official form and size: the variables that name it, by environment."""
    home = tmp_path_factory.mktemp("data")
    for env, make in (("alfworld", _games), ("webshop", _goals), ("searchqa", _questions)):
        make(home / env)
    named = {env: {f"PROVER_{env.upper()}_DATA": str(home / env)} for env in ENVS}
    named["searchqa"]["PROVER_SEARCHQA_CORPUS"] = str(home / "corpus.jsonl")
    return named


def _games(folder: Path) -> None:
    for split, n in (("train", 16), ("valid_unseen", 134)):
        for game in games(split, 1, n, 0):
            write(game, folder / "json_2.1.1")


def _goals(folder: Path) -> None:
    generate_files(SilentReporter(), out=str(folder), products=20)
    path = folder / "items_human_ins.json"
    human = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({asin: own * 150 for asin, own in human.items()}))


def _questions(folder: Path) -> None:
    folder.mkdir()
    for source, n in {**PRESETS["paper"], "nq/train": 16}.items():
        rows = [{"id": f"{source} {i}", "question": f"{source} {i}?", "golden_answers": ["x"]}
                for i in range(n)]  # fmt: skip
        path = folder / f"{source if '/' in source else source + '/test'}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(map(json.dumps, rows)))
    passage = {"id": "0", "contents": '"Title"\ntext'}
    (folder.parent / "corpus.jsonl").write_text(json.dumps(passage))


def layers(env: str, model: str, machine: str) -> list[str]:
    """The `--config` options of a preset."""
    parts = ("method", env, model, machine)
    return [word for part in parts for word in ("--config", str(PIPELINES / f"paper-{part}.toml"))]


def dry(*words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--dry-run"])


def resolved(*words: str) -> dict[str, Any]:
    result = dry(*words)
    assert result.exit_code == 0, f"{words}: {result.output}"
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


@pytest.mark.parametrize("preset", PRESETS_, ids="-".join)
def test_every_stage_accepts_every_preset(
    preset: tuple[str, str, str],
    stand_ins: dict[str, Variables],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env, model, machine = preset
    for name, value in stand_ins[env].items():
        monkeypatch.setenv(name, value)
    configs = layers(*preset)

    rollout = resolved("rollout", *configs)
    assert (rollout["tasks"], rollout["group_size"]) == (16, 8)
    assert rollout["env"]["name"] == env and rollout["env"]["max_turns"] == TURNS[env]
    assert rollout["policy"] == f"models/Qwen3.5-{model[-2:].upper()}"

    judge = resolved("judge", "run", *configs)
    assert (judge["min_success"], judge["max_success"], judge["max_segment"]) == (1, 3, 4)
    verify = resolved("verify", "run", *configs)
    assert verify["k"] == 8
    advantage = resolved("advantage", "run", *configs)
    assert advantage["estimators"] == ["prover"]
    knobs = {"lambda_": 1.0, "gate": "positive", "outcome": "success", "norm": "mean"}
    assert advantage["knobs"] == knobs
    update = resolved("update", "run", *configs)
    assert (update["epochs"], update["minibatches"]) == (1, 1)

    evaluate = resolved("evaluate", "run", "--policy", "any", *configs)
    assert (evaluate["tasks"], evaluate["group_size"]) == (PANELS[env], 3)
    assert evaluate["split"] == "test" and evaluate["env"]["max_turns"] == TURNS[env]

    replicas = 8 if machine == "8gpus" else 1
    for stage in (rollout, verify, evaluate):
        assert stage["engine"]["name"] == "vllm"
        assert stage["engine"]["data_parallel"] == replicas
    for key in ("prompt", "history", "thinking"):
        assert rollout["env"][key] == evaluate["env"][key]


@pytest.mark.parametrize("env", ENVS)
def test_a_rollout_needs_no_data_and_an_evaluation_says_that_it_does(env: str) -> None:
    configs = layers(env, *MODELS[:1], *MACHINES[:1])
    assert resolved("rollout", *configs)["env"]["options"].get("data") is None
    result = dry("evaluate", "run", "--policy", "any", *configs)
    assert result.exit_code == 2
    assert re.search(r"has only|too few", result.stderr), result.stderr


def test_the_searches_of_searchqa_leave_the_last_turn_for_the_answer() -> None:
    options = resolved("rollout", *layers("searchqa", *MODELS[:1], *MACHINES[:1]))["env"]["options"]
    assert options["searches"] + 1 == TURNS["searchqa"]


def test_a_later_file_beats_an_earlier_one(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[verify]\nk = 4\n")
    configs = layers("webshop", *MODELS[:1], *MACHINES[:1])
    assert resolved("verify", "run", *configs, "--config", str(own))["k"] == 4
    assert resolved("verify", "run", "--config", str(own), *configs)["k"] == 8


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_the_paper_does_not_state_is_marked_as_our_choice(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    found = 0
    for line in text.splitlines():
        if match := re.match(r"([\w-]+) = ", line):
            found += 1
            if match.group(1) not in STATED and not line.startswith('split = "test"'):
                assert "# our choice" in line, f"{file.name}: {line}"
    tables = tomllib.loads(text)
    assert found == sum(len(v) if isinstance(v, dict) else 1 for v in tables.values())


def script(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `paper.sh` with this interpreter's `prover`."""
    variables["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", str(PIPELINES / "paper.sh"), *words],
        env=environment(**variables),
        cwd=cwd,
        capture_output=True,
        text=True,
    )


def documents(text: str) -> list[Any]:
    """JSON documents one after the other."""
    found, place = [], 0
    while text[place:].strip():
        value, length = json.JSONDecoder().raw_decode(text[place:].lstrip())
        place += len(text[place:]) - len(text[place:].lstrip()) + length
        found.append(value)
    return found


@pytest.mark.slow
def test_the_script_shows_every_stage(tmp_path: Path, stand_ins: dict[str, Variables]) -> None:
    words = ("--env", "webshop", "--model", "4b", "--gpus", "8", "--dry-run")
    shown = script(*words, cwd=tmp_path, **stand_ins["webshop"])
    assert shown.returncode == 0, shown.stderr
    rollout, _, verify, *_, evaluate = documents(shown.stdout)
    assert rollout["policy"] == "models/Qwen3.5-4B" and rollout["engine"]["data_parallel"] == 8
    assert verify["k"] == 8 and evaluate["tasks"] == 500


def test_the_script_refuses_at_once_what_would_fail_at_the_end(tmp_path: Path) -> None:
    refused = script("--env", "webshop", "--model", "2b", "--gpus", "1", cwd=tmp_path)
    assert refused.returncode == 2 and "has only" in refused.stderr
    unknown = script("--env", "chess", "--model", "2b", "--gpus", "1", cwd=tmp_path)
    assert unknown.returncode == 2 and "paper-chess.toml" in unknown.stderr
    assert list(tmp_path.iterdir()) == []
