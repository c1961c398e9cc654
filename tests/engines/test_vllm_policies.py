"""A new policy is served as by an engine of its own, whether its weights or an adapter change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.vllm_models import (
    KV_MEMORY,
    adapter,
    ids,
    merged,
    model,
    skip_where_vllm_cannot_run,
)

skip_where_vllm_cannot_run()

from prover_cli.engines.base import Generation, GenerationRequest, Sampling  # noqa: E402
from prover_cli.engines.torch_engine import TorchEngine  # noqa: E402
from prover_cli.engines.vllm_engine import VLLMEngine  # noqa: E402
from prover_cli.errors import EngineDeadError  # noqa: E402
from prover_cli.ids import policy_id  # noqa: E402

REQUEST = GenerationRequest(ids(100), Sampling(8, (), temperature=0.0), 3, "session")


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def pair(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two policies of the same architecture."""
    folder = tmp_path_factory.mktemp("models")
    settings = {"tie_word_embeddings": request.param, "initializer_range": 0.2}
    return model(folder / "one", 0, **settings), model(folder / "other", 1, **settings)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("bases")
    return model(folder / "one", 0), model(folder / "other", 1)


@pytest.fixture(scope="module")
def adapted(bases: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Adapters, and the whole checkpoints that they amount to."""
    folder, (one, other) = tmp_path_factory.mktemp("adapters"), bases
    made = {adapter(folder / f"{i}", base, i): base for i, base in enumerate((one, one, other))}
    return {path: merged(folder / f"{path.name}-whole", made[path], path) for path in made}


@pytest.fixture(scope="module")
def adapter_engine(adapted: dict[Path, Path]) -> Iterator[VLLMEngine]:
    engine = VLLMEngine(next(iter(adapted)), kv_memory=KV_MEMORY)
    yield engine
    asyncio.run(engine.close())


def reply(engine: Any, request: GenerationRequest = REQUEST) -> Generation:
    result: Generation = asyncio.run(engine.generate(request))
    return result


def same(one: Generation, other: Generation) -> bool:
    return one.ids == other.ids and one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_swap_gives_the_replies_of_a_fresh_engine_and_forgets_every_cache(
    pair: tuple[Path, Path],
) -> None:
    one, other = pair
    fresh = reply(TorchEngine(other, device="cpu"))
    engine = VLLMEngine(one, kv_memory=KV_MEMORY)
    before = reply(engine)
    assert reply(engine).n_cached > 0
    started = engine._backend
    assert engine.load_policy(other) == policy_id(other) == engine.policy_id
    assert engine._backend is started
    after = reply(engine)
    assert (after.n_cached, same(after, fresh), same(after, before)) == (0, True, False)
    engine.load_policy(one)
    assert same(reply(engine), before)
    asyncio.run(engine.close())


def test_weights_without_a_reset_would_give_wrong_log_probs(bases: tuple[Path, Path]) -> None:
    one, other = bases
    engine = VLLMEngine(one, kv_memory=KV_MEMORY)
    fresh = reply(TorchEngine(other, device="cpu"))
    reply(engine)
    assert engine._backend is not None
    engine._backend.reload(other)
    stale = reply(engine)
    assert stale.n_cached > 0
    assert not same(stale, fresh)
    asyncio.run(engine.close())


def test_another_architecture_or_tokenizer_starts_vllm_anew(bases: tuple[Path, Path]) -> None:
    one, _ = bases
    engine = VLLMEngine(one, kv_memory=KV_MEMORY)
    deeper = model(one.parent / "deeper", num_hidden_layers=3, max_len=128)
    first = engine._backend
    engine.load_policy(deeper)
    assert engine._backend is not first
    assert engine.max_model_len == 128
    assert same(reply(engine), reply(TorchEngine(deeper, device="cpu")))
    asyncio.run(engine.close())


def test_adapters_are_swapped_without_touching_their_base(
    adapter_engine: VLLMEngine, adapted: dict[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = adapted
    started = adapter_engine._backend
    assert started is not None
    with monkeypatch.context() as patch:
        patch.setattr(started, "reload", None)
        for path in (second, first):
            assert adapter_engine.load_policy(path) == policy_id(path)
            found = reply(adapter_engine)
            assert found.n_cached == 0
            assert same(found, reply(TorchEngine(adapted[path], device="cpu")))
    assert adapter_engine._backend is started


def test_an_adapter_of_another_base_brings_its_base(
    adapter_engine: VLLMEngine, adapted: dict[Path, Path], bases: tuple[Path, Path]
) -> None:
    third = list(adapted)[2]
    started = adapter_engine._backend
    for path, whole in ((third, adapted[third]), (bases[0], bases[0]), (bases[1], bases[1])):
        adapter_engine.load_policy(path)
        assert same(reply(adapter_engine), reply(TorchEngine(whole, device="cpu")))
    assert adapter_engine._backend is started


def test_a_policy_is_not_replaced_under_running_requests(bases: tuple[Path, Path]) -> None:
    engine = VLLMEngine(bases[0], kv_memory=KV_MEMORY)

    async def swap() -> None:
        task = asyncio.create_task(engine.generate(REQUEST))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="in flight"):
            engine.load_policy(bases[1])
        await task

    asyncio.run(swap())
    asyncio.run(engine.close())


def test_weights_that_cannot_be_read_end_the_engine(
    bases: tuple[Path, Path], tmp_path: Path
) -> None:
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(bases[0], broken)
    (broken / "model.safetensors").write_bytes(b"nothing")
    engine = VLLMEngine(bases[0], kv_memory=KV_MEMORY)
    with pytest.raises(EngineDeadError, match="could not load the weights"):
        engine.load_policy(broken)
    with pytest.raises(EngineDeadError):
        reply(engine)
    engine.load_policy(bases[1])
    assert same(reply(engine), reply(TorchEngine(bases[1], device="cpu")))
    asyncio.run(engine.close())
