"""The generated shop: the same tasks everywhere, fair splits, and solvable but not at a glance."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prover_cli.envs.panel import SPLITS
from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.envs.webshop.generate import generate, write
from prover_cli.errors import UsageError
from prover_cli.ids import digest

FILES = ("items_human_ins.json", "items_ins_v2.json", "items_shuffle.json", "title_nouns.json")
IDENTITY = """
import json, random, sys
random.seed(int(sys.argv[1]))
[random.random() for _ in range(int(sys.argv[1]))]
from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.ids import digest
env = WebShopEnvironment(products=120, goals=sys.argv[2], price_seed=4)
session = env.start(env.tasks("all")[0], 0)
session.step("search[coffee table]")
print(json.dumps({
    "fingerprint": env.fingerprint,
    "panels": [env.tasks(s).panel_hash for s in ("train", "valid", "test", "all")],
    "prices": digest(env.shop.goals.prices.tolist()),
    "goals": digest([goal.as_json() for goal in env.shop.goals]),
    "state": session.observe().state_key,
    "text": session.observe().text,
}))
"""


def test_the_same_seed_gives_byte_identical_files(tmp_path: Path) -> None:
    for name, seed in (("one", 7), ("same", 7), ("other", 8)):
        write(generate(80, seed), tmp_path / name)
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == list(FILES)
    for file in FILES:
        one, same, other = ((tmp_path / n / file).read_bytes() for n in ("one", "same", "other"))
        assert one == same != other


@pytest.mark.parametrize("n_products", [1, 4, 5, 203])
def test_a_catalogue_has_as_many_products_as_asked(n_products: int) -> None:
    raw = generate(n_products, 0)
    assert len({item["asin"] for item in raw.items}) == len(raw.items) == n_products
    assert all(item["name"] in raw.nouns for item in raw.items)


def _identity(cache: Path, hash_seed: int, pollution: int, goals: str) -> Any:
    """The identity of a shop built in a process and with a cache of its own."""
    own = {"PYTHONHASHSEED": str(hash_seed), "PROVER_CACHE": str(cache / str(hash_seed))}
    environment = {**os.environ, **own}
    command = [sys.executable, "-c", IDENTITY, str(pollution), goals]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("goals", ["human", "synthetic"])
def test_every_process_builds_the_same_shop(tmp_path: Path, goals: str) -> None:
    first, second = _identity(tmp_path, 1, 3, goals), _identity(tmp_path, 2, 1000, goals)
    assert first == second
    here = WebShopEnvironment(products=120, goals=goals, price_seed=4)
    assert here.fingerprint == first["fingerprint"]
    assert digest(here.shop.goals.prices.tolist()) == first["prices"]


def _numpy_state() -> str:
    kind, keys, *rest = np.random.get_state(legacy=True)
    return f"{kind} {list(keys)} {rest}"


def test_global_randomness_is_neither_used_nor_touched() -> None:
    fingerprints = set()
    for seed in (0, 1):
        random.seed(seed)
        np.random.seed(seed)
        before, before_numpy = random.getstate(), _numpy_state()
        env = WebShopEnvironment(products=60)
        task = env.tasks("train").draw(None, 5)[0]
        session = env.start(task, 1)
        session.reseed(2)
        while not session.step(env.expert(task, session)).done:
            pass
        assert random.getstate() == before
        assert _numpy_state() == before_numpy
        fingerprints.add(env.fingerprint)
    assert len(fingerprints) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"price_seed": 1},
        {"catalogue_seed": 1},
        {"products": 61},
        {"goals": "synthetic"},
        {"attributes_page": True},
    ],
)
def test_whatever_decides_tasks_and_pages_is_in_the_fingerprint(options: dict[str, Any]) -> None:
    plain, other = WebShopEnvironment(products=60), WebShopEnvironment(**{"products": 60} | options)
    assert plain.fingerprint != other.fingerprint
    ids = {task.task_id for task in plain.tasks("all")}
    assert ids.isdisjoint(task.task_id for task in other.tasks("all"))


def test_task_ids_are_distinct(webshop: WebShopEnvironment) -> None:
    tasks = webshop.tasks("all")
    ids = [task.task_id for task in tasks]
    repeated = len(ids) - len(set(ids))
    contents = {digest([task.instruction, task.payload]) for task in tasks}
    assert repeated == len(ids) - len(contents)
    assert repeated < len(ids) / 50


@pytest.mark.parametrize("goals", ["human", "synthetic"])
@pytest.mark.parametrize("products", [40, 150])
def test_splits_share_no_product_and_cover_everything(goals: str, products: int) -> None:
    env = WebShopEnvironment(products=products, goals=goals)
    panels = {split: env.tasks(split) for split in SPLITS}
    asins = {s: {task.payload["asin"] for task in panel} for s, panel in panels.items()}
    indices = [task.index for s in ("train", "valid", "test") for task in panels[s]]
    assert sorted(indices) == [task.index for task in panels["all"]]
    assert asins["train"] | asins["valid"] | asins["test"] == asins["all"]
    assert sum(len(asins[s]) for s in ("train", "valid", "test")) == len(asins["all"])
    assert len(asins["train"]) > len(asins["all"]) / 2
    for split in ("valid", "test"):
        assert len(asins[split]) == pytest.approx(0.15 * len(asins["all"]), abs=0.51)
    for panel in panels.values():
        assert panel.note is not None
        assert f"{len(panels['all'])} goals" in panel.note
        assert "by product" in panel.note and "15% test" in panel.note


def test_official_data_of_enough_goals_has_the_official_ranges(tmp_path: Path) -> None:
    write(generate(450, 0), tmp_path)
    env = WebShopEnvironment(data=str(tmp_path), goals="synthetic")
    n = len(env.shop.goals)
    assert n > 1500
    ranges = {"test": range(500), "valid": range(500, 1500), "train": range(1500, n)}
    for split, expected in ranges.items():
        panel = env.tasks(split)
        assert [task.index for task in panel] == list(expected)
        assert panel.note is not None and "official ranges" in panel.note


def test_the_expert_buys_what_was_asked_for(webshop: WebShopEnvironment) -> None:
    """At least 98 % of the training tasks, each within the limit of turns, every action valid."""
    solved, first_is_wrong = 0, 0
    panel = webshop.tasks("train")
    for task in panel:
        session = webshop.start(task, 0)
        for turn in range(webshop.max_turns):
            result = session.step(webshop.expert(task, session))
            assert result.valid
            if turn == 0:
                top = session.page.listed()[:1]
                first_is_wrong += not top or top[0].asin != task.payload["asin"]
            if result.done:
                break
        solved += result.success
        assert result.success == (result.reward == 1.0)
    assert solved >= 0.98 * len(panel)
    assert first_is_wrong >= len(panel) / 3


def test_official_files_give_the_shop_they_were_written_from(tmp_path: Path) -> None:
    write(generate(60, 3), tmp_path / "shop")
    for goals in ("human", "synthetic"):
        written = WebShopEnvironment(data=str(tmp_path / "shop"), goals=goals, price_seed=2)
        made = WebShopEnvironment(products=60, catalogue_seed=3, goals=goals, price_seed=2)
        assert written.fingerprint == made.fingerprint
        for split in SPLITS:
            assert written.tasks(split).panel_hash == made.tasks(split).panel_hash
    limited = WebShopEnvironment(data=str(tmp_path / "shop"), products=20)
    assert [p.asin for p in limited.shop.catalogue] == [p.asin for p in made.shop.catalogue[:20]]


def test_unusable_options_are_refused() -> None:
    with pytest.raises(UsageError, match="human or synthetic, not 'both'"):
        WebShopEnvironment(goals="both")
    with pytest.raises(UsageError, match="text or text_rich, not 'html'"):
        WebShopEnvironment(observation="html")
