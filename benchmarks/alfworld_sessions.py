"""Speed of ALFWorld sessions, and of TextWorld on the same commands where it is installed.

    python benchmarks/alfworld_sessions.py [--level 3] [--data DIR]

Steps are random admissible commands, each with the observation, the admissible commands and both
state keys. With the extra `alfworld-reference`, TextWorld plays the beginning of one game and the
ratio is printed; that game is written to a file first, since TextWorld plays files.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from prover_cli.envs.alfworld import AlfworldEnvironment
from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.generate import games
from prover_cli.envs.alfworld.session import AlfworldSession

EPISODES, STEPS, ROUNDS = 60, 40, 3


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def walk(session: AlfworldSession, seed: int, n: int) -> list[str]:
    """Random admissible commands; the ones that were taken."""
    generator = random.Random(seed)
    taken = []
    for _ in range(n):
        taken.append(generator.choice(session.admissible))
        session.step(taken[-1])
    return taken


def beside_textworld(game: dict[str, object], per_step: float) -> None:
    from prover_cli.envs.alfworld.verify import TextWorld

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "game.tw-pddl"
        path.write_text(json.dumps(game), encoding="utf-8")
        reference = TextWorld()
        opened = seconds(lambda: reference.open(path))
        commands = walk(AlfworldSession(Game.from_json(game)), 0, 10)
        theirs = seconds(lambda: [reference.step(command) for command in commands]) / 10
    print(f"TextWorld: opens a game in {opened:.1f} s, a step takes {theirs / per_step:,.0f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--data", default=None)
    arguments = parser.parse_args()
    opened = seconds(lambda: AlfworldEnvironment(data=arguments.data).tasks("train"))
    env = AlfworldEnvironment(data=arguments.data, level=arguments.level)
    tasks = list(env.tasks("train").draw(EPISODES, 0))
    print(f"split opened in {opened:.2f} s")
    played = [env.start(task, 0) for task in tasks]
    times = [
        seconds(lambda: [walk(env.start(t, 0), i, STEPS) for i, t in enumerate(tasks)])
        for _ in range(ROUNDS)
    ]
    per_step = min(times) / (len(tasks) * STEPS)
    print(f"step      {1e6 * per_step:6.0f} us ({1 / per_step:,.0f} a second)")
    for i, session in enumerate(played):
        walk(session, i, 10)
    shots = [(task, s.snapshot()) for task, s in zip(tasks, played, strict=True)]
    started = min(seconds(lambda: [env.start(t, 0) for t in tasks]) for _ in range(ROUNDS))
    restored = min(seconds(lambda: [env.restore(*shot) for shot in shots]) for _ in range(ROUNDS))
    size = sum(len(shot) for _, shot in shots) / len(shots)
    print(f"start     {1e6 * started / len(tasks):6.0f} us")
    print(f"restore   {1e6 * restored / len(shots):6.0f} us from {size:.0f} bytes")
    raw = [made.game for made in games("train", arguments.level, 20, 0)]
    print(
        f"parse     {1e3 * seconds(lambda: [Game.from_json(g) for g in raw]) / 20:6.1f} ms a game"
    )
    if importlib.util.find_spec("textworld") is not None:
        beside_textworld(raw[0], per_step)


if __name__ == "__main__":
    main()
