"""`prover serve-retriever` says where it is, answers both protocols, and stops when asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.cli.run import PROVER, environment, prover


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    documents = (
        {"id": str(i), "contents": f'"Number {i}"\none more than {1000 + i}'} for i in range(500)
    )
    path.write_text("".join(f"{json.dumps(document)}\n" for document in documents))
    return path


@contextmanager
def server(corpus: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [*PROVER, "serve-retriever", "--corpus", str(corpus), "--port", "0", *options],
        env=environment() | {"PROVER_CACHE": os.environ["PROVER_CACHE"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), process.communicate(timeout=20)
        yield process, url
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_until_it_is_stopped(corpus: Path, number: signal.Signals) -> None:
    with server(corpus, "--topk", "2") as (process, url):

        def ask(i: int) -> str:
            body = {"queries": [f"number {i}"], "return_scores": True}
            result = httpx2.post(f"{url}/retrieve", json=body, timeout=30).json()["result"]
            assert len(result[0]) == 2
            return str(result[0][0]["document"]["id"])

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(ask, range(10, 30)))
        assert found == [str(i) for i in range(10, 30)]
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == "" and "bm25(k1=0.9, b=0.4)" in err and "stopped" in err
    assert "Traceback" not in err


def test_a_port_in_use_is_said(corpus: Path) -> None:
    with server(corpus) as (_, url):
        result = prover("serve-retriever", "--corpus", corpus, "--port", url.rpartition(":")[2])
    assert result.returncode == 2
    assert "cannot be listened on" in result.stderr and "--port 0" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--corpus", "none.jsonl"), "there is no corpus file none.jsonl"),
        (("--corpus", "FILE", "--retriever", "google"), "no retriever called 'google'"),
        (("--corpus", "FILE", "--retriever", "dense"), "needs model"),
        (("--corpus", "FILE", "--option", "k3=1"), "has no option k3"),
        (("--corpus", "FILE", "--host", "not a host"), "cannot be listened on"),
    ],
)
def test_what_cannot_be_served_is_said(
    corpus: Path, arguments: tuple[str, ...], message: str
) -> None:
    given = [str(corpus) if argument == "FILE" else argument for argument in arguments]
    result = prover("serve-retriever", *given)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr and "Traceback" not in result.stderr
