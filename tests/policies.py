"""Policies for tests: scripted replies, and a random model of a few thousand parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from prover_cli.tokens.render import IM_END, IM_START

VAULT_REPLIES = ("go", "open", "take red", "take blue", "take green", "take white")


def byte_tokenizer() -> Tokenizer:
    """Every byte is a token, and the two ChatML control tokens."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([IM_START, IM_END])
    return tokenizer


def scripted_policy(
    folder: Path, replies: Sequence[str] = VAULT_REPLIES, max_len: int = 4096, **behaviour: Any
) -> Path:
    """A checkpoint folder for the scripted engine; `behaviour` as in `scripted.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "scripted",
        "replies": list(replies),
        "max_position_embeddings": max_len,
    }
    (folder / "config.json").write_text(json.dumps(config))
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    save_file({}, folder / "model.safetensors")
    behave(folder, **behaviour)
    return folder


def behave(folder: Path, **behaviour: Any) -> None:
    """Change how the engine behaves without changing the policy."""
    (folder / "scripted.json").write_text(json.dumps(behaviour))


def tiny_model(folder: Path, seed: int = 0, max_len: int = 512, **config: Any) -> Path:
    """A random Qwen3 model with the byte tokenizer."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    tokenizer = byte_tokenizer()
    settings = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": max_len,
        "tie_word_embeddings": True,
        **config,
    }
    model = Qwen3ForCausalLM(Qwen3Config(**settings))
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
