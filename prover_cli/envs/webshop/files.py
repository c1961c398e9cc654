"""WebShop's official files, found in a folder and read product by product.

`items_shuffle*.json` (products), `items_ins_v2*.json` (attributes and synthetic instructions) and
`items_human_ins.json` (human instructions), all optional but the first. A fourth,
`title_nouns.json`, holds the nouns of titles, where somebody has tagged them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import ijson

from prover_cli.envs.cache import remembered_hash
from prover_cli.envs.webshop.catalogue import RawCatalogue
from prover_cli.errors import UsageError

Advance = Callable[[int], None]
"""Told how many more bytes were read."""


@dataclass(frozen=True)
class OfficialFiles:
    folder: Path
    items: Path
    attributes: Path | None
    human: Path | None
    nouns: Path | None

    @classmethod
    def find(cls, folder: Path) -> OfficialFiles:
        """The files of a folder; `UsageError` names what is missing or ambiguous."""
        items = _only(folder, "items_shuffle*.json")
        if items is None:
            raise UsageError(
                f"{folder} holds no items_shuffle*.json: not a folder of WebShop data",
                hint="prover rollout --env webshop (without --data) uses the generated catalogue",
            )
        patterns = ("items_ins_v2*.json", "items_human_ins.json", "title_nouns.json")
        return cls(folder, items, *(_only(folder, pattern) for pattern in patterns))

    def _all(self) -> list[Path]:
        return [p for p in (self.items, self.attributes, self.human, self.nouns) if p is not None]

    def hashes(self) -> dict[str, str]:
        """Content hash of each file by name."""
        return {path.name: remembered_hash(path) for path in self._all()}

    def n_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._all())

    def read(self, advance: Advance = lambda n_bytes: None) -> RawCatalogue:
        """The catalogue; products stream, the annotations are held in memory, packed.

        Raises `UsageError` for what is not JSON of the expected shape, products when iterated.
        """
        return RawCatalogue(
            items=_products(self.items, advance),
            attributes=_mapping(self.attributes, advance),
            human=_mapping(self.human, advance),
            nouns=_mapping(self.nouns, advance),
            source=str(self.folder),
        )


def _only(folder: Path, pattern: str) -> Path | None:
    found = sorted(folder.glob(pattern))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UsageError(f"{folder} holds several {pattern}: {names}; keep the one to use")
    if found and not found[0].is_file():
        raise UsageError(f"{found[0]} is not a file")
    return found[0] if found else None


def _products(path: Path, advance: Advance) -> Iterator[Mapping[str, Any]]:
    if _first_character(path) not in (b"[", b""):
        raise UsageError(f"{path} is not a list of products")
    return _streamed(path, advance, lambda file: ijson.items(file, "item", use_float=True))


class Packed(Mapping[str, Any]):
    """JSON values kept as text, a third of the memory of the objects they stand for."""

    def __init__(self, entries: Iterator[tuple[str, Any]]) -> None:
        self._packed = {key: json.dumps(value).encode() for key, value in entries}

    def __getitem__(self, key: str) -> Any:
        return json.loads(self._packed[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def _mapping(path: Path | None, advance: Advance) -> Mapping[str, Any]:
    if path is None:
        return {}
    if _first_character(path) not in (b"{", b""):
        raise UsageError(f"{path} does not map products to what is known of them")
    return Packed(_streamed(path, advance, lambda file: ijson.kvitems(file, "", use_float=True)))


def _first_character(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(256).lstrip()[:1]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _streamed(path: Path, advance: Advance, parse: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
    with path.open("rb") as file:
        counted = _Counted(file, advance)
        try:
            yield from parse(counted)
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path} cannot be read as JSON: {_reason(error)}, within the first "
                f"{counted.n_read:,} of {path.stat().st_size:,} bytes; is the download complete?"
            ) from error


def _reason(error: Exception) -> str:
    text = error.args[0] if error.args else error
    return (text.decode(errors="replace") if isinstance(text, bytes) else str(text)).split("\n")[0]


class _Counted:
    """A file that tells how much of it was read."""

    def __init__(self, file: IO[bytes], advance: Advance) -> None:
        self._file, self._advance = file, advance
        self.n_read = 0

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self.n_read += len(content)
        self._advance(len(content))
        return content
