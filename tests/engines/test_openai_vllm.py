"""The engine `openai` with a real server: vllm's, on the CPU."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from prover_cli.engines.base import FinishReason, Generation, GenerationRequest, Sampling
from prover_cli.engines.openai_engine import OpenAIEngine
from prover_cli.engines.openai_wire import START_FLAGS
from prover_cli.errors import RequestFailed, UsageError
from tests.engines.vllm_models import STOP, ids, model, skip_where_vllm_cannot_run

skip_where_vllm_cannot_run()
pytestmark = pytest.mark.slow

CPU_FLAGS = (
    "--enforce-eager --distributed-executor-backend uni --block-size 32 "
    "--no-enable-chunked-prefill --dtype float32 --max-num-seqs 32 --enable-prompt-tokens-details"
)
START_SECONDS = 240.0


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(tmp_path_factory.mktemp("model") / "policy")


def start(policy: Path, log: Path, *flags: str) -> tuple[subprocess.Popen[bytes], str]:
    """A server of the policy, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(policy), "--host", "127.0.0.1", "--port", str(port)]
    variables = {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *CPU_FLAGS.split(), *flags],
            env=os.environ | variables,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_SECONDS
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while process.poll() is None and time.monotonic() < deadline:
        try:
            direct.open(f"{url}/health", timeout=5).close()
            return process, url
        except OSError:
            time.sleep(0.5)
    stop(process)
    raise AssertionError(f"vllm's server did not start: {log.read_text()[-2000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=60)


@pytest.fixture(scope="module")
def engine(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAIEngine]:
    log = tmp_path_factory.mktemp("log") / "vllm.log"
    process, url = start(policy, log, *START_FLAGS.split())
    try:
        opened = OpenAIEngine(policy, servers=[url])
        yield opened
        asyncio.run(opened.close())
    finally:
        stop(process)


def ask(engine: OpenAIEngine, *requests: GenerationRequest) -> list[Generation]:
    async def together() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(together())


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0])
def test_logprobs_are_those_of_a_teacher_forced_pass(
    engine: OpenAIEngine, policy: Path, temperature: float
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32).eval()
    sampling = Sampling(12, (STOP, 9, 11, 13), temperature)
    requests = [GenerationRequest(ids(5 + 3 * n, n), sampling, n) for n in range(12)]
    found = ask(engine, *requests)
    for request, reply in zip(requests, found, strict=True):
        tokens = torch.tensor([[*request.prompt_ids, *reply.ids]])
        with torch.no_grad():
            logits = reference(tokens).logits[0, len(request.prompt_ids) - 1 : -1]
        expected = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
        assert reply.logprobs == pytest.approx(
            [expected[i, token].item() for i, token in enumerate(reply.ids)], abs=1e-4
        )
        if temperature == 0.0:
            assert reply.ids == tuple(logits.argmax(dim=-1).tolist())
        ended = reply.finish_reason is FinishReason.STOP
        assert ended == (reply.ids[-1] in sampling.stop_ids)
        assert ended or len(reply.ids) == 12


def test_a_seed_decides_a_reply(engine: OpenAIEngine) -> None:
    requests = [GenerationRequest(ids(20), Sampling(8, ()), seed) for seed in (1, 2, 1)]
    first, other, again = ask(engine, *requests)
    assert first.ids == again.ids != other.ids


def test_the_context_is_the_server_s(engine: OpenAIEngine) -> None:
    assert engine.max_model_len == 256
    full, nearly = ask(
        engine,
        GenerationRequest(ids(256), Sampling(9, ()), 0),
        GenerationRequest(ids(254), Sampling(9, ()), 0),
    )
    assert full.finish_reason is FinishReason.CONTEXT
    assert len(nearly.ids) == 2 and nearly.finish_reason is FinishReason.LENGTH


def test_a_bad_request_fails_alone(engine: OpenAIEngine) -> None:
    with pytest.raises(RequestFailed, match=r"status 400: .*out of vocabulary"):
        ask(engine, GenerationRequest((9999,), Sampling(3, ()), 0))
    assert len(ask(engine, GenerationRequest((9,), Sampling(3, ()), 0))[0].ids) == 3


def test_a_server_that_was_started_without_its_flags_is_refused(
    policy: Path, tmp_path: Path
) -> None:
    process, url = start(policy, tmp_path / "vllm.log")
    try:
        with pytest.raises(UsageError, match="log-probs of another distribution") as refused:
            OpenAIEngine(policy, servers=[url])
        assert START_FLAGS in (refused.value.hint or "")
    finally:
        stop(process)
