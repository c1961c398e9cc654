"""LoRA policies: their identity, what an update changes, and that engine and trainer agree."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from prover_cli.engines.base import Generation, GenerationRequest, Sampling
from prover_cli.engines.torch_engine import TorchEngine
from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.policies.adapters import base_of, is_adapter, new_adapter
from prover_cli.tokens.mask import TrainingSequence, TurnTokens, sequences
from prover_cli.tokens.render import ChatRenderer
from prover_cli.training import TrainConfig, Trainer
from prover_cli.training.checkpoint import load_model
from tests.policies import tiny_model
from tests.starting.adapted import RANK, adapter_of

CPU = torch.device("cpu")
SAMPLING = Sampling(12, (7,), temperature=1.0)
SETTINGS = TrainConfig(lr=1e-2, device="cpu")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("base") / "model")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Path:
    return adapter_of(base, tmp_path_factory.mktemp("adapter") / "policy")


@pytest.fixture
def policy(tmp_path: Path, shared: Path) -> Path:
    """An adapter of one's own."""
    return Path(shutil.copytree(shared, tmp_path / "policy"))


def sample(policy: Path) -> list[Generation]:
    engine = TorchEngine(policy, device="cpu", dtype="float32")
    requests = [GenerationRequest(_prompt(seed), SAMPLING, seed) for seed in range(6)]

    async def together() -> list[Generation]:
        return await asyncio.gather(*map(engine.generate, requests))

    return asyncio.run(together())


def sampled_batch(policy: Path) -> list[TrainingSequence]:
    """What the engine samples, with alternating advantages and the engine's own log-probs."""
    batch = []
    for seed, reply in enumerate(sample(policy)):
        advantages = [1.0 if seed % 2 else -1.0] * len(reply.ids)
        turn = TurnTokens(True, _prompt(seed), reply.ids, reply.logprobs, advantages)
        batch += sequences([turn])
    return batch


def _prompt(seed: int) -> tuple[int, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(8, 256, (9 + seed,), generator=generator).tolist())


def change_base_path(adapter: Path, path: str) -> None:
    file = adapter / "adapter_config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"base_model_name_or_path": path}))


def test_an_adapter_folder_holds_no_model_and_all_that_renders_prompts(
    base: Path, policy: Path
) -> None:
    assert is_adapter(policy) and not is_adapter(base)
    assert {path.name for path in policy.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "generation_config.json",
        "prover.json",
        "tokenizer.json",
    }
    assert ChatRenderer.load(policy).encode("go") == ChatRenderer.load(base).encode("go")
    assert {t.dtype for t in load_file(policy / "adapter_model.safetensors").values()} == {
        torch.float32
    }


def test_an_adapter_opens_with_peft_alone(base: Path, policy: Path) -> None:
    from peft import AutoPeftModelForCausalLM

    ids = torch.tensor([_prompt(0)])
    with torch.no_grad():
        plain = load_model(base, CPU)(ids).logits
        peft = AutoPeftModelForCausalLM.from_pretrained(policy, dtype=torch.float32)(ids).logits
        ours = load_model(policy, CPU)(ids).logits
    assert torch.allclose(peft, ours, atol=1e-6)
    assert (peft - plain).abs().max() > 1e-2


def test_an_untrained_adapter_says_what_its_base_says(base: Path) -> None:
    ids = torch.tensor([_prompt(0)])
    with torch.no_grad():
        plain = load_model(base, CPU)(ids).logits
        fresh = new_adapter(load_model(base, CPU), RANK)(ids).logits
    assert torch.equal(fresh, plain)


def test_identity_is_that_of_weights_and_base_and_not_of_places(
    base: Path, policy: Path, tmp_path: Path
) -> None:
    identity = policy_id(policy)
    assert identity != policy_id(base)
    moved = Path(shutil.copytree(base, tmp_path / "elsewhere"))
    for path in ("../elsewhere", str(moved)):
        change_base_path(policy, path)
        assert base_of(policy) == moved.resolve()
        assert policy_id(policy) == identity
    weights = load_file(policy / "adapter_model.safetensors")
    weights[min(weights)] += 1.0
    save_file(weights, policy / "adapter_model.safetensors")
    assert policy_id(policy) != identity


def test_an_adapter_from_elsewhere_is_identified_by_the_base_that_lies_there(
    policy: Path, tmp_path: Path
) -> None:
    recorded = policy_id(policy)
    (policy / "prover.json").unlink()
    assert policy_id(policy) == recorded
    change_base_path(policy, str(tiny_model(tmp_path / "other", seed=1)))
    assert policy_id(policy) != recorded


