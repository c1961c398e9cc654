"""A server is only used for the policy that it is known to serve."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from prover_cli.engines.openai_engine import OpenAIEngine
from prover_cli.engines.openai_policy import Policy, find
from prover_cli.engines.openai_server import Patience
from prover_cli.engines.openai_wire import ServedModel
from prover_cli.engines.scripted import ScriptedEngine
from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from tests.engines.http_server import LocalServer
from tests.policies import scripted_policy

QUICK = Patience(first_wait=0.01, longest_wait=0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "step-3")


def known(folder: Path, **card: Any) -> bool:
    return find([ServedModel(**card)], Policy.of(folder)) is not None


def test_the_folder_its_name_and_its_id_are_the_policy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert known(folder, id=str(folder), root=str(folder))
    assert known(folder, id="mine", root=str(folder))
    assert known(folder, id="step-3", root="/somewhere/else")
    assert known(folder, id=policy_id(folder), root="/somewhere/else")
    monkeypatch.chdir(folder.parent)
    assert known(Path("step-3"), id="mine", root=str(folder))
    assert known(folder, id="./step-3", root="./step-3")


def test_other_names_are_not_guessed_at(folder: Path) -> None:
    assert not known(folder, id="step-4", root="/somewhere/else")
    assert not known(folder, id="mine", root="/somewhere/step-3")
    assert not known(folder, id="org/step-3", root="org/step-3")


def test_another_folder_of_this_machine_is_compared_by_content(
    folder: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    assert known(folder, id="mine", root=str(copy))
    other = scripted_policy(tmp_path / "other" / "step-3", ["something else"])
    assert not known(folder, id="step-3", root=str(other))


def test_an_adapter_is_found_among_the_models_of_a_server(folder: Path, tmp_path: Path) -> None:
    models = [
        ServedModel(id="base", root=str(tmp_path / "base")),
        ServedModel(id="adapter", root=str(folder)),
    ]
    found = find(models, Policy.of(folder))
    assert found is not None and found.id == "adapter"


def test_a_server_of_another_model_is_refused_with_both_named(folder: Path, tmp_path: Path) -> None:
    other = scripted_policy(tmp_path / "other", ["something else"])
    local = LocalServer(ScriptedEngine(other), other)
    with pytest.raises(UsageError, match="not known to be the policy") as refused:
        OpenAIEngine(folder, servers=[local.url], patience=QUICK)
    assert str(other) in refused.value.message and str(folder) in refused.value.message
    assert refused.value.hint is not None
    assert f"vllm serve {folder}" in refused.value.hint
    assert "--logprobs-mode processed_logprobs" in refused.value.hint
    local.close()


def test_what_each_server_serves_is_on_record(folder: Path) -> None:
    local = LocalServer(ScriptedEngine(folder), folder)
    local.cards[0]["id"] = "mine"
    engine = OpenAIEngine(folder, servers=[local.url], patience=QUICK)
    served = engine.served[f"{local.url}/v1"]
    assert (served.id, served.root) == ("mine", str(folder))
    assert engine.policy_id == policy_id(folder)
    asyncio.run(engine.close())
    local.close()
