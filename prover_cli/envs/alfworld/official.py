"""The games of an ALFWorld download: which folders are games, which are not and why.

Games are sorted by path, so that a number means the same game on every machine; the official order
is that of the file system. What was read is kept in the cache by path, size and time of change, so
that a split is read once.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prover_cli.envs.alfworld.game import Game, game_hash, task_sentence
from prover_cli.envs.cache import cache_home
from prover_cli.errors import UsageError
from prover_cli.ids import text_hash

GAME_FILE, TRAJECTORY_FILE = "game.tw-pddl", "traj_data.json"
TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The six official task types; their numbers begin with 1."""
EXPECTED = MappingProxyType({"train": 3553, "valid_seen": 140, "valid_unseen": 134})
"""Games of all types in the official splits."""
FOLDERS = MappingProxyType({"train": 6374, "valid_seen": 251, "valid_unseen": 255})
"""Folders with a trajectory in the official splits."""
_CACHE_VERSION = 1
_TYPE = re.compile(rb'"task_type"\s*:\s*"([^"\\]*)"')

Entry = dict[str, Any]
"""What a folder says of itself: its type, and whether there is a game that can be solved."""


@dataclass(frozen=True)
class GameRow:
    """A game that can be played."""

    path: str
    """The game file below the data folder, with forward slashes."""
    content: str
    instruction: str
    task_type: str


@dataclass(frozen=True)
class Selection:
    """The games of a split and what was left out."""

    games: tuple[GameRow, ...]
    skipped: Mapping[str, int]
    note: str


def data_folder(data: Path) -> Path:
    """The folder with the splits: `data` itself or one below it."""
    for folder in (data, data / "json_2.1.1", *sorted(data.glob("*/json_2.1.1"))):
        if any((folder / split).is_dir() for split in EXPECTED):
            return folder
    raise UsageError(
        f"{data} holds no ALFWorld games: expected json_2.1.1 with train, valid_seen, valid_unseen",
        hint="leave out the data to play generated games",
    )


def select(root: Path, split: str, task_types: Collection[str]) -> Selection:
    """The games of a split, each once, in the order of their paths."""
    if not (root / split).is_dir():
        raise UsageError(f"{root} has no split {split}")
    folders = _folders(root, split)
    entries = _entries(root, split, [f for f in folders if _kept_out(f) is None])
    games: list[GameRow] = []
    skipped: Counter[str] = Counter()
    without_key: list[str] = []
    for folder in folders:
        entry = entries.get(folder, {})
        reason = _kept_out(folder) or _reason(entry, task_types)
        if reason is None:
            game = (entry["content"], entry["instruction"], entry["task_type"])
            games.append(GameRow(f"{folder}/{GAME_FILE}", *game))
        else:
            skipped[reason] += 1
            without_key += [folder] if reason == NO_KEY else []
    note = _note(split, len(folders), len(games), skipped, without_key)
    if set(task_types) < set(TASK_TYPES):
        note = f"{note}; task types: {', '.join(sorted(task_types))}"
    return Selection(tuple(games), MappingProxyType(dict(skipped)), note)


MOVABLE, SLICED, OTHER_TYPE = "movable", "sliced", "other task type"
NO_GAME, NO_KEY, UNSOLVABLE = "no game file", "no solvable key", "unsolvable"


def _kept_out(folder: str) -> str | None:
    """The reason in the path below the data folder not to play what is there."""
    if "movable" in folder:
        return MOVABLE
    return SLICED if "Sliced" in folder else None


def _reason(entry: Entry, task_types: Collection[str]) -> str | None:
    if entry["task_type"] not in task_types:
        return OTHER_TYPE
    return entry.get("reason")


def _folders(root: Path, split: str) -> list[str]:
    """Every folder of a split with a trajectory, below the data folder, sorted."""
    found = [
        Path(folder).relative_to(root).as_posix()
        for folder, _, files in os.walk(root / split)
        if TRAJECTORY_FILE in files
    ]
    return sorted(found)


def _entries(root: Path, split: str, folders: Sequence[str]) -> dict[str, Entry]:
    """What the folders say, from the cache where their files have not changed."""
    store = cache_home() / "alfworld" / f"{text_hash(str((root / split).resolve()))}.json.gz"
    known = _load(store)
    stamped = {_stamp(root, folder): folder for folder in folders}
    entries = {stamp: known[stamp] for stamp in stamped if stamp in known}
    if len(entries) < len(stamped) or len(known) > len(stamped):
        for stamp, folder in stamped.items():
            if stamp not in entries:
                entries[stamp] = _read(root / folder)
        # A folder that cannot be written only costs the time to read the games again.
        with contextlib.suppress(OSError):
            _save(store, entries)
    return {stamped[stamp]: entry for stamp, entry in entries.items()}


def _stamp(root: Path, folder: str) -> str:
    """A folder's path with the size and time of change of its two files."""
    stamp = [folder]
    for name in (TRAJECTORY_FILE, GAME_FILE):
        try:
            stat = os.stat(f"{root}/{folder}/{name}")
            stamp.append(f"{stat.st_size} {stat.st_mtime_ns}")
        except FileNotFoundError:
            stamp.append("absent")
    return "|".join(stamp)


def _read(folder: Path) -> Entry:
    entry: Entry = {"task_type": _task_type(folder / TRAJECTORY_FILE)}
    path = folder / GAME_FILE
    if not path.is_file():
        return entry | {"reason": NO_GAME}
    data = _json(path)
    if "solvable" not in data:
        return entry | {"reason": NO_KEY}
    if not data["solvable"]:
        return entry | {"reason": UNSOLVABLE}
    try:
        sentence = task_sentence(data) or Game.from_json(data).instruction
        return entry | {"content": game_hash(data), "instruction": sentence}
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}") from error


def _task_type(path: Path) -> str:
    """The type of a task. The file is large, so it is parsed only where a look is not enough."""
    found = _TYPE.findall(path.read_bytes())
    if len(found) == 1:
        return str(found[0].decode())
    return str(_json(path).get("task_type"))


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} is not a JSON object")
    return content


def _load(store: Path) -> dict[str, Entry]:
    try:
        content = json.loads(gzip.decompress(store.read_bytes()))
        return dict(content["entries"]) if content["version"] == _CACHE_VERSION else {}
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return {}  # not there, cut off, or of another version: read the games


def _save(store: Path, entries: Mapping[str, Entry]) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"version": _CACHE_VERSION, "entries": entries}, ensure_ascii=False)
    with tempfile.NamedTemporaryFile(dir=store.parent, delete=False) as file:
        file.write(gzip.compress(content.encode(), compresslevel=3, mtime=0))
    os.replace(file.name, store)


def _note(
    split: str, n_folders: int, n_games: int, skipped: Mapping[str, int], without_key: list[str]
) -> str:
    parts = [f"{n_games} of {n_folders} folders of {split} are games"]
    if skipped:
        counts = (f"{count} {reason}" for reason, count in sorted(skipped.items()))
        parts.append(f"skipped: {', '.join(counts)}")
    if without_key:
        more = f" and {len(without_key) - 3} more" if len(without_key) > 3 else ""
        parts.append(f"no solvable key in {', '.join(without_key[:3])}{more}")
    expected = EXPECTED.get(split, 0)
    full = n_folders >= 0.9 * FOLDERS.get(split, n_folders + 1) and OTHER_TYPE not in skipped
    if full and n_games != expected:
        parts.append(f"warning: the official {split} has {expected} games")
    return "; ".join(parts)
