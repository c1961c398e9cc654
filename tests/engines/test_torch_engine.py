"""The torch engine samples what the model says, whatever else is in the batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from prover_cli.engines.base import FinishReason, Generation, GenerationRequest, Sampling
from prover_cli.engines.torch_engine import TorchEngine
from prover_cli.errors import EngineDeadError, UsageError
from tests.policies import tiny_model

STOP = 7
GREEDY = Sampling(12, (STOP,), temperature=0.0)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "policy", max_len=256)


@pytest.fixture
def engine(policy: Path) -> TorchEngine:
    return TorchEngine(policy, device="cpu")


@pytest.fixture(scope="module")
def reference(policy: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32).eval()


def ids(n: int, seed: int = 0) -> tuple[int, ...]:
    generator = torch.Generator().manual_seed(1000 * seed + n)
    return tuple(torch.randint(8, 256, (n,), generator=generator).tolist())


def ask(engine: TorchEngine, *requests: GenerationRequest) -> list[Generation]:
    async def together() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(together())


def teacher_forced(
    model: Any, prompt: Sequence[int], reply: Sequence[int], temperature: float
) -> list[float]:
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1]
    logp = torch.log_softmax(logits / temperature, dim=-1)
    return [logp[i, token].item() for i, token in enumerate(reply)]


def test_greedy_replies_are_those_of_transformers_generate(
    engine: TorchEngine, reference: Any
) -> None:
    prompts = [ids(n) for n in (3, 5, 17, 33, 64, 64, 120)]
    found = ask(engine, *(GenerationRequest(p, GREEDY, i) for i, p in enumerate(prompts)))
    for prompt, generation in zip(prompts, found, strict=True):
        whole = reference.generate(
            torch.tensor([prompt]),
            max_new_tokens=12,
            do_sample=False,
            eos_token_id=STOP,
            pad_token_id=0,
        )
        assert generation.ids == tuple(whole[0, len(prompt) :].tolist())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_logprobs_are_those_of_a_teacher_forced_pass(
    engine: TorchEngine, reference: Any, temperature: float
) -> None:
    sampling = Sampling(20, (STOP,), temperature)
    prompts = [ids(n) for n in (4, 31, 90)]
    found = ask(engine, *(GenerationRequest(p, sampling, i) for i, p in enumerate(prompts)))
    for prompt, generation in zip(prompts, found, strict=True):
        expected = teacher_forced(reference, prompt, generation.ids, temperature)
        assert generation.logprobs == pytest.approx(expected, abs=1e-5)


def test_a_session_computes_only_its_new_tokens(engine: TorchEngine, reference: Any) -> None:
    sampling = Sampling(10, (STOP,))
    context, known = ids(40), 0
    for turn in range(4):
        request = GenerationRequest(context, sampling, seed=turn, session="episode")
        (generation,) = ask(engine, request)
        expected = teacher_forced(reference, context, generation.ids, 1.0)
        assert generation.logprobs == pytest.approx(expected, abs=1e-5)
        assert generation.n_cached == known
        known = len(context) + len(generation.ids) - 1
        context = (*context, *generation.ids, *ids(9, seed=turn + 1))


def test_a_changed_context_reuses_only_what_is_equal(engine: TorchEngine, reference: Any) -> None:
    first, other = ids(30), ids(12, seed=5)
    sampling = Sampling(5, (STOP,))
    ask(engine, GenerationRequest(first, sampling, 0, "s"))
    changed = (*first[:10], *other)
    (generation,) = ask(engine, GenerationRequest(changed, sampling, 1, "s"))
    assert generation.n_cached == 10
    expected = teacher_forced(reference, changed, generation.ids, 1.0)
    assert generation.logprobs == pytest.approx(expected, abs=1e-5)


def test_a_prompt_shared_by_a_group_is_computed_once(engine: TorchEngine, reference: Any) -> None:
    prompt = ids(50)
    requests = [GenerationRequest(prompt, Sampling(6, (STOP,)), seed) for seed in range(8)]
    found = ask(engine, *requests)
    assert sorted(g.n_cached for g in found) == [0] + [50] * 7
    assert [g.n_cached for g in ask(engine, requests[0])] == [50]
    for generation in found:
        expected = teacher_forced(reference, prompt, generation.ids, 1.0)
        assert generation.logprobs == pytest.approx(expected, abs=1e-5)
    assert len({g.ids for g in found}) > 1


def test_draws_do_not_depend_on_what_else_is_in_the_batch(policy: Path) -> None:
    requests = [GenerationRequest(ids(10 + i), Sampling(8, (STOP,)), i) for i in range(20)]
    together = ask(TorchEngine(policy, device="cpu"), *requests)
    alone_engine = TorchEngine(policy, device="cpu")
    alone = [ask(alone_engine, request)[0] for request in reversed(requests)][::-1]
    assert [g.ids for g in together] == [g.ids for g in alone]


def test_top_k_1_is_greedy_and_truncated_logprobs_are_renormalised(engine: TorchEngine) -> None:
    prompt = ids(20)
    greedy, top_1 = ask(
        engine,
        GenerationRequest(prompt, GREEDY, 0),
        GenerationRequest(prompt, Sampling(12, (STOP,), 1.0, top_k=1), 1),
    )
    assert top_1.ids == greedy.ids
    assert top_1.logprobs == pytest.approx([0.0] * len(top_1.ids), abs=1e-6)


def test_a_reply_ends_at_its_stop_id_its_budget_or_the_end_of_the_context(
    engine: TorchEngine,
) -> None:
    prompt = ids(20)
    every = tuple(range(engine._model.head.out_features))
    stopped, cut, full, late = ask(
        engine,
        GenerationRequest(prompt, Sampling(9, every), 0),
        GenerationRequest(prompt, Sampling(3, ()), 0),
        GenerationRequest(ids(252), Sampling(9, ()), 0),
        GenerationRequest(ids(256), Sampling(9, ()), 0),
    )
    assert (len(stopped.ids), stopped.finish_reason) == (1, FinishReason.STOP)
    assert (len(cut.ids), cut.finish_reason) == (3, FinishReason.LENGTH)
    assert (len(full.ids), full.finish_reason) == (4, FinishReason.LENGTH)
    assert (late.ids, late.finish_reason) == ((), FinishReason.CONTEXT)


@pytest.mark.parametrize("budget", [0, -1])
def test_no_budget_means_no_model_call(engine: TorchEngine, budget: int) -> None:
    engine._model = None  # type: ignore[assignment]
    (generation,) = ask(engine, GenerationRequest(ids(5), Sampling(budget, ()), 0))
    assert (generation.ids, generation.finish_reason) == ((), FinishReason.LENGTH)


def test_text_is_refused(engine: TorchEngine) -> None:
    with pytest.raises(TypeError, match="token ids"):
        ask(engine, GenerationRequest("hello", GREEDY, 0))  # type: ignore[arg-type]


def test_a_broken_model_fails_every_request_in_flight(engine: TorchEngine) -> None:
    async def all_of_them() -> list[Any]:
        requests = [GenerationRequest(ids(5 + i), GREEDY, i) for i in range(5)]
        return await asyncio.gather(*map(engine.generate, requests), return_exceptions=True)

    # An id outside the vocabulary makes the embedding fail as a device error would.
    async def with_poison() -> list[Any]:
        poison = GenerationRequest((10**6,), GREEDY, 9)
        return await asyncio.gather(engine.generate(poison), all_of_them(), return_exceptions=True)

    poisoned, others = asyncio.run(with_poison())
    assert isinstance(poisoned, EngineDeadError)
    assert all(isinstance(error, EngineDeadError) for error in others)
    with pytest.raises(EngineDeadError):
        ask(engine, GenerationRequest(ids(5), GREEDY, 0))


def test_a_new_policy_forgets_the_old_ones_caches(policy: Path, tmp_path: Path) -> None:
    other = tiny_model(tmp_path / "other", seed=1, max_len=256)
    engine, fresh = TorchEngine(policy, device="cpu"), TorchEngine(other, device="cpu")
    request = GenerationRequest(ids(40), Sampling(8, (STOP,)), 3, "s")
    ask(engine, request)
    before = engine.policy_id
    assert engine.load_policy(other) == fresh.policy_id != before
    (again,), (expected,) = ask(engine, request), ask(fresh, request)
    assert again == expected and again.n_cached == 0


def test_memory_is_bounded_and_short_memory_only_means_waiting(policy: Path) -> None:
    requests = [GenerationRequest(ids(40 + i), Sampling(6, (STOP,)), i, str(i)) for i in range(12)]
    roomy = ask(TorchEngine(policy, device="cpu"), *requests)
    tight = TorchEngine(policy, device="cpu", kv_memory=64 << 10)
    assert [g.ids for g in ask(tight, *requests)] == [g.ids for g in roomy]
    assert tight._table._kv.numel() * 4 < 256 << 10


def test_an_architecture_with_sliding_attention_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(
        tmp_path / "sliding", sliding_window=8, use_sliding_window=True, max_window_layers=0
    )
    with pytest.raises(UsageError, match="full attention only"):
        TorchEngine(folder, device="cpu")
