"""Reading the text grammar of a game: rules that turn symbols into sentences.

A grammar is a sequence of blocks. `grammar :: \"\"\" JSON \"\"\"` maps symbols to alternatives;
`action Name { template :: "..."; feedback :: "#symbol#"; grammar :: ...; }` says how an action is
typed and answered. A right hand side mixes literals, `#symbol#`, `{value | condition}` and
`[{value | condition}]`; see `expand` for what they mean. Some oddities of the official reader show
in the official texts, so they are kept: leading white space vanishes, and everything from a
character on that can begin nothing is dropped.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from prover_cli.errors import UsageError

_SENTENCE = re.compile(r'"rhs"\s*:\s*"(Your task is to: [^"]*)"')
_STAND_IN = "Your task is to: wait."
_BLOCK = re.compile(
    r'(?P<comment>\#[^\n]*)|grammar\s*::\s*"""(?P<json>.*?)"""\s*;?|action\s+(?P<name>[\w/-]+)\s*\{',
    re.DOTALL,
)
_PART = re.compile(
    r"(?P<comment>\#[^\n]*)|(?P<end>\})|(?P<kind>template|feedback|pddl|grammar)\s*::\s*"
    r'(?:"""(?P<block>.*?)"""|"(?P<text>[^"]*)")\s*;',
    re.DOTALL,
)
_START = re.compile(r"(?:\s|//[^\n]*(?:\n|$))*")
_LITERAL = re.compile(r'[^;|"<>\[\]#{}]+')
_QUOTED = re.compile(r'"([^;|"<>\[\]#{}]*)"')
_SYMBOL = re.compile(r"#([\w()/!<>\-\s,.]+)#")
_QUERY = re.compile(
    r"\{\t*(?:#(?P<symbol>[\w()/!<>\-\s,.]+)#|(?P<value>[^|\[\]{}\n<>]+?))"
    r"\s*(?:\|\s*+(?P<given>[^;|{}\n\[\]#]+))?\t*\}"
)
_LIST = re.compile(r"\[\t*" + _QUERY.pattern + r"\t*\]")
_ATOM = re.compile(r"\s*(!?[\w/]+)\s*\(([^()]*)\)\s*")
_TERM = re.compile(
    r"""\s*(?:(?P<quoted>'[^']*'|"[^"]*")|(?P<var>[A-Za-z_]\w*)(?:\.(?P<what>\w+))?)\s*"""
)

Atom = tuple[str, tuple[str, ...]]
"""A predicate and its variables."""
Condition = tuple[Atom, ...]
Term = tuple[str, str]
"""A variable and what to say of it (`name`, `id`, ...), or an empty string and a literal."""


@dataclass(frozen=True)
class Symbol:
    """`#name#`: replaced by the symbol's first alternative that applies."""

    name: str


@dataclass(frozen=True)
class Value:
    """`a + b or c`: the first alternative sum of terms that is not empty."""

    choices: tuple[tuple[Term, ...], ...]


@dataclass(frozen=True)
class Query:
    """`{what | given}`: `what` for each match of `given`; a list joins them with separators."""

    what: Symbol | Value
    given: Condition
    listed: bool


Element = str | Symbol | Query


@dataclass(frozen=True)
class Alternative:
    """A right hand side that applies where its condition has a match."""

    condition: Condition
    text: tuple[Element, ...]


@dataclass(frozen=True)
class ActionTexts:
    """How an action is typed and what answers it."""

    template: tuple[Element, ...]
    feedback: tuple[Element, ...]


@dataclass(frozen=True)
class Grammar:
    """The merged rules of all blocks; a later block replaces a symbol of an earlier one."""

    rules: Mapping[str, tuple[Alternative, ...]]
    actions: Mapping[str, ActionTexts]

    def predicates(self) -> frozenset[str]:
        """All predicates that some condition asks about."""
        texts = [(a.condition, a.text) for rule in self.rules.values() for a in rule]
        texts += [((), text) for a in self.actions.values() for text in (a.template, a.feedback)]
        return frozenset(
            name
            for condition, text in texts
            for given in (condition, *(e.given for e in text if isinstance(e, Query)))
            for name, _ in given
        )


def read(text: str) -> Grammar:
    """Read a whole grammar; `UsageError` with the place where it cannot be read.

    Games differ in the task sentence alone, so what is left is read once per process.
    """
    sentence = _SENTENCE.search(text)
    if sentence is None or sentence[1].count("\\") or text.count(sentence[1]) != 1:
        return _read(text)
    skeleton = _read(text.replace(sentence[1], _STAND_IN))
    if skeleton.rules.get("task") != (Alternative((), (_STAND_IN,)),):
        return _read(text)
    task = (Alternative((), parse(sentence[1])),)
    return replace(skeleton, rules={**skeleton.rules, "task": task})


