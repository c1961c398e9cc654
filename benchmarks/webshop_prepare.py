"""Time and memory of `prover tasks prepare webshop` on data of the official size.

    python benchmarks/webshop_prepare.py [--products 1181436] [--folder DIR]

The data is made up, with as many bytes, words and options a product as the official files have
(4.5 kB; 1,181,436 products are 5.3 GB, which the folder must have room for twice). The preparation
runs in a process of its own, whose peak memory is reported; then other processes open the result.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OFFICIAL = 1_181_436
BYTES_PER_PRODUCT = 4470
WORDS, INSTRUCTED, HUMAN = 300_000, 0.415, 0.0102
PREPARE = """
import json, resource, sys
from prover_cli.envs.registry import run
from prover_cli.stages.report import SilentReporter
facts = run("webshop", "prepare", SilentReporter(), data=sys.argv[1], goals="human")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({**facts, "peak_megabytes": peak}))
"""
OPEN = """
import json, random, sys, time
from prover_cli.envs.webshop import WebShopEnvironment
began = time.perf_counter()
env = WebShopEnvironment(data=sys.argv[1], nouns="words")
opened = time.perf_counter() - began
goals = [env.shop.goals[i] for i in range(min(20, len(env.shop.goals)))]
began = time.perf_counter()
for goal in goals:
    env.shop.search(goal.text)
seconds = (time.perf_counter() - began) / len(goals)
print(json.dumps({"open_seconds": opened, "search_ms": seconds * 1000}))
"""


def words(generator: random.Random, vocabulary: list[str], n: int) -> str:
    """Words as frequent as in real texts: a few all the time, most of them hardly ever."""
    return " ".join(vocabulary[int(len(vocabulary) ** generator.random()) - 1] for _ in range(n))


def product(number: int, generator: random.Random, vocabulary: list[str]) -> dict[str, Any]:
    sizes = [{"value": f"{n} inch", "image": None, "url": "x" * 40} for n in range(3)]
    item = {
        "asin": f"B{number:09d}",
        "name": words(generator, vocabulary, 18),
        "full_description": words(generator, vocabulary, 90),
        "small_description": [words(generator, vocabulary, 20) for _ in range(5)],
        "pricing": f"${generator.uniform(5, 300):.2f}",
        "product_category": "Home › Kitchen › Storage",
        "category": "garden",
        "query": words(generator, vocabulary, 2),
        "customization_options": {"size": sizes},
        "unused": "",
    }
    missing = BYTES_PER_PRODUCT - len(json.dumps(item, ensure_ascii=False).encode())
    return item | {"unused": "u" * max(missing, 0)}


def annotation(generator: random.Random, vocabulary: list[str]) -> dict[str, Any]:
    known: dict[str, Any] = {"attributes": [words(generator, vocabulary[:600], 2)] * 3}
    if generator.random() < INSTRUCTED:
        known |= {
            "instruction": f"Find me {words(generator, vocabulary, 8)}",
            "instruction_attributes": known["attributes"][:2],
        }
    return known


def write(folder: Path, n_products: int) -> None:
    """Files of the official shape, written piece by piece."""
    generator = random.Random(0)
    vocabulary = [f"w{generator.randrange(36**6):x}" for _ in range(WORDS)]
    items = (json.dumps(product(i, generator, vocabulary)) for i in range(n_products))
    _join(folder / "items_shuffle.json", "[", items, "]")
    known = (
        f'"B{i:09d}": {json.dumps(annotation(generator, vocabulary))}' for i in range(n_products)
    )
    _join(folder / "items_ins_v2.json", "{", known, "}")
    request = {
        "instruction": "i need a rack",
        "instruction_attributes": ["solid wood"],
        "instruction_options": ["1 inch"],
    }
    human = {f"B{i:09d}": [request] for i in range(0, n_products, round(1 / HUMAN))}
    (folder / "items_human_ins.json").write_text(json.dumps(human))


def _join(path: Path, opening: str, parts: Iterator[str], closing: str) -> None:
    with path.open("w") as file:
        file.write(opening + next(parts))
        for part in parts:
            file.write(f",\n{part}")
        file.write(closing)


def measured(script: str, folder: Path, cache: Path) -> dict[str, Any]:
    began = time.perf_counter()
    environment = {**os.environ, "PROVER_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result | {"process_seconds": time.perf_counter() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=OFFICIAL)
    parser.add_argument("--folder", type=Path, default=None, help="where to work; default: a new")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder, cache = Path(name, "data"), Path(name, "cache")
        folder.mkdir()
        write(folder, arguments.products)
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e9
        print(f"{arguments.products:,} products, {size:.2f} GB of JSON")
        built = measured(PREPARE, folder, cache)
        kept = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) / 1e9
        print(
            f"prepare: {built['process_seconds']:.0f} s, peak memory "
            f"{built['peak_megabytes']:.0f} MB, cache {kept:.2f} GB, goals {built['goals']}"
        )
        for _ in range(2):
            found = measured(OPEN, folder, cache)
            print(f"open: {found['open_seconds']:.2f} s, search {found['search_ms']:.1f} ms")


if __name__ == "__main__":
    main()
