"""What a policy is shown of ALFWorld and how its replies are read."""

from __future__ import annotations

import pytest

from prover_cli.envs.alfworld.environment import AlfworldEnvironment
from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.prompts import CompactStyle, ReactStyle, TagsStyle
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.envs.base import Observation, PastTurn, Task
from tests.envs.test_alfworld_house import play, tiny

TASK = Task("id", "alfworld", "train", 0, "TASK.", {})


@pytest.fixture(scope="module")
def game() -> Game:
    return Game.from_json(tiny())


def test_the_styles_are_the_environments() -> None:
    styles = AlfworldEnvironment.prompts
    assert {name: style.name for name, style in styles.items()} == {n: n for n in styles}
    assert [style.history for style in styles.values()] == [1, 2, None]
    assert AlfworldEnvironment.default_prompt == "compact"


def test_compact_shows_the_place_the_hand_and_the_house_in_few_words(game: Game) -> None:
    style = CompactStyle()
    (message,) = style.opening(TASK, AlfworldSession(game).observe())
    house = "house drawer 1-2 fridge 1 microwave 1 sinkbasin 1 table 1"
    assert message.content == f"TASK.\nat start\nhold nothing\n{house}"
    walk = ("walk to table 1", "grab apple 1 off table 1", "walk to microwave 1")
    session = play(game, *walk, "warm apple 1 at microwave 1")
    past = [PastTurn("Done.", "warm apple 1 at microwave 1", "warm apple 1 at microwave 1")]
    (message,) = style.window(TASK, past, session.observe())
    assert message.content.splitlines() == [
        "TASK.",
        "did warm apple 1 at microwave 1",
        "at microwave 1 closed",
        "hold hot apple 1",
        "been table 1",
        house,
    ]
    session.step("walk to table 1")
    assert "at table 1 see lamp 1 mug 1" in style.following(TASK, session.observe())[0].content
    session.step("fly")
    assert style.following(TASK, session.observe())[0].content.startswith("nothing happened\n")


def test_tags_and_react_list_what_works_now(game: Game) -> None:
    session = play(game, "walk to table 1")
    for style in (TagsStyle(), ReactStyle()):
        text = "\n".join(m.content for m in style.opening(TASK, session.observe()))
        assert "Task: TASK." in text and "Now at table 1." in text
        assert "\ngrab apple 1 off table 1\n" in text and "moan" not in text


def test_the_task_is_stated_once_and_no_welcome_is_shown() -> None:
    text = "-= Welcome to TextWorld, ALFRED! =-\n\nAround: x.\n\nYour task is to: TASK."
    assert TagsStyle().shown(TASK, text) == "Around: x."


def test_react_names_no_location_on_arrival() -> None:
    text = "You arrive at loc 7. On desk 1, you see nothing."
    assert ReactStyle().shown(TASK, text) == "On desk 1, you see nothing."
    assert TagsStyle().shown(TASK, text) == text
    kept = "You arrive at desk 1. On the desk 1, you see nothing."
    assert ReactStyle().shown(TASK, kept) == kept


OBSERVATION = Observation("x", "k", ("go to desk 1", "look", "take pen 1 from desk 1"), {})


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("look", "look"),
        (" Go to  DESK 1. ", "go to desk 1"),
        ("take pen 1 from desk 1\n\n", "take pen 1 from desk 1"),
    ],
)
def test_case_and_blanks_do_not_matter(reply: str, action: str) -> None:
    for style, text in (
        (CompactStyle(), reply),
        (TagsStyle(), f"<think>So.</think><action>{reply}</action>"),
        (ReactStyle(), f"Thought: So.\nAction: {reply}"),
    ):
        parsed = style.parse(text, OBSERVATION)
        assert (parsed.action, parsed.valid, parsed.reason) == (action, True, None)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        ("look\nlook", "2 lines"),
        ("go to desk 2", "the closest that does is 'go to desk 1'"),
        ("look and go to desk 1", "does not work here"),
    ],
)
def test_compact_says_why_a_reply_is_no_command(reply: str, reason: str) -> None:
    parsed = CompactStyle().parse(reply, OBSERVATION)
    assert (parsed.valid, parsed.action) == (False, "") and reason in (parsed.reason or "")


def test_tags_want_exactly_one_action() -> None:
    for reply in ("look", "<action>look</action><action>look</action>", "<action>fly</action>"):
        parsed = TagsStyle().parse(reply, OBSERVATION)
        assert not parsed.valid and parsed.reason
