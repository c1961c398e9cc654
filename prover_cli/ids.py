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
)
_POLICY_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin")
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
ADAPTER_RECORD = "prover.json"
"""Beside an adapter: `base_policy_id`, the checkpoint it was made for."""
_BASE_PATH = "base_model_name_or_path"
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
    """Identity of a policy: the hash of the files that decide its behaviour, never of a name.

    A policy is a Hugging Face checkpoint or a LoRA adapter of one; an adapter's identity includes
    its base's. Raises `UsageError` when `folder` is neither, or an adapter without its base.
    """
    if (folder / ADAPTER_CONFIG).is_file():
        return digest(_adapter_content(folder))
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"{folder} is not a policy: it has no config.json",
            hint="name a Hugging Face checkpoint folder, or make one: prover policy init --out DIR",
        )
    weights = sorted(path for pattern in _POLICY_WEIGHTS for path in folder.glob(pattern))
    if not weights:
        raise UsageError(f"{folder} is not a policy: it has a config.json but no weights")
    return digest(_hashes(folder) | {path.name: file_hash(path) for path in weights})


def adapter_base(folder: Path) -> tuple[Path, str]:
    """The base checkpoint of the adapter in `folder`, and that base's policy id.

    The path in `adapter_config.json` is absolute or relative to `folder`. Raises `UsageError` when
    there is no checkpoint, or another one than the adapter was made for.
    """
    path = str(_adapter_config(folder).get(_BASE_PATH))
    base = (folder / path).resolve()
    write_path = f'write the path of its base as "{_BASE_PATH}" into {folder / ADAPTER_CONFIG}'
    if not (base / "config.json").is_file() or (base / ADAPTER_CONFIG).is_file():
        raise UsageError(
            f"{folder} is an adapter of {path}, where there is no checkpoint", hint=write_path
        )
    present = policy_id(base)
    made_for = _read_json(folder / ADAPTER_RECORD).get("base_policy_id", present)
    if made_for != present:
        raise UsageError(
            f"{folder} is an adapter of policy {made_for}, but {base} is {present}", hint=write_path
        )
    return base, present


def _adapter_content(folder: Path) -> dict[str, str]:
    weights = folder / ADAPTER_WEIGHTS
    if not weights.is_file():
        raise UsageError(
            f"{folder} is not a policy: it has an {ADAPTER_CONFIG} but no {weights.name}"
        )
    # Where the base lies is a name; which one it is counts.
    settings = {key: value for key, value in _adapter_config(folder).items() if key != _BASE_PATH}
    return _hashes(folder) | {
        ADAPTER_CONFIG: digest(settings),
        ADAPTER_WEIGHTS: file_hash(weights),
        "base": adapter_base(folder)[1],
    }


def _adapter_config(folder: Path) -> dict[str, Any]:
    return _read_json(folder / ADAPTER_CONFIG, required=True)


def _hashes(folder: Path) -> dict[str, str]:
    present = [folder / name for name in _POLICY_FILES if (folder / name).is_file()]
    return {path.name: file_hash(path) for path in present}


def _read_json(path: Path, required: bool = False) -> dict[str, Any]:
    """The JSON object in a file; empty when there is no such file and none is required."""
    if not required and not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} is not a JSON object")
    return value


def derive_seed(*parts: str | int) -> int:
    """A 31-bit seed that depends on all `parts` and nothing else."""
    raw = hashlib.sha256(canonical_json(list(parts)).encode()).digest()
    return int.from_bytes(raw[:4], "big") >> 1