@lru_cache(maxsize=16)
def _read(text: str) -> Grammar:
    rules: dict[str, Any] = {}
    actions: dict[str, ActionTexts] = {}
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        block = _BLOCK.match(text, place)
        if block is None:
            raise UsageError(f"the game's grammar cannot be read at {text[place : place + 40]!r}")
        place = block.end()
        if block["json"] is not None:
            rules |= _json(block["json"])
        elif block["name"] is not None:
            parts, place = _parts(text, place)
            name = block["name"].lower()
            rules |= _json(_without_comments(parts.get("grammar", "{}")))
            actions[name] = ActionTexts(parse(parts["template"]), parse(parts["feedback"]))
    return Grammar({name: _alternatives(rule) for name, rule in rules.items()}, actions)


def _parts(text: str, place: int) -> tuple[dict[str, str], int]:
    """The parts of an action block, and where it ends."""
    parts: dict[str, str] = {}
    while True:
        while place < len(text) and text[place].isspace():
            place += 1
        part = _PART.match(text, place)
        if part is None:
            raise UsageError(f"the game's grammar cannot be read at {text[place : place + 40]!r}")
        place = part.end()
        if part["end"]:
            break
        if part["kind"]:
            parts[part["kind"]] = part["block"] if part["block"] is not None else part["text"]
    if "template" not in parts or "feedback" not in parts:
        raise UsageError("an action in the game's grammar has no template or no feedback")
    return parts, place


def _json(text: str) -> dict[str, Any]:
    try:
        loaded = json.loads(text)
    except ValueError as error:
        raise UsageError(f"a block of the game's grammar is not JSON: {error}") from error
    if not isinstance(loaded, dict):
        raise UsageError("a block of the game's grammar is not a JSON object")
    return loaded


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))


def _alternatives(rule: Any) -> tuple[Alternative, ...]:
    return tuple(
        Alternative(parse_condition(entry.get("condition") or ""), parse(entry["rhs"]))
        for entry in rule
    )


@lru_cache(maxsize=4096)
def parse(rhs: str) -> tuple[Element, ...]:
    """The elements of a right hand side."""
    return tuple(_elements(rhs))


def _elements(rhs: str) -> Iterator[Element]:
    start = _START.match(rhs)
    place = start.end() if start else 0
    while place < len(rhs):
        if rhs[place] == "\t":
            place += 1
        elif found := _LIST.match(rhs, place) or _QUERY.match(rhs, place):
            yield _query(found, listed=rhs[place] == "[")
            place = found.end()
        elif found := _SYMBOL.match(rhs, place):
            yield Symbol(found[1])
            place = found.end()
        elif found := _QUOTED.match(rhs, place):
            yield found[1]
            place = found.end()
        elif found := _LITERAL.match(rhs, place):
            yield found[0]
            place = found.end()
        else:
            return


def _query(found: re.Match[str], listed: bool) -> Query:
    symbol = found["symbol"]
    what = Symbol(symbol) if symbol is not None else parse_value(found["value"])
    return Query(what, parse_condition(found["given"] or ""), listed)


@lru_cache(maxsize=4096)
def parse_condition(text: str) -> Condition:
    """The atoms of `p(x:type, y:type) & q(x)`. Types are dropped: predicates already imply them."""
    atoms: list[Atom] = []
    for part in text.split("&") if text.strip() else ():
        atom = _ATOM.fullmatch(part)
        names = tuple(v.split(":")[0].strip() for v in atom[2].split(",")) if atom else ()
        if atom is None or len(names) not in (1, 2):
            raise UsageError(f"the game's grammar has a condition of an unknown form: {text!r}")
        atoms.append((atom[1], names))
    return tuple(atoms)


@lru_cache(maxsize=4096)
def parse_value(text: str) -> Value:
    """The choices of `v.name + ' ' + w.id or v`."""
    choices: list[tuple[Term, ...]] = []
    terms: list[Term] = []
    place = 0
    while True:
        term = _TERM.match(text, place)
        if term is None:
            raise UsageError(f"the game's grammar has a value of an unknown form: {text!r}")
        quoted = term["quoted"]
        terms.append(("", ast.literal_eval(quoted)) if quoted else _term(term, text))
        place = term.end()
        if place == len(text):
            return Value((*choices, tuple(terms)))
        if text.startswith("or", place):
            choices.append(tuple(terms))
            terms, place = [], place + 2
        elif text[place] == "+":
            place += 1
        else:
            raise UsageError(f"the game's grammar has a value of an unknown form: {text!r}")


def _term(term: re.Match[str], text: str) -> Term:
    what = term["what"] or "name"
    if what not in ("name", "id", "indefinite", "definite"):
        raise UsageError(f"the game's grammar asks for an unknown attribute: {text!r}")
    return term["var"], what
