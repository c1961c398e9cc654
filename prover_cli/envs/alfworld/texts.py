"""The sentences of generated games: the grammar that answers commands, and the task itself.

The grammar has the shape of the official one of alfworld 0.4: "move" puts things down, and places
are called by their names. It must not contain what the official reader drops: a sentence ends at
any of `;|"<>[]#{}` that belongs to no expression.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from prover_cli.envs.alfworld.game import TASK_PREFIX

SHAPES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "pick_and_place_simple": ("put a {thing} in {place}", "put some {thing} on {place}"),
        "look_at_obj_in_light": (
            "look at {thing} under the {place}",
            "examine the {thing} with the {place}",
        ),
        "pick_clean_then_place_in_recep": (
            "put a clean {thing} in {place}",
            "clean some {thing} and put it in {place}",
        ),
        "pick_heat_then_place_in_recep": (
            "put a hot {thing} in {place}",
            "heat some {thing} and put it in {place}",
        ),
        "pick_cool_then_place_in_recep": (
            "put a cool {thing} in {place}",
            "cool some {thing} and put it in {place}",
        ),
        "pick_two_obj_and_place": (
            "put two {thing} in {place}",
            "find two {thing} and put them in {place}",
        ),
    }
)
"""How the task is put in a game, in the official words."""

RETELLINGS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "pick_and_place_simple": (
            "Bring a {thing} to the {place}.",
            "Find a {thing} and leave it at the {place}.",
            "A {thing} belongs at the {place}, so take one there.",
        ),
        "look_at_obj_in_light": (
            "Hold a {thing} next to the lit {place}.",
            "Fetch a {thing} and switch on the {place} to see it better.",
            "Inspect a {thing} in the light of the {place}.",
        ),
        "pick_clean_then_place_in_recep": (
            "Wash a {thing} and bring it to the {place}.",
            "Take a {thing} to the sink, then leave it at the {place}.",
            "The {place} needs a {thing} that has been rinsed.",
        ),
        "pick_heat_then_place_in_recep": (
            "Warm up a {thing} and bring it to the {place}.",
            "Take a {thing} to the microwave, then leave it at the {place}.",
            "The {place} needs a {thing} that has been heated.",
        ),
        "pick_cool_then_place_in_recep": (
            "Chill a {thing} and bring it to the {place}.",
            "Take a {thing} to the fridge, then leave it at the {place}.",
            "The {place} needs a {thing} that has been cooled.",
        ),
        "pick_two_obj_and_place": (
            "Bring one {thing} and then another to the same {place}.",
            "Collect a pair of this kind at one {place}: {thing}.",
            "Find a {thing}, leave it at a {place}, and add a second one.",
        ),
    }
)
"""Ways in which a person might put it; kept beside a game, never shown in play."""

_HERE = "atlocation(a:agent, l:location) & receptacleatlocation(r:receptacle, l:location)"
_BESIDE = (
    "atlocation(a:agent, l:location) & objectatlocation(o:object, l:location)"
    " & receptacleatlocation(r:receptacle, l:location) & not_inreceptacle(o:object, r:receptacle)"
)
_CONTENT = "[{o.indefinite + ' ' + o.name | inreceptacle(o:object, r:receptacle)}]"
_QUALITIES = (
    ("isclean ishot issliced", "hot and clean sliced"),
    ("isclean iscool issliced", "cool and clean sliced"),
    ("isclean issliced", "clean sliced"),
    ("ishot issliced", "hot sliced"),
    ("iscool issliced", "cool sliced"),
    ("isclean ishot", "hot and clean"),
    ("isclean iscool", "cool and clean"),
    ("ishot", "hot"),
    ("isclean", "clean"),
    ("iscool", "cold"),
    ("issliced", "sliced"),
)
"""What an object in the hand may have become, and the words for it; the first that fits counts."""

_RULES: Mapping[str, list[tuple[str, str]]] = {
    "intro": [("", "-= Welcome to TextWorld, ALFRED! =-\n\n#look.feedback#\n\n#task#")],
    "look.feedback": [
        (_HERE, "#facing#. Next to it, you see #beside#."),
        ("", "You are in the middle of a room. Looking quickly around you, you see #around#."),
    ],
    "facing": [("", f"You are facing the [{{r.name | {_HERE}}}]")],
    "beside": [("", f"[{{o.indefinite + ' ' + o.name | {_BESIDE}}}]")],
    "around": [
        (
            "",
            "[{r.indefinite + ' ' + r.name | receptacleatlocation(r:receptacle, l:location)}]",
        )
    ],
    "view": [
        (
            "openable(r:receptacle) & opened(r:receptacle)",
            f"The {{r.name}} is open. In it, you see {_CONTENT}.",
        ),
        ("openable(r:receptacle)", "The {r.name} is closed."),
        ("", f"On the {{r.name}}, you see {_CONTENT}."),
    ],
    "inspection": [
        (
            "isreceptacleobject(o:object)",
            "This is a normal {o.name}. In it, you see"
            " [{p.indefinite + ' ' + p.name | inreceptacleobject(p:object, o:object)}].",
        ),
        *(
            (
                " & ".join(f"{fact}(o:object)" for fact in facts.split()),
                f"This is a {words} {{o.name}}.",
            )
            for facts, words in _QUALITIES
        ),
        ("", "There's nothing special about {o.name}."),
    ],
    "hand": [
        (
            "holdsany(a:agent)",
            "You are carrying: [{o.indefinite + ' ' + o.name | holds(a:agent, o:object)}].",
        ),
        ("", "You are not carrying anything."),
    ],
    "list_empty": [("", "nothing")],
    "list_separator": [("", ", ")],
    "list_last_separator": [("", ", and ")],
}

_ACTIONS: Mapping[str, tuple[str, str]] = {
    "look": ("look", "#look.feedback#"),
    "inventory": ("inventory", "#hand#"),
    "help": ("help", "#help.feedback#"),
    "examineReceptacle": ("examine {r}", "#view#"),
    "examineObject": ("examine {o}", "#inspection#"),
    "GotoLocation": ("go to {r}", "You arrive at {r.name}. #view#"),
    "OpenObject": ("open {r}", "You open the {r.name}. #view#"),
    "CloseObject": ("close {r}", "You close the {r.name}."),
    "PickupObject": ("take {o} from {r}", "You pick up the {o.name} from the {r.name}."),
    "PutObject": ("move {o} to {r}", "You move the {o.name} to the {r.name}."),
    "CleanObject": ("clean {o} with {r}", "You clean the {o.name} using the {r.name}."),
    "HeatObject": ("heat {o} with {r}", "You heat the {o.name} using the {r.name}."),
    "CoolObject": ("cool {o} with {r}", "You cool the {o.name} using the {r.name}."),
    "ToggleObject": ("use {o}", "You turn on the {o.name}."),
    "SliceObject": ("slice {co} with {ko}", "You sliced the {co.name} with the {ko.name}."),
}
"""What to type, and the answer."""

_HELP = (
    "Commands that may work, with names in place of the dots:\n"
    "  look: look around\n"
    "  inventory: look at what you carry\n"
    "  examine ...: look at a place here, or at what you carry\n"
    "  go to ...: walk to a place\n"
    "  open ... or close ...: for places with doors\n"
    "  take ... from ...: pick something up, if your hands are empty\n"
    "  move ... to ...: put down what you carry\n"
    "  clean, heat or cool ... with ...: what you carry, at the right place\n"
    "  use ...: switch on a lamp\n"
    "  slice ... with ...: cut something here with the knife you carry"
)
_TASK = "TASK"


def grammar(sentence: str) -> str:
    """The whole grammar of a game whose task is the sentence (without its full stop)."""
    return _template().replace(_TASK, sentence)


@cache
def _template() -> str:
    rules = {**_RULES, "help.feedback": [("", _HELP)], "task": [("", f"{TASK_PREFIX}{_TASK}.")]}
    symbols = {**rules, **{f"{name}.answer": [("", a)] for name, (_, a) in _ACTIONS.items()}}
    entries = {name: [_entry(*rule) for rule in rule_list] for name, rule_list in symbols.items()}
    blocks = [f'grammar :: """\n{json.dumps(entries, indent=1)}\n""";\n']
    blocks += [
        f'action {name} {{\n template :: "{command}";\n feedback :: "#{name}.answer#";\n}}\n'
        for name, (command, _) in _ACTIONS.items()
    ]
    return "\n".join(blocks)


def _entry(condition: str, rhs: str) -> dict[str, str]:
    return {"condition": condition, "rhs": rhs} if condition else {"rhs": rhs}


def spoken(kind: str) -> str:
    """A kind of thing as a person would call it: `ButterKnife` becomes `butter knife`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", kind).lower()
