"""Tiny random policies: a bfloat16 Qwen3 with tied embeddings and a float32 GPT-2 with dropout."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

from tests.training.helpers import VOCABULARY


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    folder = tmp_path_factory.mktemp("qwen") / "policy"
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "README.md").write_text("a model card")
    return folder


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=128,
        initializer_range=0.3,
        resid_pdrop=0.3,
        bos_token_id=0,
        eos_token_id=0,
    )
    folder = tmp_path_factory.mktemp("gpt2") / "policy"
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(params=["qwen", "gpt2"])
def policy(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder
