"""ALFWorld (Shridhar et al. 2021): household tasks in text, in pure Python."""

from __future__ import annotations

from pathlib import Path

from prover_cli.envs.alfworld.environment import AlfworldEnvironment
from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.session import AlfworldSession

__all__ = ["AlfworldEnvironment", "AlfworldSession", "play_file"]


def play_file(path: str | Path) -> AlfworldSession:
    """A new episode of the game in a `game.tw-pddl` file."""
    return AlfworldSession(Game.read(Path(path)))
