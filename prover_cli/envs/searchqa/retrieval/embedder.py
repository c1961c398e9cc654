"""A local Hugging Face model that turns texts into vectors, as E5 and its kin are used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from prover_cli.errors import UsageError
from prover_cli.ids import policy_id

POOLINGS = ("mean", "cls")


class Embedder:
    """Vectors of length one (float32); thread safe.

    The vector of a text is the mean of its last hidden states (pooling `mean`) or the first of them
    (`cls`). Raises `UsageError` for a folder that holds no such model.
    """

    def __init__(self, folder: Path, *, pooling: str, max_length: int, device: str) -> None:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        if pooling not in POOLINGS:
            raise UsageError(f"pooling is {' or '.join(POOLINGS)}, not {pooling!r}")
        if not (folder / "config.json").is_file():
            raise UsageError(
                f"{folder} is no embedding model: it has no config.json",
                hint="name the folder of a downloaded model, such as intfloat/e5-base-v2",
            )
        self.model_id = policy_id(folder)
        self._pooling = pooling
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self._max_length = min(max_length, int(self._tokenizer.model_max_length))
            model: Any = AutoModel.from_pretrained(
                folder, local_files_only=True, dtype=torch.float32
            )
            self._device = torch.device(_device(device))
            self._model = model.to(self._device).eval()
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            raise UsageError(f"{folder} cannot be loaded as an embedding model: {error}") from error
        # A fast tokenizer cannot be used by two threads at once.
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Numbers in a vector."""
        return int(self._model.config.hidden_size)

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector a text: [len(texts), size]."""
        with self._lock:
            batch = self._tokenizer(
                list(texts),
                padding=True,
                truncation=True,
                max_length=self._max_length,
                return_tensors="pt",
            ).to(self._device)
            states = self._model(**batch).last_hidden_state
            if self._pooling == "cls":
                pooled = states[:, 0]
            else:
                mask = batch["attention_mask"].unsqueeze(-1)
                pooled = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            vectors: NDArray[np.float32] = torch.nn.functional.normalize(pooled).cpu().numpy()
        return vectors


def _device(wanted: str) -> str:
    if wanted != "auto":
        return wanted
    return "cuda" if torch.cuda.is_available() else "cpu"
