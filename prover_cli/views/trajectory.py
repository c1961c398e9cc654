"""One trajectory in full: what the agent saw, what it said, and what its turns are worth."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from prover_cli.views.advantages import advantage_text
from prover_cli.views.facts import Facts
from prover_cli.views.text import MARK, number, plain, shown


def trajectory_view(facts: Facts) -> RenderableType:
    """The trajectory of `GroupReader.trajectory`, turn by turn."""
    parts: list[RenderableType] = [
        shown(facts["instruction"], "bold", lines=True),
        Text(
            f"trajectory {plain(facts['traj_id'])}: {facts['outcome']}, "
            f"reward {number(facts['reward'], '.2f')}, {facts['n_turns']} turns, "
            f"ended by {plain(facts['stop_reason'])}, policy {plain(facts['policy_id'] or 'n/a')}"
        ),
    ]
    for turn in facts["turns"]:
        own = [row for row in facts["advantages"] or () if row["turn"] == turn["turn"]]
        parts.extend(_turn(turn, own))
    return Group(*parts)


def _turn(turn: Facts, advantages: list[Facts]) -> Iterator[RenderableType]:
    mark = f"{MARK} " if turn["in_segment"] else ""
    inside = " (proposed segment)" if turn["in_segment"] else ""
    yield Text(f"\n{mark}turn {turn['turn']}{inside}", style="bold")
    yield from _block("observation", turn["observation"])
    yield from _block("reply", turn["reply"])
    yield from _block("action" if turn["action_valid"] else "invalid action", turn["action"])
    if turn["reward"]:
        yield Text(f"reward: {turn['reward']:.3f}")
    for row in advantages:
        yield Text(f"advantage {plain(row['estimator'])}: {advantage_text(row)}")


def _block(label: str, text: str) -> Iterator[RenderableType]:
    yield Text(f"{label}:", style="dim")
    yield Padding(shown(text, lines=True), (0, 0, 0, 2), expand=False)
