"""The problem text of a generated game, and the trajectory file that lies beside it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from prover_cli.envs.alfworld.domain import BLADES, STATIONS
from prover_cli.envs.alfworld.errands import LIGHT, TWO, Errand, Thing
from prover_cli.envs.alfworld.rooms import Scene
from prover_cli.envs.alfworld.texts import RETELLINGS, SHAPES, spoken
from prover_cli.envs.alfworld.vocabulary import LAMP, MAY_HOLD, PROPERTIES

AGENT = "agent1"
_CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "pick_and_place_simple": "",
        "pick_clean_then_place_in_recep": "(cleanable ?o) (isClean ?o) ",
        "pick_heat_then_place_in_recep": "(heatable ?o) (isHot ?o) ",
        "pick_cool_then_place_in_recep": "(coolable ?o) (isCool ?o) ",
    }
)
_PLACE = """(exists (?r - receptacle) (exists (?o - object) (and
    {condition}(objectType ?o {thing}Type) (receptacleType ?r {place}Type)
    (inReceptacle ?o ?r))))"""
_TWO = """(exists (?r - receptacle) (exists (?o1 - object) (and
    (objectType ?o1 {thing}Type) (receptacleType ?r {place}Type) (inReceptacle ?o1 ?r)
    (exists (?o2 - object) (and
      (not (= ?o1 ?o2)) (objectType ?o2 {thing}Type) (inReceptacle ?o2 ?r))))))"""
_LIGHT = """(exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and
      (objectType ?ot {place}Type) (toggleable ?ot) (isToggled ?ot)
      (inReceptacle ?ot ?r) (receptacleAtLocation ?r ?l) (atLocation ?a ?l)))
  (exists (?o - object ?a - agent) (and (objectType ?o {thing}Type) (holds ?a ?o)))"""


def problem(title: str, errand: Errand, scene: Scene, things: Sequence[Thing]) -> str:
    """The problem in PDDL."""
    objects = "\n".join(f"  {names} - {kind}" for names, kind in _objects(scene, things))
    facts = "\n".join(f"  ({fact})" for fact in _facts(scene, things))
    return (
        f"(define (problem {title})\n(:domain household)\n(:objects\n{objects}\n)\n"
        f"(:init\n{facts}\n)\n(:goal (and\n  {_goal(errand)}\n))\n)\n"
    )


def sentence(errand: Errand, draw: random.Random) -> str:
    """The task as the game puts it, without a full stop."""
    shape = draw.choice(SHAPES[errand.task_type])
    return shape.format(thing=errand.thing.lower(), place=errand.place.lower())


def folder_name(errand: Errand, scene: Scene) -> str:
    """The official name of the folder of a task."""
    return f"{errand.task_type}-{errand.thing}-None-{errand.place}-{scene.number}"


def trajectory(errand: Errand, scene: Scene, trial: str, draw: random.Random) -> dict[str, Any]:
    """What official tools read about a game besides the game."""
    is_light = errand.task_type == LIGHT
    names = {"thing": spoken(errand.thing), "place": spoken(errand.place)}
    tellings = draw.sample(RETELLINGS[errand.task_type], 3)
    return {
        "images": [],
        "pddl_params": {
            "mrecep_target": "",
            "object_sliced": False,
            "object_target": errand.thing,
            "parent_target": "" if is_light else errand.place,
            "toggle_target": errand.place if is_light else "",
        },
        "plan": {"high_pddl": [], "low_actions": []},
        "scene": {"floor_plan": f"FloorPlan{scene.number}", "scene_num": scene.number},
        "task_id": trial,
        "task_type": errand.task_type,
        "turk_annotations": {
            "anns": [
                {"high_descs": [], "task_desc": telling.format(**names)} for telling in tellings
            ]
        },
    }


def _objects(scene: Scene, things: Sequence[Thing]) -> Iterator[tuple[str, str]]:
    """Runs of names and their type."""
    spots = sorted({scene.start, *(each.spot for each in scene.receptacles)})
    object_kinds = sorted({*BLADES, *(thing.kind for thing in things)})
    yield AGENT, "agent"
    yield " ".join(spots), "location"
    yield " ".join(sorted(each.name for each in scene.receptacles)), "receptacle"
    yield " ".join(thing.name for thing in things), "object"
    yield " ".join(f"{kind}Type" for kind in sorted({*STATIONS, *scene.kinds})), "rtype"
    yield " ".join(f"{kind}Type" for kind in object_kinds), "otype"


def _facts(scene: Scene, things: Sequence[Thing]) -> Iterator[str]:
    yield f"atLocation {AGENT} {scene.start}"
    for each in scene.receptacles:
        yield f"receptacleType {each.name} {each.kind}Type"
        yield f"receptacleAtLocation {each.name} {each.spot}"
        if each.is_openable:
            yield f"openable {each.name}"
    for thing in things:
        yield f"objectType {thing.name} {thing.kind}Type"
        yield f"inReceptacle {thing.name} {thing.receptacle.name}"
        yield f"objectAtLocation {thing.name} {thing.receptacle.spot}"
        if thing.kind != LAMP:
            yield f"pickupable {thing.name}"
        for predicate, kinds in PROPERTIES.items():
            if thing.kind in kinds:
                yield f"{predicate} {thing.name}"
    present = sorted({thing.kind for thing in things})
    for receptacle in scene.kinds:
        for kind in present:
            if kind in MAY_HOLD[receptacle]:
                yield f"canContain {receptacle}Type {kind}Type"


def _goal(errand: Errand) -> str:
    shape = {LIGHT: _LIGHT, TWO: _TWO}.get(errand.task_type, _PLACE)
    return shape.format(
        condition=_CONDITIONS.get(errand.task_type, ""), thing=errand.thing, place=errand.place
    )
