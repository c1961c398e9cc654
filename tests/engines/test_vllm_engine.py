"""The vllm engine samples what the model says, with the torch engine as the measure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.vllm_models import KV_MEMORY, STOP, ids, model, skip_where_vllm_cannot_run

skip_where_vllm_cannot_run()

from prover_cli.engines.base import (  # noqa: E402
    FinishReason,
    Generation,
    GenerationRequest,
    Sampling,
)
from prover_cli.engines.torch_engine import TorchEngine  # noqa: E402
from prover_cli.engines.vllm_engine import VLLMEngine  # noqa: E402
from prover_cli.errors import EngineDeadError, RequestFailed, UsageError  # noqa: E402
from prover_cli.policies.shipped import shipped_policy  # noqa: E402
from prover_cli.tokens.render import ChatRenderer  # noqa: E402

GREEDY = Sampling(12, (STOP,), temperature=0.0)
VOCABULARY = 258


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(tmp_path_factory.mktemp("model") / "policy", initializer_range=0.2)


@pytest.fixture(scope="module")
def engine(policy: Path) -> Iterator[VLLMEngine]:
    engine = VLLMEngine(policy, kv_memory=KV_MEMORY)
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="module")
def logits(policy: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32).eval()

    def of(prompt: tuple[int, ...], reply: tuple[int, ...]) -> torch.Tensor:
        with torch.no_grad():
            return reference(torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1]

    return of


def ask(engine: Any, *requests: GenerationRequest) -> list[Generation]:
    async def together() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(together())


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(20, (STOP,), 1.0),
        Sampling(20, (STOP,), 0.6),
        Sampling(20, (STOP,), 1.0, top_k=5),
        Sampling(20, (STOP,), 0.6, top_p=0.8),
        Sampling(20, (STOP,), 1.0, top_p=0.7, top_k=20),
        GREEDY,
    ],
)
def test_log_probs_are_those_that_the_torch_engine_defines(
    engine: VLLMEngine, logits: Any, sampling: Sampling
) -> None:
    from prover_cli.engines.sampler import _restrict

    requests = [GenerationRequest(ids(n), sampling, n) for n in (4, 31, 90)]
    for request, found in zip(requests, ask(engine, *requests), strict=True):
        temperature = sampling.temperature or 1.0
        expected = (logits(request.prompt_ids, found.ids) / temperature).log_softmax(-1)
        if not sampling.neutral:
            expected = _restrict(expected, [sampling] * len(found.ids))
        wanted = [expected[i, token].item() for i, token in enumerate(found.ids)]
        assert found.logprobs == pytest.approx(wanted, abs=1e-4)


def test_greedy_replies_and_their_log_probs_are_those_of_the_torch_engine(
    engine: VLLMEngine, policy: Path
) -> None:
    requests = [GenerationRequest(ids(n), GREEDY, n) for n in (3, 17, 64, 120)]
    others = ask(TorchEngine(policy, device="cpu"), *requests)
    for found, expected in zip(ask(engine, *requests), others, strict=True):
        assert (found.ids, found.finish_reason) == (expected.ids, expected.finish_reason)
        assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-4)


def test_greedy_and_sampled_requests_share_a_batch(engine: VLLMEngine, logits: Any) -> None:
    prompt = ids(20)
    kinds = [GREEDY, Sampling(12, (STOP,)), Sampling(12, (STOP,), 0.6, top_k=3)]
    requests = [GenerationRequest(prompt, kind, 5) for kind in kinds]
    together = ask(engine, *requests)
    assert [g.ids for g in together] == [ask(engine, r)[0].ids for r in requests]
    expected = logits(prompt, together[0].ids).log_softmax(-1).max(-1).values.tolist()
    assert together[0].logprobs == pytest.approx(expected, abs=1e-4)


def test_draws_follow_the_probabilities(engine: VLLMEngine, logits: Any) -> None:
    import torch

    prompt, n = ids(20), 600
    requests = [GenerationRequest(prompt, Sampling(1, (), 0.6), seed) for seed in range(n)]
    counts = torch.bincount(
        torch.tensor([g.ids[0] for g in ask(engine, *requests)]), minlength=VOCABULARY
    )
    expected = (logits(prompt, (0,))[0] / 0.6).softmax(-1) * n
    top = expected.topk(5).indices
    assert (counts[top] - expected[top]).abs().max() < 4 * expected[top].max().sqrt()
    assert counts.count_nonzero() > 5


def test_draws_depend_on_the_seed_and_not_on_what_else_is_in_the_batch(engine: VLLMEngine) -> None:
    sampling = Sampling(8, ())
    requests = [GenerationRequest(ids(10 + i), sampling, i) for i in range(20)]
    together = ask(engine, *requests)
    alone = [ask(engine, request)[0] for request in reversed(requests)][::-1]
    assert [g.ids for g in together] == [g.ids for g in alone]
    same_prompt = [GenerationRequest(ids(10), sampling, seed) for seed in range(8)]
    assert len({g.ids for g in ask(engine, *same_prompt)}) > 1


def test_a_reply_ends_at_its_stop_id_its_budget_or_the_end_of_the_context(
    engine: VLLMEngine,
) -> None:
    prompt, every = ids(20), tuple(range(VOCABULARY))
    stopped, cut, full, late = ask(
        engine,
        GenerationRequest(prompt, Sampling(9, every), 0),
        GenerationRequest(prompt, Sampling(3, ()), 0),
        GenerationRequest(ids(252), Sampling(9, ()), 0),
        GenerationRequest(ids(256), Sampling(9, ()), 0),
    )
    assert (len(stopped.ids), stopped.finish_reason) == (1, FinishReason.STOP)
    assert len(stopped.logprobs) == 1
    assert (len(cut.ids), cut.finish_reason) == (3, FinishReason.LENGTH)
    assert (len(full.ids), full.finish_reason) == (4, FinishReason.LENGTH)
    assert (late.ids, late.finish_reason) == ((), FinishReason.CONTEXT)


@pytest.mark.parametrize("budget", [0, -1])
def test_no_budget_means_no_model_call(engine: VLLMEngine, budget: int) -> None:
    (generation,) = ask(engine, GenerationRequest(ids(5), Sampling(budget, ()), 0))
    assert (generation.ids, generation.finish_reason) == ((), FinishReason.LENGTH)


def test_only_our_stop_ids_stop(engine: VLLMEngine, policy: Path) -> None:
    greedy = Sampling(6, (), temperature=0.0)
    (free,) = ask(engine, GenerationRequest(ids(30), greedy, 0))
    assert len(free.ids) == 6
    stop = free.ids[2]
    (stopped,) = ask(engine, GenerationRequest(ids(30), Sampling(6, (stop,), 0.0), 0))
    assert stopped.ids == free.ids[: free.ids.index(stop) + 1]


def test_the_models_own_end_of_text_is_an_ordinary_token(tmp_path: Path, policy: Path) -> None:
    import shutil

    own = tmp_path / "own"
    shutil.copytree(policy, own)
    settings = {"eos_token_id": list(range(VOCABULARY)), "temperature": 0.1, "top_k": 1}
    (own / "generation_config.json").write_text(json.dumps(settings))
    engine = VLLMEngine(own, kv_memory=KV_MEMORY)
    requests = [GenerationRequest(ids(30), Sampling(6, ()), seed) for seed in range(4)]
    found = ask(engine, *requests)
    assert [len(g.ids) for g in found] == [6] * 4
    assert len({g.ids for g in found}) > 1


def test_a_session_computes_only_what_is_new_to_it(engine: VLLMEngine, logits: Any) -> None:
    context, known = ids(70, seed=9), 0
    for turn in range(3):
        request = GenerationRequest(context, Sampling(10, ()), turn, "episode")
        (found,) = ask(engine, request)
        expected = logits(context, found.ids).log_softmax(-1)
        wanted = [expected[i, token].item() for i, token in enumerate(found.ids)]
        assert found.logprobs == pytest.approx(wanted, abs=1e-4)
        # Whole blocks of 32 tokens are reused.
        assert found.n_cached == known
        known = (len(context) + len(found.ids) - 1) // 32 * 32
        context = (*context, *found.ids, *ids(9, seed=turn))


def test_a_failed_request_leaves_the_others_alone(engine: VLLMEngine) -> None:
    async def together() -> list[Any]:
        requests = [
            GenerationRequest((10**6,), GREEDY, 0),
            GenerationRequest(ids(5), Sampling(5, (), json_schema="{"), 0),
            GenerationRequest(ids(5), GREEDY, 0),
        ]
        return await asyncio.gather(*map(engine.generate, requests), return_exceptions=True)

    outside, no_schema, fine = asyncio.run(together())
    assert isinstance(outside, RequestFailed)
    assert isinstance(no_schema, RequestFailed)
    assert len(fine.ids) > 0


def test_text_is_refused(engine: VLLMEngine) -> None:
    with pytest.raises(TypeError, match="token ids"):
        ask(engine, GenerationRequest("hello", GREEDY, 0))  # type: ignore[arg-type]


def test_a_cancelled_request_is_aborted(engine: VLLMEngine) -> None:
    async def cancel() -> Generation:
        long = GenerationRequest(ids(5), Sampling(200, ()), 0)
        task = asyncio.create_task(engine.generate(long))
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not engine._backend._engine.has_unfinished_requests()  # type: ignore[union-attr]
        return await engine.generate(GenerationRequest(ids(5), GREEDY, 0))

    assert len(asyncio.run(cancel()).ids) > 0


def test_other_coroutines_wait_for_one_step_at_most(engine: VLLMEngine) -> None:
    async def count() -> int:
        request = GenerationRequest(ids(5), Sampling(50, ()), 0)
        task, turns = asyncio.create_task(engine.generate(request)), 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(count()) >= 50


def test_a_json_schema_constrains_the_reply() -> None:
    policy = shipped_policy("webshop")
    renderer = ChatRenderer.load(policy)
    engine = VLLMEngine(policy, kv_memory=KV_MEMORY)
    schema = {
        "type": "object",
        "properties": {
            "why": {"type": "string", "maxLength": 6},
            "n": {"type": "integer", "minimum": 0, "maximum": 9},
        },
        "required": ["why", "n"],
        "additionalProperties": False,
    }
    sampling = Sampling(60, renderer.stop_ids, json_schema=json.dumps(schema))
    prompt = tuple(renderer.encode("search page"))
    for found in ask(engine, *(GenerationRequest(prompt, sampling, seed) for seed in range(4))):
        assert found.finish_reason is FinishReason.STOP
        assert sorted(json.loads(renderer.decode(found.ids[:-1]))) == ["n", "why"]
        assert all(logprob > -100 for logprob in found.logprobs)


def test_a_policy_that_vllm_cannot_compute_is_refused_at_the_start(tmp_path: Path) -> None:
    from tests.policies import tiny_model

    with pytest.raises(UsageError, match="attention heads have size 8"):
        VLLMEngine(tiny_model(tmp_path / "small"), kv_memory=KV_MEMORY)


def test_a_context_that_memory_cannot_hold_is_refused_at_the_start(tmp_path: Path) -> None:
    folder = model(tmp_path / "long", max_len=1 << 20)
    with pytest.raises(UsageError, match="vllm cannot serve"):
        VLLMEngine(folder, kv_memory=1 << 20)


def test_a_dead_engine_fails_every_request_in_flight_and_every_later_one(policy: Path) -> None:
    engine = VLLMEngine(policy, kv_memory=KV_MEMORY)
    running = engine._backend._engine.model_executor  # type: ignore[union-attr]

    async def until_it_dies() -> list[Any]:
        requests = [GenerationRequest(ids(5 + i), Sampling(100, ()), i) for i in range(5)]
        tasks = [asyncio.create_task(engine.generate(request)) for request in requests]
        await asyncio.sleep(0)
        # The model is gone, as after a device error.
        running.driver_worker.model_runner.model = None
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert all(isinstance(error, EngineDeadError) for error in asyncio.run(until_it_dies()))
    with pytest.raises(EngineDeadError):
        ask(engine, GenerationRequest(ids(5), GREEDY, 0))


def test_a_closed_engine_says_so(policy: Path) -> None:
    engine = VLLMEngine(policy, kv_memory=KV_MEMORY)
    asyncio.run(engine.close())
    with pytest.raises(EngineDeadError, match="closed"):
        ask(engine, GenerationRequest(ids(5), GREEDY, 0))
