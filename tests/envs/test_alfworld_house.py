"""A small house to play in, and which games the engine refuses.

The house's grammar shares no word with the official ones.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from prover_cli.envs.alfworld.game import Game
from prover_cli.envs.alfworld.pddl import ACTIONS
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.errors import UsageError

STATIONS = {"cleanobject": "SinkBasinType", "heatobject": "MicrowaveType"} | {
    "coolobject": "FridgeType"
}
COMMANDS = {
    "look": "peer",
    "inventory": "pockets",
    "help": "moan",
    "examineReceptacle": "study {r}",
    "examineObject": "study {o}",
    "GotoLocation": "walk to [{r.name | receptacleatlocation(r:receptacle, lend:location)}]",
    "OpenObject": "unlatch {r}",
    "CloseObject": "latch {r}",
    "PickupObject": "grab {o} off {r}",
    "PutObject": "stow {o} at {r}",
    "CleanObject": "rinse {o} at {r}",
    "HeatObject": "warm {o} at {r}",
    "CoolObject": "chill {o} at {r}",
    "ToggleObject": "press {o}",
    "SliceObject": "carve {co} using {ko}",
}
VIEW = "[{o.name | inreceptacle(o:object, r:receptacle)}]"
RULES: dict[str, list[dict[str, str]]] = {
    "intro": [{"rhs": "Hello. #look#\n#task#"}],
    "task": [{"rhs": "Your task is to: TASK."}],
    "list_empty": [{"rhs": "naught"}],
    "list_separator": [{"rhs": ", "}],
    "list_last_separator": [{"rhs": ", then "}],
    "look": [
        {
            "condition": "atlocation(a:agent, l:location) & receptacleatlocation(r:receptacle, l:location)",  # noqa: E501
            "rhs": "Here: [{r.name | receptacleatlocation(r:receptacle, l:location)}]. Astray: "
            "[{o.name | objectatlocation(o:object, l:location) & receptacleatlocation(r:receptacle, l:location) & not_inreceptacle(o:object, r:receptacle)}].",  # noqa: E501
        },
        {"rhs": "Around: [{r.name | receptacleatlocation(r:receptacle, l:location)}]."},
    ],
    "inventory": [{"rhs": "Pockets: [{o.name | holds(a:agent, o:object)}]."}],
    "help": [{"rhs": "Poor you."}],
    "view": [
        {"condition": "openable(r:receptacle) & opened(r:receptacle)", "rhs": f"Within {VIEW}."},
        {"condition": "openable(r:receptacle)", "rhs": "Shut."},
        {"rhs": f"Upon {VIEW}."},
    ],
    "GotoLocation": [{"rhs": "Now at {r.name}. #view#"}],
    "OpenObject": [{"rhs": "#view#"}],
    "examineReceptacle": [{"rhs": "#view#"}],
    "examineObject": [
        {"condition": "ishot(o:object) & isclean(o:object)", "rhs": "Hot, clean."},
        {"condition": "ishot(o:object)", "rhs": "Hot."},
        {"condition": "iscool(o:object)", "rhs": "Cold."},
        {"rhs": "Plain."},
    ],
}


def tiny(goal: str = "", extra: Sequence[str] = (), *, has_help: bool = True, **more: Any) -> Any:
    """The JSON of a game: a table, a fridge, a microwave, a sink and two drawers at one spot."""
    names = ACTIONS | ({"help"} if has_help else set())
    actions = [f"(:action {name} {_where(name)})" for name in sorted(names)]
    facts = "\n".join(f"({fact})" for fact in (*_house(), *extra))
    goal = goal or place("Apple", "Drawer")
    problem = f"(define (problem p) (:init (= (total-cost) 0) ; cost\n{facts}) (:goal {goal}))"
    game = {
        "pddl_domain": f"(define (domain d) (:predicates (openable ?r)) {' '.join(actions)})",
        "grammar": _grammar(names),
        "pddl_problem": problem,
        "solvable": True,
    }
    return game | more


def _house() -> list[str]:
    able = [f"{able} Apple_bar_{n}" for able in ("clean", "heat", "cool", "slice") for n in "12"]
    return [
        "atLocation agent1 loc_bar_0",
        *_receptacle("Table_bar_1", "TableType", "loc_bar_1"),
        *_receptacle("Fridge_bar_1", "FridgeType", "loc_bar_2", "openable"),
        *_receptacle("Microwave_bar_1", "MicrowaveType", "loc_bar_3", "openable"),
        *_receptacle("Sink_bar_1_bar_SinkBasin", "SinkBasinType", "loc_bar_4"),
        *_receptacle("Drawer_bar_1", "DrawerType", "loc_bar_5", "openable"),
        *_receptacle("Drawer_bar_2", "DrawerType", "loc_bar_5"),
        *lying("Apple_bar_1", "AppleType", "Fridge_bar_1", "loc_bar_2"),
        *lying("Apple_bar_2", "AppleType", "Table_bar_1", "loc_bar_1"),
        *lying("Mug_bar_1", "MugType", "Table_bar_1", "loc_bar_1"),
        "inReceptacle Mug_bar_1 Drawer_bar_2",
        *lying("Knife_bar_1", "KnifeType", "Drawer_bar_1", "loc_bar_5"),
        *lying("Lamp_bar_1", "LampType", "Table_bar_1", "loc_bar_1")[:-1],
        "toggleable Lamp_bar_1",
        *(each.replace(" ", "able ") for each in able),
        *(
            f"canContain {r}Type {o}Type"
            for r in ("Table", "Fridge", "Drawer")
            for o in ("Apple", "Mug", "Knife")
        ),
    ]


def _where(name: str) -> str:
    types = {"sliceobject": "(objectType ?o KnifeType)"}
    types |= {action: f"(receptacleType ?r {kind})" for action, kind in STATIONS.items()}
    return f":precondition (and {types.get(name, '')})"


def _receptacle(name: str, kind: str, spot: str, *properties: str) -> list[str]:
    facts = [f"receptacleType {name} {kind}", f"receptacleAtLocation {name} {spot}"]
    return facts + [f"{each} {name}" for each in properties]


def lying(name: str, kind: str, receptacle: str, spot: str) -> list[str]:
    """The facts of an object in a receptacle."""
    where = [f"inReceptacle {name} {receptacle}", f"objectAtLocation {name} {spot}"]
    return [f"objectType {name} {kind}", *where, f"pickupable {name}"]


def _grammar(names: set[str] | frozenset[str]) -> str:
    blocks = [f'grammar :: """{json.dumps(RULES)}""";']
    for name, command in COMMANDS.items():
        if name.lower() in names:
            feedback = f"#{name}#" if name in RULES else "Done."
            blocks.append(f'action {name} {{ template :: "{command}"; feedback :: "{feedback}"; }}')
    return "\n".join(blocks)


def place(thing: str, receptacle: str, extra: str = "") -> str:
    """The goal to have a thing in a receptacle."""
    return (
        f"(and (exists (?r - receptacle) (exists (?o - object) (and (inReceptacle ?o ?r) {extra}"
        f" (objectType ?o {thing}Type) (receptacleType ?r {receptacle}Type)))))"
    )


TWO = """(exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 AppleType)
 (receptacleType ?r DrawerType) (inReceptacle ?o1 ?r) (exists (?o2 - object)
 (and (not (= ?o1 ?o2)) (objectType ?o2 AppleType) (inReceptacle ?o2 ?r))))))"""
LIGHT = """(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location)
 (and (objectType ?ot LampType) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l)
 (atLocation ?a ?l) (inReceptacle ?ot ?r)))
 (exists (?o - object ?a - agent) (and (objectType ?o MugType) (holds ?a ?o))))"""
GOALS = {
    "place": place("Apple", "Drawer"),
    "clean": place("Apple", "Fridge", "(cleanable ?o) (isClean ?o)"),
    "heat": place("Apple", "Fridge", "(heatable ?o) (isHot ?o)"),
    "cool": place("Apple", "Table", "(coolable ?o) (isCool ?o)"),
    "two": TWO,
    "light": LIGHT,
}


def play(game: Game, *commands: str) -> AlfworldSession:
    """A session after some commands, each of which must work."""
    session = AlfworldSession(game)
    for command in commands:
        assert session.step(command).valid, command
    return session


def test_another_set_of_actions_is_refused() -> None:
    data = tiny()
    data["pddl_domain"] = data["pddl_domain"].replace("(:action look ", "(:action fly ")
    with pytest.raises(UsageError, match="unknown: fly; missing: look"):
        Game.from_json(data)


@pytest.mark.parametrize(
    ("part", "cut", "paste", "reason"),
    [
        ("pddl_problem", "atLocation agent1", "at agent1", "one agent"),
        ("pddl_problem", "(and (exists", "(or (exists", "goal"),
        ("pddl_problem", ":init", ":start", ":init"),
        ("grammar", "action OpenObject", "action Fly", "openobject"),
        ("grammar", '"intro"', '"outro"', "#intro#"),
        ("grammar", "press {o}", "press [{o.name | istoggled(o:object)}]", "depends on the state"),
    ],
)
def test_a_game_that_cannot_be_played_is_refused(
    part: str, cut: str, paste: str, reason: str
) -> None:
    data = tiny()
    assert cut in data[part]
    data[part] = data[part].replace(cut, paste)
    with pytest.raises(UsageError, match=reason):
        Game.from_json(data)
