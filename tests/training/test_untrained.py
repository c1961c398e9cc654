"""A policy with a vision part keeps it, though only its language model is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.models.qwen3_5 import Qwen3_5Config, Qwen3_5ForConditionalGeneration

from prover_cli.training.checkpoint import load_model, save_policy

CPU = torch.device("cpu")


def vision_model() -> Any:
    torch.manual_seed(0)
    text = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "full_attention_interval": 2,
    }
    vision = {
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": 32,
        "patch_size": 4,
    }
    ids = {"image_token_id": 60, "video_token_id": 61, "vision_start_token_id": 62}
    config = Qwen3_5Config(text_config=text, vision_config=vision, vision_end_token_id=63, **ids)
    return Qwen3_5ForConditionalGeneration(config)


def states(folder: Path) -> dict[str, torch.Tensor]:
    model: Any = Qwen3_5ForConditionalGeneration
    loaded, info = model.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    return dict(loaded.state_dict())


@pytest.mark.parametrize("shard", ["1GB", "20KB"])
def test_a_vision_part_survives_updates(tmp_path: Path, shard: str) -> None:
    source = tmp_path / "source"
    vision_model().save_pretrained(source, max_shard_size=shard)
    before = states(source)
    for step in (1, 2):
        model = load_model(source, CPU)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 1
        target = tmp_path / f"policy-{step}"
        save_policy(model, target, source)
        source = target
    after = states(source)
    seen = {name for name in before if ".visual." in name}
    assert seen and seen != before.keys()
    for name, tensor in before.items():
        expected = tensor if name in seen else tensor + 2
        assert torch.allclose(after[name], expected, atol=1e-5), name
    index = json.loads((source / "model.safetensors.index.json").read_text())
    assert {(source / file).exists() for file in index["weight_map"].values()} == {True}
    assert not (source / "model.safetensors").exists()


def test_a_plain_language_model_is_saved_alone(qwen: Path, tmp_path: Path) -> None:
    save_policy(load_model(qwen, CPU), tmp_path / "policy", qwen)
    assert [file.name for file in (tmp_path / "policy").glob("*.safetensors*")] == [
        "model.safetensors"
    ]
