"""What is done once and takes a while: reading official games, writing generated ones."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from prover_cli.envs.alfworld import official
from prover_cli.envs.alfworld.game import game_hash
from prover_cli.envs.alfworld.generate import GENERATOR_VERSION, SIZES, GeneratedGame, stream
from prover_cli.envs.base import Progress
from prover_cli.errors import StorageError, UsageError
from prover_cli.ids import digest

RECORD_FILE = "generated.json"
"""Beside the games: what they were drawn from."""


def prepare(progress: Progress, *, data: str) -> dict[str, Any]:
    """Read every game of the official splits once, so that the environment opens at once.

    Returns how many games there are and what was left out, by reason.
    """
    root = official.data_folder(Path(data))
    splits = [split for split in official.EXPECTED if (root / split).is_dir()]
    progress.start("reading", len(splits), "splits")
    games: dict[str, int] = {}
    contents: dict[str, str] = {}
    skipped: Counter[str] = Counter()
    for split in splits:
        found = official.select(root, split, official.TASK_TYPES)
        games[split] = len(found.games)
        contents[split] = digest([(game.path, game.content) for game in found.games])
        skipped.update(found.skipped)
        progress.advance(1, f"{len(found.games):,} games")
        progress.note(found.note)
    return {
        "folder": str(root),
        "games": games,
        "skipped": dict(sorted(skipped.items())),
        "contents": contents,
    }


def generate_files(
    progress: Progress,
    *,
    out: str,
    seed: int = 0,
    level: int = 1,
    games: int = SIZES["train"],
    held_out: int = SIZES["valid_seen"],
    shared_spots: bool = False,
) -> dict[str, Any]:
    """Write generated games as official files, for `--data` and for other tools.

    `games` is the size of train, `held_out` that of the other two splits. Every game is solved
    once before it is written. With `shared_spots` some cabinets and drawers are used from the same
    place.
    """
    if games < 1 or held_out < 1:
        raise UsageError(f"a split needs at least one game, not {min(games, held_out)}")
    folder = Path(out)
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", hint="name a new folder: --out DIR")
    sizes = {split: games if split == "train" else held_out for split in SIZES}
    progress.start("generating", sum(sizes.values()), "games")
    contents: dict[str, str] = {}
    try:
        for split, n in sizes.items():
            rows = []
            for made in islice(stream(split, level, seed, shared_spots=shared_spots), n):
                write(made.checked(), folder / "json_2.1.1")
                rows.append((made.path, game_hash(made.game)))
                progress.advance()
            contents[split] = digest(sorted(rows))
        facts = {"generator": GENERATOR_VERSION, "level": level, "seed": seed, "games": sizes}
        facts |= {"shared_spots": shared_spots, "contents": contents}
        (folder / RECORD_FILE).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}") from error
    return {"folder": str(folder), **facts}


def write(made: GeneratedGame, root: Path) -> None:
    """Write a game and its trajectory below a data folder."""
    path = root / made.path
    path.parent.mkdir(parents=True)
    contents = {path: made.game, path.with_name(official.TRAJECTORY_FILE): made.traj_data}
    for file, content in contents.items():
        file.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
