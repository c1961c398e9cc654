"""Environments by name, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover_cli.envs import load
from prover_cli.envs.toy import ToyEnvironment
from prover_cli.errors import UsageError

OWN = """
from prover_cli.envs.toy import ToyEnvironment

number = 3

def make(*, size: int = 2) -> ToyEnvironment:
    return ToyEnvironment(rooms=size)

def any_options(**options: int) -> ToyEnvironment:
    return ToyEnvironment(rooms=options["size"])
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "vaults_of_my_own.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return "vaults_of_my_own"


def test_an_unknown_environment_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'shop'.*toy.*webshop"):
        load("shop")


@pytest.mark.parametrize(
    ("name", "known"), [("toy", "n_tasks, rooms, slip"), ("webshop", "data, goals, products")]
)
def test_an_unknown_option_names_the_known_ones(name: str, known: str) -> None:
    with pytest.raises(UsageError, match=f"{name} has no option colour, size.*{known}"):
        load(name, size=3, colour="red")


def test_a_callable_in_a_module_makes_an_environment(own_module: str) -> None:
    env = load(f"{own_module}:make", size=4)
    assert isinstance(env, ToyEnvironment)
    assert env.fingerprint == ToyEnvironment(rooms=4).fingerprint
    with pytest.raises(UsageError, match=r"no option rooms.*size"):
        load(f"{own_module}:make", rooms=4)


def test_a_callable_that_takes_any_keyword_gets_its_options(own_module: str) -> None:
    env = load(f"{own_module}:any_options", size=4)
    assert env.fingerprint == ToyEnvironment(rooms=4).fingerprint


@pytest.mark.parametrize("name", ["no_such_module_here:make", "no_such_module_here:"])
def test_a_missing_module_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="no_such_module_here"):
        load(name)


@pytest.mark.parametrize("attribute", ["missing", "number"])
def test_what_is_not_a_callable_is_a_usage_error(own_module: str, attribute: str) -> None:
    with pytest.raises(UsageError, match=attribute):
        load(f"{own_module}:{attribute}")


@pytest.mark.parametrize(
    ("env", "option", "value", "expected"),
    [
        ("alfworld", "games", "abc", "a whole number"),
        ("alfworld", "level", 1.5, "a whole number"),
        ("webshop", "price_seed", "x", "a whole number"),
        ("webshop", "products", True, "a whole number"),
        ("webshop", "attributes_page", 1, "true or false"),
        ("searchqa", "topk", "three", "a whole number"),
        ("toy", "slip", "often", "a number"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(
    env: str, option: str, value: object, expected: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(env, **{option: value})
    message = caught.value.message
    assert option in message and expected in message and repr(value) in message


def test_a_whole_number_is_a_number_and_a_text_may_look_like_one() -> None:
    assert load("toy", slip=0).fingerprint == load("toy").fingerprint
    assert len(load("alfworld", games=6, task_types=2).tasks("train")) == 1


def test_a_misspelt_option_of_searchqa_is_answered_with_all_it_has() -> None:
    with pytest.raises(UsageError, match=r"searchqa has no option topkk; it has: .*topk.*bm25: b"):
        load("searchqa", size=300, topkk=5)
