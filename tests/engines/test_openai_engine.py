"""The engine `openai` gives what the engine behind the server gives, and refuses what it cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prover_cli.engines.base import FinishReason, Generation, GenerationRequest, Sampling
from prover_cli.engines.openai_engine import OpenAIEngine
from prover_cli.engines.openai_server import Patience
from prover_cli.engines.scripted import ScriptedEngine
from prover_cli.engines.torch_engine import TorchEngine
from prover_cli.errors import EngineDeadError, RequestFailed, UsageError
from prover_cli.policies.shipped import shipped_policy
from prover_cli.tokens.render import ChatRenderer
from tests.engines.http_server import LocalServer
from tests.policies import scripted_policy, tiny_model

STOP = 7
QUICK = Patience(answer=5.0, first_wait=0.01, longest_wait=0.05, probe=0.05, outage=1.0)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "policy", max_len=128)


@pytest.fixture
def server(policy: Path) -> Iterator[LocalServer]:
    local = LocalServer(TorchEngine(policy, device="cpu"), policy)
    yield local
    local.close()


@pytest.fixture
def engine(policy: Path, server: LocalServer) -> Iterator[OpenAIEngine]:
    opened = OpenAIEngine(policy, servers=[server.url], patience=QUICK)
    yield opened
    asyncio.run(opened.close())


def ask(engine: Any, *requests: GenerationRequest) -> list[Generation]:
    async def together() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(together())


def prompts(n: int) -> list[tuple[int, ...]]:
    return [tuple((7 * i * j + i + 8) % 250 for j in range(3 + 4 * i)) for i in range(n)]


def same(found: Generation, expected: Generation) -> bool:
    return (
        found.ids == expected.ids
        and found.finish_reason is expected.finish_reason
        and found.logprobs == pytest.approx(expected.logprobs, abs=1e-5)
    )


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(12, (STOP,)),
        Sampling(12, (STOP, 9, 11), temperature=0.6),
        Sampling(6, (), temperature=0.0),
        Sampling(9, (STOP,), top_p=0.8, top_k=5),
    ],
)
def test_replies_are_those_of_the_engine_behind_the_server(
    engine: OpenAIEngine, policy: Path, sampling: Sampling
) -> None:
    requests = [GenerationRequest(p, sampling, i) for i, p in enumerate(prompts(8))]
    expected = ask(TorchEngine(policy, device="cpu"), *requests)
    found = ask(engine, *requests)
    assert all(map(same, found, expected))
    assert engine.max_model_len == 128


def test_the_shipped_policy_is_sampled_as_it_is_here() -> None:
    policy = shipped_policy("webshop")
    renderer = ChatRenderer.load(policy)
    local = LocalServer(TorchEngine(policy, device="cpu", kv_memory=64 << 20), policy)
    prompt = tuple(renderer.encode("search page"))
    sampling = Sampling(8, renderer.stop_ids)
    requests = [GenerationRequest(prompt, sampling, seed) for seed in range(4)]
    engine = OpenAIEngine(policy, servers=[local.url], patience=QUICK)
    here = TorchEngine(policy, device="cpu", kv_memory=64 << 20)
    assert all(map(same, ask(engine, *requests), ask(here, *requests)))
    asyncio.run(engine.close())
    local.close()


def test_a_prompt_that_fills_the_context_is_not_sent(
    engine: OpenAIEngine, server: LocalServer
) -> None:
    full, nearly = tuple([9] * 128), tuple([9] * 125)
    (over,) = ask(engine, GenerationRequest(full, Sampling(5, ()), 0))
    assert over == Generation((), (), FinishReason.CONTEXT)
    (none,) = ask(engine, GenerationRequest((9,), Sampling(0, ()), 0))
    assert none == Generation((), (), FinishReason.LENGTH)
    assert server.work == []
    (cut,) = ask(engine, GenerationRequest(nearly, Sampling(50, ()), 0))
    assert len(cut.ids) == 3 and cut.finish_reason is FinishReason.LENGTH
    assert server.work[0]["max_tokens"] == 3


def test_every_sampling_parameter_is_stated(engine: OpenAIEngine, server: LocalServer) -> None:
    request = GenerationRequest((8, 9, 10), Sampling(4, (STOP, 11), 0.7, 0.9, 3), 41)
    ask(engine, request)
    assert server.work[0] == {
        "model": engine.served[f"{server.url}/v1"].id,
        "prompt": [8, 9, 10],
        "max_tokens": 4,
        "n": 1,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 3,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "min_tokens": 0,
        "seed": 41,
        "stop_token_ids": [STOP, 11],
        "ignore_eos": True,
        "logprobs": 0,
        "return_token_ids": True,
        "add_special_tokens": False,
        "skip_special_tokens": False,
    }


def test_text_is_no_prompt(engine: OpenAIEngine) -> None:
    request: Any = GenerationRequest("hello", Sampling(4, ()), 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="token ids"):
        ask(engine, request)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no ids", r"token ids and log-probs: the answer lacks choices\[0\].token_ids"),
        ("no logprobs", r"the answer lacks choices\[0\].logprobs.token_logprobs"),
        ("bad", "cannot serve a policy.*status 400: max_tokens is too large"),
        ("no model", "cannot serve a policy.*status 404"),
        ("raw", "another distribution than it samples from: -0.250000"),
        ("another prompt", "another prompt than it is given: 4 ids instead of 3"),
        ("own stop", "stops at token .* none of the stop ids"),
    ],
)
def test_a_server_that_cannot_serve_policies_is_refused_at_the_start(
    policy: Path, server: LocalServer, fault: str, message: str
) -> None:
    server.always = fault
    with pytest.raises(UsageError, match=message) as refused:
        OpenAIEngine(policy, servers=[server.url], patience=QUICK)
    assert server.url in refused.value.message


def test_the_message_says_which_servers_do_and_for_what_others_are_good(
    policy: Path, server: LocalServer
) -> None:
    server.always = "no ids"
    with pytest.raises(UsageError) as refused:
        OpenAIEngine(policy, servers=[server.url], patience=QUICK)
    assert refused.value.message == (
        f"{server.url}/v1 cannot serve a policy, which needs completions of token ids with token "
        "ids and log-probs: the answer lacks choices[0].token_ids"
    )
    assert refused.value.hint == (
        "`vllm serve` can; for judges and graders any server of the chat API will do"
    )


def test_a_server_with_a_limit_of_its_own_ends_the_run(
    engine: OpenAIEngine, server: LocalServer
) -> None:
    server.misbehave("shortened")
    with pytest.raises(UsageError, match="cuts replies after 3 tokens where 4 are asked for"):
        ask(engine, GenerationRequest((8, 9), Sampling(4, ()), 0))


def test_no_server_and_no_address_are_said(policy: Path) -> None:
    with pytest.raises(UsageError, match="needs a server"):
        OpenAIEngine(policy, servers=[])
    for address in ("localhost:8000", "ftp://host", "http://", "http://host:port"):
        with pytest.raises(UsageError, match="http://HOST:PORT"):
            OpenAIEngine(policy, servers=[address])


def test_servers_cannot_be_given_another_policy(
    engine: OpenAIEngine, policy: Path, tmp_path: Path
) -> None:
    assert engine.load_policy(policy) == engine.policy_id
    other = tiny_model(tmp_path / "other", seed=1)
    with pytest.raises(UsageError, match="cannot be given") as refused:
        engine.load_policy(other)
    assert f"vllm serve {other}" in (refused.value.hint or "")


def test_the_context_is_the_shortest_of_all_servers(policy: Path, server: LocalServer) -> None:
    server.cards[0]["max_model_len"] = 100
    engine = OpenAIEngine(policy, servers=[server.url], patience=QUICK)
    assert engine.max_model_len == 100
    asyncio.run(engine.close())
    engine = OpenAIEngine(policy, servers=[server.url], max_model_len=64, patience=QUICK)
    assert engine.max_model_len == 64
    asyncio.run(engine.close())
    with pytest.raises(UsageError, match="--max-model-len 101: the servers take 100 tokens"):
        OpenAIEngine(policy, servers=[server.url], max_model_len=101, patience=QUICK)
    del server.cards[0]["max_model_len"]
    with pytest.raises(UsageError, match="do not tell the longest context"):
        OpenAIEngine(policy, servers=[server.url], patience=QUICK)


def test_a_schema_is_passed_on_and_a_server_that_ignores_it_is_found_out(tmp_path: Path) -> None:
    policy = scripted_policy(tmp_path / "policy", ['{"n": 1}'])
    plain = scripted_policy(tmp_path / "plain", ["one"])
    schema = '{"type": "object"}'
    for folder, obeys in ((policy, True), (plain, False)):
        local = LocalServer(ScriptedEngine(folder), folder)
        engine = OpenAIEngine(folder, servers=[local.url], patience=QUICK)
        stops = ChatRenderer.load(folder).stop_ids
        request = GenerationRequest((1, 2), Sampling(20, stops, json_schema=schema), 0)
        if obeys:
            assert ask(engine, request)[0].finish_reason is FinishReason.STOP
            assert local.work[0]["structured_outputs"] == {"json": json.loads(schema)}
        else:
            with pytest.raises(UsageError, match="does not constrain replies"):
                ask(engine, request)
        asyncio.run(engine.close())
        local.close()


def test_a_bad_request_fails_alone_and_at_once(engine: OpenAIEngine, server: LocalServer) -> None:
    server.misbehave("bad")
    request = GenerationRequest((8, 9), Sampling(4, ()), 0)
    with pytest.raises(RequestFailed, match="status 400: max_tokens is too large"):
        ask(engine, request)
    assert len(server.work) == 1
    assert len(ask(engine, request)[0].ids) == 4


def test_a_closed_engine_is_dead(policy: Path, server: LocalServer) -> None:
    engine = OpenAIEngine(policy, servers=[server.url], patience=QUICK)
    asyncio.run(engine.close())
    with pytest.raises(EngineDeadError, match="closed"):
        ask(engine, GenerationRequest((8, 9), Sampling(4, ()), 0))
    asyncio.run(engine.close())
