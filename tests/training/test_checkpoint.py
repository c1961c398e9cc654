"""What an update leaves on disk, and going on from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.training import Trainer
from tests.training.helpers import batch, settings, trained, update, weights


def _save(trainer: Trainer, folder: Path, source: Path) -> tuple[Path, Path]:
    trainer.save(folder / "policy", folder / "trainer_state", source)
    return folder / "policy", folder / "trainer_state"


def test_small_steps_on_a_bfloat16_checkpoint_are_kept(qwen: Path, tmp_path: Path) -> None:
    start = Trainer.load(qwen, None, settings(lr=1e-6, epochs=20))
    before = weights(start)
    last = update(start, batch())[-1]
    assert last.params_changed_fraction > 0.99
    policy, state = _save(start, tmp_path, qwen)
    restored = weights(Trainer.load(policy, state, settings()))
    assert (restored != before).float().mean() > 0.99
    rounded = weights(Trainer.load(policy, None, settings()))
    assert (rounded != before).float().mean() < 0.5


def test_saving_between_steps_changes_nothing(qwen: Path, tmp_path: Path) -> None:
    options = settings(lr=1e-3, weight_decay=0.1)
    straight = Trainer.load(qwen, None, options)
    for _ in range(4):
        update(straight, batch())
    first = Trainer.load(qwen, None, options)
    for _ in range(2):
        update(first, batch())
    policy, state = _save(first, tmp_path, qwen)
    second, weights_only = (Trainer.load(policy, part, options) for part in (state, None))
    for trainer in (second, weights_only):
        for _ in range(2):
            update(trainer, batch())
    assert second.steps == straight.steps == 4
    assert (weights(second) - weights(straight)).abs().max() < 1e-6
    assert (weights(weights_only) - weights(straight)).abs().max() > 1e-4


def test_moments_are_restored_and_not_only_weights(gpt2: Path, tmp_path: Path) -> None:
    first = trained(gpt2, batch())
    policy, state = _save(first, tmp_path, gpt2)
    with_moments, without = (Trainer.load(policy, part, settings()) for part in (state, None))
    assert torch.equal(weights(with_moments), weights(without))
    for trainer in (first, with_moments, without):
        update(trainer, batch())
    assert torch.equal(weights(with_moments), weights(first))
    assert not torch.equal(weights(with_moments), weights(without))


def test_a_saved_policy_is_a_checkpoint_like_its_source(qwen: Path, tmp_path: Path) -> None:
    trainer = trained(qwen, batch(), lr=1e-2)
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "stale.safetensors").write_text("left over")
    policy, state = _save(trainer, tmp_path, qwen)
    source_files = {path.name for path in qwen.iterdir()}
    assert {path.name for path in policy.iterdir()} == source_files - {"README.md"}
    assert (policy / "config.json").read_bytes() == (qwen / "config.json").read_bytes()
    stored = load_file(policy / "model.safetensors")
    assert stored.keys() == load_file(qwen / "model.safetensors").keys()
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    loaded = AutoModelForCausalLM.from_pretrained(policy)
    for name, parameter in loaded.named_parameters():
        assert torch.equal(parameter, trainer.master[name].to(torch.bfloat16))
    recorded = json.loads((state / "state.json").read_text())
    assert recorded == {"policy_id": policy_id(policy), "steps": 1}
    assert policy_id(policy) != policy_id(qwen)
    assert {path.name for path in tmp_path.iterdir()} == {"policy", "trainer_state"}


def test_equal_updates_give_equal_policies(policy: Path, tmp_path: Path) -> None:
    ids = [
        trained(policy, batch(), epochs=2, minibatches=2).save(
            tmp_path / name / "policy", tmp_path / name / "trainer_state", policy
        )
        for name in ("a", "b")
    ]
    assert ids[0] == ids[1] == policy_id(tmp_path / "a" / "policy")


def test_state_of_another_policy_is_refused(qwen: Path, gpt2: Path, tmp_path: Path) -> None:
    _, state = _save(trained(qwen, batch()), tmp_path, qwen)
    for other in (qwen, gpt2):
        with pytest.raises(UsageError, match="belongs to policy"):
            Trainer.load(other, state, settings())


def test_damaged_state_is_refused(qwen: Path, tmp_path: Path) -> None:
    policy, state = _save(trained(qwen, batch()), tmp_path, qwen)
    whole = (state / "moments.safetensors").read_bytes()
    (state / "moments.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="not a usable trainer state"):
        Trainer.load(policy, state, settings())
    (state / "moments.safetensors").unlink()
    with pytest.raises(UsageError, match="not a usable trainer state"):
        Trainer.load(policy, state, settings())


def test_a_folder_that_is_no_policy_is_refused(qwen: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no config\.json"):
        Trainer.load(tmp_path, None, settings())
    (tmp_path / "config.json").write_bytes((qwen / "config.json").read_bytes())
    with pytest.raises(UsageError, match="cannot be loaded"):
        Trainer.load(tmp_path, None, settings())
