"""Identities: content hashes for what things are, derived seeds for what is drawn.

Nothing here depends on process state, `PYTHONHASHSEED`, row order or file names, so the same
inputs give the same ids and seeds in every process and on every machine.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from prover_cli.errors import UsageError

_POLICY_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "adapter_config.json",
)
_POLICY_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin")
_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no insignificant white space: equal values give equal text."""
    return _CANONICAL.encode(value)


def digest(value: Any, length: int = 16) -> str:
    """Hex digest (`length` characters) of a JSON value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


def text_hash(text: str) -> str:
    """16 hex characters identifying a text, e.g. an observation."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def policy_id(folder: Path) -> str:
    """Identity of a checkpoint: the hash of the files that decide its behaviour, never its name.

    Raises `UsageError` when `folder` is not a Hugging Face checkpoint.
    """
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"{folder} is not a policy: it has no config.json",
            hint="name a Hugging Face checkpoint folder, or make one: prover policy init --out DIR",
        )
    files = [folder / name for name in _POLICY_FILES if (folder / name).is_file()]
    weights = sorted(path for pattern in _POLICY_WEIGHTS for path in folder.glob(pattern))
    if not weights:
        raise UsageError(f"{folder} is not a policy: it has a config.json but no weights")
    return digest({path.name: file_hash(path) for path in files + weights})


def derive_seed(*parts: str | int) -> int:
    """A 31-bit seed that depends on all `parts` and nothing else."""
    raw = hashlib.sha256(canonical_json(list(parts)).encode()).digest()
    return int.from_bytes(raw[:4], "big") >> 1
