"""ALFWorld as an environment: which games, which splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prover_cli.envs.alfworld import official, oracle
from prover_cli.envs.alfworld.game import Game, game_hash, task_sentence
from prover_cli.envs.alfworld.generate import GENERATOR_VERSION, SIZES, GeneratedGame, games
from prover_cli.envs.alfworld.official import TASK_TYPES, GameRow
from prover_cli.envs.alfworld.prepare import generate_files, prepare
from prover_cli.envs.alfworld.prompts import CompactStyle, ReactStyle, TagsStyle
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.envs.alfworld.verify import verify
from prover_cli.envs.base import PromptStyle, Task
from prover_cli.envs.panel import SPLITS, Panel, make_task
from prover_cli.errors import TaskMismatchError, UsageError
from prover_cli.ids import digest

ENGINE_VERSION = 1
"""Raised when the same commands in the same game give other texts, keys or outcomes."""
OFFICIAL_SPLITS = MappingProxyType(
    {"train": "train", "valid": "valid_seen", "test": "valid_unseen"}
)
"""Seen rooms are for choosing what to train, unseen ones for the final test."""
TRAIN_GAMES, HELD_OUT_GAMES = SIZES["train"], SIZES["valid_seen"]
"""Sizes of the generated splits."""


class AlfworldEnvironment:
    """Household tasks on the official games (`data`) or on generated ones.

    `data` is the folder json_2.1.1 or one above it. `level` (1 to 3) and `games` (size of train)
    say what is generated, `seed` draws it. `task_types` keeps some of the six types, by name or
    number, separated by commas. `show_help` lists the command `help` where a game has it.
    """

    name = "alfworld"
    max_turns = 50
    default_prompt = "compact"
    prompts: Mapping[str, PromptStyle] = MappingProxyType(
        {"compact": CompactStyle(), "tags": TagsStyle(), "react": ReactStyle()}
    )

    prepare = staticmethod(prepare)
    generate = staticmethod(generate_files)
    verify = staticmethod(verify)

    def __init__(
        self,
        *,
        data: str | None = None,
        level: int = 1,
        games: int | None = None,
        seed: int = 0,
        task_types: str | None = None,
        show_help: bool = False,
    ) -> None:
        if level not in (1, 2, 3):
            raise UsageError(f"alfworld levels are 1, 2 and 3, not {level}")
        if games is not None and games < 1:
            raise UsageError(f"alfworld needs at least one game, not {games}")
        self._types = _task_types(task_types)
        self._show_help = show_help
        self._source: _Official | _Generated
        if data is None:
            self._source = _Generated(level, games or TRAIN_GAMES, seed)
        else:
            self._source = _Official(official.data_folder(Path(data)))
        # Which games there are is not part of it: every task id covers the content of its game.
        self.assets: Mapping[str, str] = {
            "engine": str(ENGINE_VERSION),
            "games": self._source.identity,
            "help": "listed" if show_help else "hidden",
        }
        self.fingerprint = digest([self.name, dict(self.assets)])

    def tasks(self, split: str) -> Panel:
        """The games of a split, sorted by path, and what was left out.

        Official names of splits work too.
        """
        if split == "all":
            return _joined([self._panel(name, split) for name in OFFICIAL_SPLITS.values()])
        known = (*SPLITS, *self._source.splits)
        if split not in known:
            raise UsageError(f"no split {split!r}; splits: {', '.join(dict.fromkeys(known))}")
        return self._panel(OFFICIAL_SPLITS.get(split, split), split)

    def _panel(self, official_split: str, split: str) -> Panel:
        found = self._source.select(official_split, self._types)
        tasks = [
            self._task(row, index, split, official_split) for index, row in enumerate(found.games)
        ]
        return Panel(tuple(tasks), found.note, found.skipped)

    def _task(self, row: GameRow, index: int, split: str, official_split: str) -> Task:
        payload = {
            "game": row.path,
            "content": row.content,
            "task_type": row.task_type,
            "official_split": official_split,
        }
        return make_task(self.name, split, index, row.instruction, payload, self.fingerprint)

    def start(self, task: Task, seed: int) -> AlfworldSession:
        return AlfworldSession(self.game(task), self._show_help)

    def restore(self, task: Task, snapshot: bytes) -> AlfworldSession:
        return AlfworldSession.restored(self.game(task), snapshot, self._show_help)

    def expert(self, task: Task, session: Any) -> str:
        return oracle.next_command(session)

    def game(self, task: Task) -> Game:
        """The game of a task; `TaskMismatchError` where it is no longer the recorded one."""
        return self._source.game(task.payload)


class _Official:
    """Games in a folder."""

    identity = "official"

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def splits(self) -> Sequence[str]:
        known = (*OFFICIAL_SPLITS.values(), "valid_train")
        return [name for name in known if (self._root / name).is_dir()]

    def select(self, split: str, types: Sequence[str]) -> official.Selection:
        return official.select(self._root, split, types)

    def game(self, payload: Mapping[str, Any]) -> Game:
        return _read_game(str(self._root / payload["game"]), payload["content"])


@dataclass(frozen=True)
class _Generated:
    """Games made from a seed."""

    level: int
    n_train: int
    seed: int

    @property
    def identity(self) -> str:
        version = f"generator {GENERATOR_VERSION}"
        return f"generated, {version}, level {self.level}, seed {self.seed}"

    @property
    def splits(self) -> Sequence[str]:
        return list(OFFICIAL_SPLITS.values())

    def select(self, split: str, types: Sequence[str]) -> official.Selection:
        found: list[GameRow] = []
        skipped = 0
        for path, made in self.made(split).items():
            task_type = made.traj_data["task_type"]
            if task_type in types:
                sentence = task_sentence(made.game) or Game.from_json(made.game).instruction
                found.append(GameRow(path, game_hash(made.game), sentence, task_type))
            else:
                skipped += 1
        note = f"{len(found)} generated games of level {self.level}, seed {self.seed}"
        counts = {official.OTHER_TYPE: skipped} if skipped else {}
        return official.Selection(tuple(found), MappingProxyType(counts), note)

    def game(self, payload: Mapping[str, Any]) -> Game:
        return _parse_game(self, payload["official_split"], payload["game"], payload["content"])

    def made(self, split: str) -> Mapping[str, GeneratedGame]:
        """The games of a split by path."""
        n = self.n_train if split == "train" else HELD_OUT_GAMES
        return _generate(split, self.level, n, self.seed)


@lru_cache(maxsize=8)
def _generate(split: str, level: int, n: int, seed: int) -> Mapping[str, GeneratedGame]:
    made = games(split, level, n, seed)
    return {one.path: one for one in sorted(made, key=lambda one: one.path)}


@lru_cache(maxsize=256)
def _parse_game(source: _Generated, split: str, path: str, content: str) -> Game:
    """A generated game, which must have the content that was recorded."""
    made = source.made(split).get(path)
    if made is None or game_hash(made.game) != content:
        raise TaskMismatchError(f"{path} is no longer generated as it was recorded")
    return Game.from_json(made.game)


@lru_cache(maxsize=256)
def _read_game(path: str, content: str) -> Game:
    """The game of a file, which must have the content that was recorded."""
    if not Path(path).is_file():
        raise TaskMismatchError(f"the game {path} is gone")
    game = Game.read(Path(path))
    if game.content != content:
        raise TaskMismatchError(
            f"the game {path} has changed: its content is {game.content}, recorded was {content}"
        )
    return game


def _task_types(wanted: str | None) -> tuple[str, ...]:
    """Task types by name or number, in the official order."""
    if wanted is None:
        return TASK_TYPES
    chosen: set[str] = set()
    for word in str(wanted).split(","):
        name = word.strip()
        if name.isdecimal() and 1 <= int(name) <= len(TASK_TYPES):
            name = TASK_TYPES[int(name) - 1]
        if name not in TASK_TYPES:
            raise UsageError(
                f"no ALFWorld task type {word.strip()!r}; types: "
                + ", ".join(f"{i} {known}" for i, known in enumerate(TASK_TYPES, start=1))
            )
        chosen.add(name)
    return tuple(name for name in TASK_TYPES if name in chosen)


def _joined(panels: Sequence[Panel]) -> Panel:
    """Several splits as one, numbered through."""
    tasks = [task for panel in panels for task in panel]
    skipped: dict[str, int] = {}
    for panel in panels:
        for reason, count in panel.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count
    numbered = (
        Task(t.task_id, t.env, t.split, i, t.instruction, t.payload) for i, t in enumerate(tasks)
    )
    return Panel(tuple(numbered), "; ".join(p.note or "" for p in panels), skipped)
