"""What a checkpoint folder says about chats: its template, its special tokens, its end tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prover_cli.errors import UsageError


@dataclass(frozen=True)
class ChatFiles:
    """The chat part of a checkpoint in Hugging Face's layout."""

    template: str | None = None
    """Jinja source; None where the folder has none."""
    special: Mapping[str, str] = field(default_factory=dict)
    """`bos_token`, `eos_token` and the like: the token's text by its name."""
    eos_ids: tuple[int, ...] = ()
    """Ids that end a generation, as `generation_config.json` lists them."""

    @classmethod
    def read(cls, folder: Path) -> ChatFiles:
        """Raises `UsageError` for files that cannot be read as what they should be."""
        config = _json(folder / "tokenizer_config.json")
        special = _special(_json(folder / "special_tokens_map.json")) | _special(config)
        eos = _json(folder / "generation_config.json").get("eos_token_id")
        ids = eos if isinstance(eos, list) else [] if eos is None else [eos]
        return cls(_template(folder, config), special, tuple(int(i) for i in ids))


def _template(folder: Path, config: Mapping[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = config.get("chat_template", _json(folder / "chat_template.json").get("chat_template"))
    if isinstance(found, list):
        named = {entry["name"]: entry["template"] for entry in found}
        if "default" not in named:
            raise UsageError(
                f"{folder} has several chat templates and none is the default: {', '.join(named)}",
                hint=f"write the one to use to {file}",
            )
        found = named["default"]
    return found if found is None else str(found)


def _special(config: Mapping[str, Any]) -> dict[str, str]:
    """The entries `..._token`, which are texts or objects with a `content`."""
    texts = {
        name: value["content"] if isinstance(value, dict) else value
        for name, value in config.items()
        if name.endswith("_token") and not isinstance(value, bool)
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path} is no JSON object")
    return content
