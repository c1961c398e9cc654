"""Time and memory of BM25 retrieval: preparing a corpus, opening it, and searching.

    python benchmarks/retrieval.py [--passages 14347 100000 1000000] [--folder DIR]

The passages are made up: about 100 words each, as frequent as words are in real texts. A process of
its own prepares them (its peak memory is reported); another opens the result and searches, each
query once new and once again, alone and with 40 threads, and over HTTP on this machine.
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
from pathlib import Path
from typing import Any

SIZES = (14_347, 100_000, 1_000_000)
WORDS, WORDS_PER_PASSAGE, WORDS_PER_QUERY = 300_000, 100, 9
QUERIES = 200
PREPARE = """
import json, resource, sys
from prover_cli.envs.searchqa.retrieval.corpus import Silent
from prover_cli.envs.searchqa.retrieval.open import open_retriever
open_retriever("bm25", corpus=sys.argv[1], progress=Silent())
print(json.dumps({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""
SEARCH = """
import json, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from prover_cli.envs.searchqa.retrieval.corpus import Silent
from prover_cli.envs.searchqa.retrieval.open import open_retriever
from prover_cli.envs.searchqa.retrieval.server import RetrieverServer
queries = json.load(sys.stdin)

def ms(work):
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began) / len(queries)

def asked(retriever, threads):
    with ThreadPoolExecutor(threads) as pool:
        return ms(lambda: list(pool.map(lambda query: retriever.search(query, 3), queries)))

def opened():
    began = time.perf_counter()
    retriever = open_retriever("bm25", corpus=sys.argv[1], progress=Silent())
    return retriever, time.perf_counter() - began

found, seconds = opened()
found.search("warm", 3)
facts = {"open": seconds, "new": asked(found, 1), "again": asked(found, 1)}
facts["new40"] = asked(opened()[0], 40)
server = RetrieverServer(opened()[0].inner, port=0)
threading.Thread(target=server.serve_forever, daemon=True).start()
facts["http40"] = asked(open_retriever("http", url=server.url), 40)
server.stop()
print(json.dumps(facts))
"""


def words(generator: random.Random, vocabulary: list[str], n: int) -> str:
    """Words as frequent as in real texts: a few all the time, most of them hardly ever."""
    return " ".join(vocabulary[int(len(vocabulary) ** generator.random()) - 1] for _ in range(n))


def write(path: Path, n_passages: int, vocabulary: list[str]) -> None:
    """A corpus file of Search-R1's shape."""
    generator = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(n_passages):
            title = words(generator, vocabulary, 2)
            text = words(generator, vocabulary, WORDS_PER_PASSAGE)
            document = {"id": str(number), "contents": f'"{title}"\n{text}'}
            file.write(f"{json.dumps(document)}\n")


def measured(script: str, corpus: Path, cache: Path, given: str = "") -> dict[str, Any]:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script, str(corpus)],
        env={**os.environ, "PROVER_CACHE": str(cache)},
        input=given,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result | {"seconds": time.perf_counter() - began}


def report(n_passages: int, folder: Path, vocabulary: list[str]) -> None:
    corpus, cache = folder / "corpus.jsonl", folder / "cache"
    write(corpus, n_passages, vocabulary)
    built = measured(PREPARE, corpus, cache)
    kept = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) / 1e6
    print(
        f"{n_passages:,} passages, {corpus.stat().st_size / 1e6:,.0f} MB: prepared in "
        f"{built['seconds']:.1f} s, peak memory {built['peak']:,.0f} MB, cache {kept:,.0f} MB"
    )
    generator = random.Random(1)
    queries = [words(generator, vocabulary, WORDS_PER_QUERY) for _ in range(QUERIES)]
    found = measured(SEARCH, corpus, cache, json.dumps(queries))
    print(
        f"  opened in {found['open']:.2f} s; a query: new {found['new']:.2f} ms, again "
        f"{found['again']:.4f} ms; of 40 threads: new {found['new40']:.2f} ms, over HTTP "
        f"{found['http40']:.2f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, nargs="+", default=SIZES)
    parser.add_argument("--folder", type=Path, default=None, help="where to work; default: a new")
    arguments = parser.parse_args()
    generator = random.Random(2)
    vocabulary = [f"w{generator.randrange(36**6):x}" for _ in range(WORDS)]
    for n_passages in arguments.passages:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            report(n_passages, Path(name), vocabulary)


if __name__ == "__main__":
    main()
