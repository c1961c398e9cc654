"""What commands do and what they answer, in a house with words of its own."""

from __future__ import annotations

import pytest

from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.session import NOTHING, AlfworldSession
from tests.envs.test_alfworld_house import place, play, tiny


@pytest.fixture(scope="module")
def game() -> Game:
    return Game.from_json(tiny())


def test_words_come_from_the_grammar_of_the_game(game: Game) -> None:
    session = AlfworldSession(game)
    assert session.observe().text == (
        "Hello. Around: drawer 2, drawer 1, fridge 1, microwave 1, sinkbasin 1, then table 1.\n"
        "Your task is to: TASK."
    )
    assert session.admissible == (
        "peer",
        "pockets",
        *(f"walk to {r}" for r in ("drawer 1", "drawer 2", "fridge 1", "microwave 1")),
        *("walk to sinkbasin 1", "walk to table 1"),
    )
    assert session.step("walk to fridge 1").observation.text == "Now at fridge 1. Shut."
    assert session.step("unlatch fridge 1").observation.text == "Within apple 2."
    assert session.step("grab apple 2 off fridge 1").observation.text == "Done."
    assert game.instruction == "TASK."


def test_looking_away_from_receptacles_shows_nothing_after_the_start(game: Game) -> None:
    assert play(game, "peer").text == "Around: naught."


def test_a_command_that_does_not_work_changes_nothing(game: Game) -> None:
    session = play(game, "walk to table 1")
    before = session.state_key, session.admissible, session.moves
    for command in (
        "Walk to fridge 1",
        "",
        "put apple 1 in/on table 1",
        "grab apple 2 off table 1",
    ):
        result = session.step(command)
        assert (result.observation.text, result.valid, result.reward) == (NOTHING, False, 0.0)
        assert (session.state_key, session.admissible, session.moves) == before
    assert session.step("  grab apple 1 off table 1\n").valid


def test_help_is_not_listed_but_works(game: Game) -> None:
    session = AlfworldSession(game)
    assert "moan" not in session.admissible
    assert session.step("moan").observation.text == "Poor you."
    assert "moan" in AlfworldSession(game, show_help=True).admissible
    silent = AlfworldSession(Game.from_json(tiny(has_help=False)), show_help=True)
    assert not silent.step("moan").valid


def test_receptacles_at_one_spot_are_all_at_hand(game: Game) -> None:
    session = play(game, "walk to drawer 2")
    assert not session.step("walk to drawer 1").valid
    assert session.step("grab mug 1 off drawer 1").valid
    assert "study drawer 1" in session.admissible
    assert session.step("unlatch drawer 2").valid


def test_a_thing_on_two_receptacles_stays_on_the_other(game: Game) -> None:
    session = play(game, "walk to table 1", "grab mug 1 off table 1", "walk to drawer 1")
    assert session.text == "Now at drawer 1. Upon mug 1."
    assert session.observe().page["holding"] == "mug 1"


def test_a_thing_moved_within_a_spot_is_listed_beside_its_old_place(game: Game) -> None:
    moved = ("walk to drawer 1", "grab mug 1 off drawer 1", "unlatch drawer 2")
    session = play(game, *moved, "stow mug 1 at drawer 2", "peer")
    assert session.text == "Here: drawer 2, then drawer 1. Astray: mug 1."
    back = ("grab mug 1 off drawer 2", "stow mug 1 at drawer 1", "peer")
    for command in back:
        session.step(command)
    assert session.text == "Here: drawer 2, then drawer 1. Astray: mug 1."


def test_heat_and_cool_exclude_each_other_and_go_through_closed_doors(game: Game) -> None:
    session = play(game, "walk to table 1", "grab apple 1 off table 1", "walk to microwave 1")
    for command, text in (
        ("warm apple 1 at microwave 1", "Hot."),
        ("warm apple 1 at microwave 1", "Hot."),
        ("walk to sinkbasin 1", None),
        ("rinse apple 1 at sinkbasin 1", "Hot, clean."),
        ("walk to fridge 1", None),
        ("chill apple 1 at fridge 1", "Cold."),
    ):
        assert session.step(command).valid
        assert text is None or session.step("study apple 1").observation.text == text
    assert session.observe().page["held_is"] == ["cool", "clean"]


def test_only_what_is_held_can_be_studied_and_a_knife_is_needed_to_carve(game: Game) -> None:
    session = play(game, "walk to table 1")
    assert "study apple 1" not in session.admissible
    assert not any(command.startswith("carve") for command in session.admissible)
    knife = (
        "walk to drawer 2",
        "unlatch drawer 2",
        "grab knife 1 off drawer 2",
        "walk to fridge 1",
    )
    session = play(game, *knife)
    assert "carve apple 2 using knife 1" in session.admissible
    for command in ("carve apple 2 using knife 1", "carve apple 2 using knife 1"):
        assert session.step(command).valid


def test_a_lamp_is_never_switched_off_again(game: Game) -> None:
    session = play(game, "walk to table 1", "press lamp 1")
    key = session.state_key
    assert session.step("press lamp 1").valid and session.state_key == key


def test_winning_is_the_goal_and_can_be_undone() -> None:
    session = play(
        Game.from_json(tiny()),
        *("walk to table 1", "grab apple 1 off table 1", "walk to drawer 1"),
    )
    result = session.step("stow apple 1 at drawer 1")
    assert (result.success, result.done, result.reward) == (True, True, 1.0)
    result = session.step("grab apple 1 off drawer 1")
    assert (result.success, result.done, result.reward) == (False, False, 0.0)


def test_never_goals_are_tested() -> None:
    goal = f"(and {place('Mug', 'Table')} (forall (?re - receptacle) (not (opened ?re))))"
    session = play(Game.from_json(tiny(goal)))
    assert session.won
    session.step("walk to fridge 1")
    assert not session.step("unlatch fridge 1").success
    assert session.step("latch fridge 1").success


def test_a_page_tells_no_more_than_was_shown(game: Game) -> None:
    session = play(game, "walk to fridge 1")
    assert (session.observe().page["closed"], session.observe().page["things"]) == (True, None)
    session.step("unlatch fridge 1")
    assert session.observe().page["things"] == ["apple 2"]
    session = play(game, "walk to drawer 2", "grab mug 1 off drawer 1")
    assert (session.observe().page["at"], session.observe().page["things"]) == ("drawer 1", None)