@pytest.mark.parametrize("use", [base_of, policy_id, lambda p: load_model(p, CPU)])
def test_a_base_that_is_gone_or_another_one_is_refused(
    use: object, policy: Path, tmp_path: Path
) -> None:
    assert callable(use)
    change_base_path(policy, "no/such/checkpoint")
    with pytest.raises(UsageError, match="no/such/checkpoint, where there is no checkpoint") as no:
        use(policy)
    assert no.value.hint is not None and "base_model_name_or_path" in no.value.hint
    change_base_path(policy, str(tiny_model(tmp_path / "other", seed=1)))
    with pytest.raises(UsageError, match="is an adapter of policy"):
        use(policy)


def test_an_adapter_of_an_adapter_is_refused(policy: Path, shared: Path) -> None:
    change_base_path(policy, str(shared))
    with pytest.raises(UsageError, match="where there is no checkpoint"):
        policy_id(policy)


def test_an_adapter_without_some_of_its_weights_is_refused(policy: Path) -> None:
    weights = load_file(policy / "adapter_model.safetensors")
    del weights[min(weights)]
    save_file(weights, policy / "adapter_model.safetensors")
    for use in (lambda: load_model(policy, CPU), lambda: TorchEngine(policy, device="cpu")):
        with pytest.raises(UsageError, match="1 weights are on one side only"):
            use()
    (policy / "adapter_model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"no adapter_model\.safetensors"):
        policy_id(policy)


def test_an_adapter_of_another_kind_is_refused(policy: Path) -> None:
    file = policy / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"peft_type": "IA3"}))
    with pytest.raises(UsageError, match="only LORA"):
        load_model(policy, CPU)


def test_without_peft_the_command_to_install_it_is_named(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UsageError) as refused:
        load_model(policy, CPU)
    assert refused.value.hint == "pip install 'prover-cli[lora]'"


def test_engine_and_trainer_have_the_same_log_probs(policy: Path) -> None:
    batch = sampled_batch(policy)
    (step,) = Trainer.load(policy, None, SETTINGS).update(batch, lambda _: None)
    assert step.ratio_mean == step.ratio_max == 1.0
    assert step.logprob_gap < 1e-5


def test_an_update_changes_the_adapter_only(base: Path, policy: Path, tmp_path: Path) -> None:
    before, base_before = policy_id(policy), policy_id(base)
    trainer = Trainer.load(policy, None, SETTINGS)
    (step,) = trainer.update(sampled_batch(policy), lambda _: None)
    out = tmp_path / "run" / "update" / "policy"
    saved = trainer.save(out, out.parent / "trainer_state", policy)
    assert saved == policy_id(out) != before
    assert base_of(out) == base.resolve() and policy_id(base) == base_before
    assert {path.name for path in out.iterdir()} == {path.name for path in policy.iterdir()}
    for name in ("adapter_config.json", "prover.json", "tokenizer.json"):
        assert (out / name).read_bytes() == (policy / name).read_bytes()
    old, new = (load_file(folder / "adapter_model.safetensors") for folder in (policy, out))
    assert old.keys() == new.keys()
    assert all(not torch.equal(new[name], old[name]) for name in new)
    assert step.params_changed_fraction > 0.9
    kept = load_file(out.parent / "trainer_state" / "master.safetensors")
    assert sorted(t.numel() for t in kept.values()) == sorted(t.numel() for t in new.values())
    assert sample(out) != sample(policy)


def test_a_relative_path_to_the_base_stays_right(base: Path, policy: Path, tmp_path: Path) -> None:
    change_base_path(policy, os.path.relpath(base, policy))
    out = tmp_path / "deeper" / "run" / "policy"
    trainer = Trainer.load(policy, None, SETTINGS)
    trainer.save(out, out.parent / "trainer_state", policy)
    written = json.loads((out / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert not Path(written).is_absolute()
    assert base_of(out) == base.resolve()


def test_a_second_update_goes_on_with_the_optimizer(policy: Path, tmp_path: Path) -> None:
    batch = sampled_batch(policy)

    def step(trainer: Trainer) -> None:
        trainer.update(batch, lambda _: None)

    straight, first = (Trainer.load(policy, None, SETTINGS) for _ in range(2))
    for trainer in (straight, straight, first):
        step(trainer)
    out, state = tmp_path / "a" / "policy", tmp_path / "a" / "trainer_state"
    first.save(out, state, policy)
    resumed, fresh = (Trainer.load(out, part, SETTINGS) for part in (state, None))
    for trainer in (resumed, fresh):
        step(trainer)
    assert resumed.steps == 2
    for name, weight in straight.master.items():
        assert torch.equal(weight, resumed.master[name])
    assert any(not torch.equal(w, fresh.master[name]) for name, w in straight.master.items())
