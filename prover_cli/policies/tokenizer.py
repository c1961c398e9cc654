"""A small byte-level BPE tokenizer with the ChatML template, trained on an environment's texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from prover_cli.tokens.render import IM_END, IM_START
from prover_cli.tokens.templates import CHATML

PAD = "<|endoftext|>"
FIRST_TEXT_ID = 3 + 256
"""Ids before it are control tokens and single bytes."""


def train_tokenizer(
    texts: Iterable[str], vocab_size: int, aliases: Sequence[str] = ()
) -> Tokenizer:
    """Train on `texts`; each of `aliases` is one token wherever it occurs. Digits stay single."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(aliases),
        special_tokens=[PAD, IM_START, IM_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(alias, special=False, normalized=False) for alias in aliases])
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, max_length: int) -> None:
    """Write it as a Hugging Face tokenizer, chat template included."""
    from transformers import PreTrainedTokenizerFast

    make: Any = PreTrainedTokenizerFast
    wrapped = make(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=PAD,
        additional_special_tokens=[IM_START],
        chat_template=CHATML,
        model_max_length=max_length,
    )
    wrapped.save_pretrained(folder)
