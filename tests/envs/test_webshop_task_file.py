"""The frozen tasks of a shop: the same in every process, and refused where they do not belong."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from prover_cli.envs.webshop import WebShopEnvironment, world
from prover_cli.envs.webshop.generate import generate, write
from prover_cli.envs.webshop.task_file import TaskFile
from prover_cli.errors import UsageError

TASKS = ("tasks.json", "goals.arrow", "order.npy", "prices.npy")
MAKE = """
import random, sys
[random.random() for _ in range(int(sys.argv[1]))]
from prover_cli.envs.webshop import WebShopEnvironment
env = WebShopEnvironment(data=sys.argv[2], goals=sys.argv[3], price_seed=int(sys.argv[4]))
print(env.shop.catalogue.folder)
print(env.fingerprint)
"""


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """The human tasks of 30 products, to be spoilt."""
    catalogue = world.generated(30, 0)
    world.tasks(catalogue, "human", 0)
    return Path(shutil.copytree(catalogue.folder / "tasks-human-0", tmp_path / "tasks"))


def test_tasks_of_another_catalogue_are_refused_with_both_hashes(tasks: Path) -> None:
    own, other = world.generated(30, 0), world.generated(30, 1)
    assert len(TaskFile(tasks, own)) > 0
    with pytest.raises(UsageError) as caught:
        TaskFile(tasks, other)
    for part in (str(tasks), own.hash, other.hash):
        assert part in caught.value.message
    assert caught.value.hint is not None and str(tasks) in caught.value.hint


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "of another catalogue"])
def test_damaged_tasks_are_refused_with_their_folder(tasks: Path, name: str, damage: str) -> None:
    other = world.generated(45, 0)
    world.tasks(other, "human", 0)
    spoilt = {
        "empty": b"",
        "cut": (tasks / name).read_bytes()[:-5],
        "of another catalogue": (other.folder / "tasks-human-0" / name).read_bytes(),
    }
    (tasks / name).unlink()
    if damage in spoilt:
        (tasks / name).write_bytes(spoilt[damage])
    with pytest.raises(UsageError) as caught:
        TaskFile(tasks, world.generated(30, 0))
    assert str(tasks) in caught.value.message


def _made(home: Path, hash_seed: int, *arguments: str) -> tuple[dict[str, bytes], str]:
    """All files of a shop built in a process and a cache of its own, and its fingerprint."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PROVER_CACHE": str(home)}
    command = [sys.executable, "-c", MAKE, str(hash_seed * 7), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    folder, fingerprint = done.stdout.split()
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}, fingerprint


@pytest.mark.parametrize("goals", ["human", "synthetic"])
def test_every_process_builds_the_same_files(tmp_path: Path, goals: str) -> None:
    """Of caches that know nothing of each other."""
    data = tmp_path / "data"
    write(generate(40, 0), data)
    first = _made(tmp_path / "one", 1, str(data), goals, "3")
    assert first == _made(tmp_path / "two", 2, str(data), goals, "3")
    assert {name for name in first[0] if name.startswith("tasks")} == {
        f"tasks-{goals}-3/{name}" for name in (*TASKS, "parts.json")
    }


def test_processes_that_build_the_same_shop_at_once_all_end_well(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(generate(40, 0), data)
    environment = {**os.environ, "PROVER_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", MAKE, "0", str(data), "human", "0"]
    makers = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    told = {maker.communicate(timeout=120)[0] for maker in makers}
    assert [maker.returncode for maker in makers] == [0] * 3 and len(told) == 1
    assert len(list((tmp_path / "cache" / "webshop").iterdir())) == 1


def test_a_price_seed_changes_ranged_prices_and_nothing_else() -> None:
    one, same, other = (
        WebShopEnvironment(products=120, price_seed=seed).shop for seed in (0, 0, 1)
    )
    assert one.goals.hash == same.goals.hash != other.goals.hash
    low, high = one.catalogue.price_ranges()
    ranged = ~np.isnan(high)
    assert 0 < ranged.sum() < len(low)
    for shop in (one, other):
        prices = np.asarray(shop.goals.prices)
        assert (prices[~ranged] == low[~ranged]).all()
        assert ((low <= prices) & ~(prices > high))[ranged].all()
    assert (np.asarray(one.goals.prices) != other.goals.prices)[ranged].all()
    assert one.goals.asins() == other.goals.asins() == [goal.asin for goal in one.goals]


def test_hidden_prices_are_those_of_one_generator_in_catalogue_order() -> None:
    shop = WebShopEnvironment(products=120, price_seed=9).shop
    generator = random.Random(9)
    for product in shop.catalogue:
        low, *high = product.prices
        assert shop.price(product.asin) == (generator.uniform(low, high[0]) if high else low)
