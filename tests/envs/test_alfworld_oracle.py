"""The expert, from any state of any kind of task."""

from __future__ import annotations

import random

import pytest

from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.oracle import NoPlanError, next_command
from prover_cli.envs.alfworld.session import AlfworldSession
from tests.envs.test_alfworld_house import GOALS, lying, place, play, tiny


@pytest.mark.parametrize("kind", sorted(GOALS))
def test_the_expert_wins_from_anywhere(kind: str) -> None:
    game = Game.from_json(tiny(GOALS[kind]))
    for seed in range(40):
        generator = random.Random(seed)
        session = AlfworldSession(game)
        for _ in range(generator.randrange(60)):
            session.step(generator.choice(session.admissible))
        for n in range(16):
            if session.won:
                break
            assert session.step(next_command(session)).valid
            assert n < 15


def test_the_expert_says_why_it_knows_no_way() -> None:
    for goal, reason in (
        (place("Pear", "Drawer"), "takes the object"),
        (place("Apple", "Sofa"), "takes the object"),
        ("(forall (?r - receptacle) (not (opened ?r)))", "nothing left to do"),
        ("(exists (?r - receptacle) (opened ?r))", "does not know"),
    ):
        with pytest.raises(NoPlanError, match=reason):
            next_command(AlfworldSession(Game.from_json(tiny(goal))))


def test_the_expert_says_why_when_the_hand_cannot_be_emptied() -> None:
    extra = lying("Rock_bar_1", "RockType", "Table_bar_1", "loc_bar_1")
    session = play(Game.from_json(tiny(extra=extra)), "walk to table 1", "grab rock 1 off table 1")
    with pytest.raises(NoPlanError, match="nothing takes the rock 1"):
        next_command(session)
