"""The planning domain of generated games: what the agent can do, as planners read it.

The same actions with the same effects as in the official domains, `help` included. `noted` only
gives the actions that change nothing an effect: planners drop actions without one.
"""

from __future__ import annotations

DOMAIN = """(define (domain household)
(:requirements :adl :typing)
(:types agent location receptacle object rtype otype)
(:predicates
  (atLocation ?a - agent ?l - location)
  (receptacleAtLocation ?r - receptacle ?l - location)
  (objectAtLocation ?o - object ?l - location)
  (inReceptacle ?o - object ?r - receptacle)
  (inReceptacleObject ?inner - object ?outer - object)
  (isReceptacleObject ?o - object)
  (receptacleType ?r - receptacle ?rt - rtype)
  (objectType ?o - object ?ot - otype)
  (canContain ?rt - rtype ?ot - otype)
  (openable ?r - receptacle)
  (opened ?r - receptacle)
  (holds ?a - agent ?o - object)
  (holdsAny ?a - agent)
  (pickupable ?o - object)
  (cleanable ?o - object)
  (isClean ?o - object)
  (heatable ?o - object)
  (isHot ?o - object)
  (coolable ?o - object)
  (isCool ?o - object)
  (toggleable ?o - object)
  (isToggled ?o - object)
  (sliceable ?o - object)
  (isSliced ?o - object)
  (noted ?x)
)

; Looking changes nothing.
(:action look
  :parameters (?a - agent ?l - location)
  :precondition (atLocation ?a ?l)
  :effect (noted ?l))
(:action inventory
  :parameters (?a - agent)
  :precondition ()
  :effect (noted ?a))
(:action help
  :parameters (?a - agent)
  :precondition ()
  :effect (noted ?a))
(:action examineReceptacle
  :parameters (?a - agent ?r - receptacle)
  :precondition (exists (?l - location) (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)))
  :effect (noted ?r))
(:action examineObject
  :parameters (?a - agent ?o - object)
  :precondition (holds ?a ?o)
  :effect (noted ?o))

; Going about, doors, and carrying one object at a time.
(:action GotoLocation
  :parameters (?a - agent ?lStart - location ?lEnd - location ?r - receptacle)
  :precondition (and (atLocation ?a ?lStart) (receptacleAtLocation ?r ?lEnd))
  :effect (and (not (atLocation ?a ?lStart)) (atLocation ?a ?lEnd)))
(:action OpenObject
  :parameters (?a - agent ?l - location ?r - receptacle)
  :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (openable ?r)
    (not (opened ?r)))
  :effect (opened ?r))
(:action CloseObject
  :parameters (?a - agent ?l - location ?r - receptacle)
  :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (openable ?r) (opened ?r))
  :effect (not (opened ?r)))
(:action PickupObject
  :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
  :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
    (or (not (openable ?r)) (opened ?r))
    (pickupable ?o) (inReceptacle ?o ?r) (not (holdsAny ?a)))
  :effect (and (not (inReceptacle ?o ?r)) (not (objectAtLocation ?o ?l))
    (holds ?a ?o) (holdsAny ?a)))
(:action PutObject
  :parameters (?a - agent ?l - location ?o - object ?r - receptacle ?ot - otype ?rt - rtype)
  :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
    (or (not (openable ?r)) (opened ?r))
    (holds ?a ?o) (objectType ?o ?ot) (receptacleType ?r ?rt) (canContain ?rt ?ot))
  :effect (and (inReceptacle ?o ?r) (objectAtLocation ?o ?l)
    (not (holds ?a ?o)) (not (holdsAny ?a))))

; What can be done to an object. Nothing has to be opened for it.
(:action CleanObject
  :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
  :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (holds ?a ?o)
    (receptacleType ?r SinkBasinType) (cleanable ?o))
  :effect (isClean ?o))
(:action HeatObject
  :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
  :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (holds ?a ?o)
    (receptacleType ?r MicrowaveType) (heatable ?o))
  :effect (and (isHot ?o) (not (isCool ?o))))
(:action CoolObject
  :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
  :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (holds ?a ?o)
    (receptacleType ?r FridgeType) (coolable ?o))
  :effect (and (isCool ?o) (not (isHot ?o))))
(:action ToggleObject
  :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
  :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (inReceptacle ?o ?r)
    (toggleable ?o))
  :effect (isToggled ?o))
(:action SliceObject
  :parameters (?a - agent ?l - location ?co - object ?ko - object)
  :precondition (and (atLocation ?a ?l) (objectAtLocation ?co ?l) (sliceable ?co) (holds ?a ?ko)
    (or (objectType ?ko KnifeType) (objectType ?ko ButterKnifeType)))
  :effect (isSliced ?co))
)
"""

STATIONS = ("SinkBasin", "Microwave", "Fridge")
BLADES = ("Knife", "ButterKnife")
"""Kinds that the domain names: a problem must declare their types, present or not."""
