"""The JSON object in a model's reply, found without guessing.

A reply is read in this order: as JSON as it stands, as one code fence around JSON, and else the
last complete object in it that is valid. What comes before `</think>` is thinking and never an
answer. Nothing is repaired: numbers in quotation marks, trailing commas and cut objects are faults,
and a fault says what is wrong in words that can be given back to the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

from prover_cli.tokens import thinking

T = TypeVar("T")
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*)\n?```", re.DOTALL)
_SEARCHED = 20_000
"""Characters at the end of a reply that are searched for objects."""
_TRIES = 200
"""Braces that are tried as the beginning of an object."""


class Fault(Exception):
    """What is wrong with a reply, for the model that gave it."""


class Form(StrEnum):
    """Where in a reply its object was found."""

    JSON = "json"
    FENCE = "fence"
    EMBEDDED = "embedded"


def read(text: str, check: Callable[[dict[str, Any]], T]) -> tuple[T, Form]:
    """What `check` makes of the object in a reply, and where it was; raises `Fault`."""
    said = thinking.answer(text, opened=False)
    if said is None:
        raise Fault(thinking.UNFINISHED)
    said = said.strip()
    if not said:
        raise Fault("the reply is empty")
    try:
        return check(_object(said)), Form.JSON
    except _NotJson as error:
        whole = str(error)
    fenced = _FENCE.fullmatch(said)
    if fenced is not None:
        try:
            return check(_object(fenced.group(1).strip())), Form.FENCE
        except _NotJson as error:
            whole = str(error)
    return _last_valid(said, check, whole), Form.EMBEDDED


class _NotJson(Exception):
    """A text is not JSON as it stands."""


def _object(text: str) -> dict[str, Any]:
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _NotJson(_reason(error)) from None
    if not isinstance(value, dict):
        raise Fault(f"the reply is a JSON {_kind(value)}; one object is wanted")
    return value


def _last_valid(text: str, check: Callable[[dict[str, Any]], T], whole: str) -> T:
    found = _objects(text[-_SEARCHED:])
    if not found:
        raise Fault(f"the reply holds no complete JSON object ({whole})")
    first_fault: Fault | None = None
    for value in reversed(found):
        try:
            return check(value)
        except Fault as fault:
            first_fault = first_fault or fault
    assert first_fault is not None
    raise first_fault


def _objects(text: str) -> list[dict[str, Any]]:
    """The complete objects that are not inside others, in order."""
    found: list[dict[str, Any]] = []
    place = text.find("{")
    for _ in range(_TRIES):
        if place < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, place)
            found.append(value)
        except (ValueError, RecursionError):
            end = place + 1
        place = text.find("{", end)
    return found


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        repeated = sorted({key for key, _ in pairs if sum(key == k for k, _ in pairs) > 1})
        raise ValueError(f"the key {json.dumps(repeated[0])} occurs twice")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_constant)


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _kind(value: Any) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
