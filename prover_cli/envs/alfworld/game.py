"""A game as it lies in a file: its things, their names, its texts, its goal. Never changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from prover_cli.envs.alfworld import grammar as grammars
from prover_cli.envs.alfworld.expand import Bindings, Expander
from prover_cli.envs.alfworld.facts import Facts
from prover_cli.envs.alfworld.goal import GoalTest
from prover_cli.envs.alfworld.grammar import Element, Grammar, Query, Value
from prover_cli.envs.alfworld.pddl import Domain, read_domain, read_problem
from prover_cli.envs.alfworld.rules import DYNAMIC, PARAMETERS, Move
from prover_cli.errors import UsageError

TASK_PREFIX = "Your task is to: "
_PLACED = "receptacleatlocation"


class Game:
    """One game. Immutable but for memos of derived values, so threads may share it.

    Things are numbered in the order of their ids, which is the order of every list in a text.
    """

    def __init__(self, domain: str, problem: str, grammar: str) -> None:
        parsed = read_problem(problem)
        self.domain: Domain = read_domain(domain)
        self.grammar: Grammar = grammars.read(grammar)
        self.content = content_hash(domain, problem, grammar)
        self.versions = {"domain": _md5(domain), "grammar": _md5(_without_task(grammar))}
        self.ids: Sequence[str] = sorted({x for fact in parsed.init for x in fact[1:]})
        self.number: Mapping[str, int] = {name: i for i, name in enumerate(self.ids)}
        self.names: Sequence[str] = display_names(self.ids)
        asked = self.grammar.predicates()
        marks = frozenset(name for name in asked if name.startswith("not_"))
        self.dynamic = DYNAMIC | marks
        self.goal_source = parsed.goal
        self.types: Mapping[str, frozenset[int]] = {
            action: frozenset(self.number[t] for t in types if t in self.number)
            for action, types in self.domain.types.items()
        }
        self._salt = int(self.content, 16)
        self._codes: dict[tuple[str, tuple[int, ...]], int] = {}
        self._commands: dict[Move, str] = {}
        self._ways: dict[tuple[int, int], str] = {}
        self._journeys: dict[int, dict[str, Move]] = {}
        self._initial = Facts.of(
            ((f[0], tuple(self.number[x] for x in f[1:])) for f in parsed.init),
            self.dynamic,
            self.code,
            marks,
        )
        self.goal = GoalTest(parsed.goal, self.number, self._initial)
        self.agent = self._only_agent()
        self._expander = Expander(self.grammar, self.ids, self.names)
        self._check_texts()
        self.receptacles = tuple(sorted({r for r, _ in self._initial.all_of(_PLACED)}))
        self.places = tuple(self.names[r] for r in self.receptacles)
        self.verbs = frozenset(_first_word(a.template) for a in self.grammar.actions.values())
        self.help_command = self.command(("help", (self.agent,))) if self.domain.has_help else None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Game:
        """The game in the content of a `game.tw-pddl` file."""
        texts = _texts(data)
        return cls(*texts)

    @classmethod
    def read(cls, path: Path) -> Game:
        """The game in a file; `UsageError` naming the file where it cannot be used."""
        try:
            return cls.from_json(json.loads(path.read_bytes()))
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise UsageError(f"{path} is not a game: {error}") from error
        except UsageError as error:
            raise UsageError(f"{path}: {error.message}", hint=error.hint) from error

    @property
    def initial(self) -> Facts:
        """The facts at the start; read them, do not change them."""
        return self._initial

    def fresh_facts(self) -> Facts:
        """The facts at the start, to play with."""
        return self._initial.copy(self.dynamic)

    def state_key(self, facts: Facts) -> str:
        """Equal for equal facts of equal games, and only for those."""
        return f"{facts.key ^ self._salt:016x}"

    def code(self, name: str, values: tuple[int, ...]) -> int:
        """A random number for a fact, the same in every process."""
        try:
            return self._codes[name, values]
        except KeyError:
            code = hash64(f"{name} {' '.join([self.ids[x] for x in values])}")
            return self._codes.setdefault((name, values), code)

    @cached_property
    def introduction(self) -> str:
        """The first observation."""
        return self._expander.symbol("intro", self._initial, {})

    @cached_property
    def instruction(self) -> str:
        """The task sentence without its official beginning."""
        return self._expander.symbol("task", self._initial, {}).removeprefix(TASK_PREFIX).strip()

    @cached_property
    def won_at_start(self) -> bool:
        """Whether there is nothing to do; never so in a proper game."""
        return self.goal.reached(self._initial)

    def feedback(self, facts: Facts, move: Move) -> str:
        """The observation that follows a move; the facts are those after it."""
        return self._expander.text(self.grammar.actions[move[0]].feedback, facts, bindings(move))

    def command(self, move: Move) -> str:
        """What to type for a move."""
        try:
            return self._commands[move]
        except KeyError:
            template = self.grammar.actions[move[0]].template
            text = self._expander.text(template, self._initial, bindings(move))
            return self._commands.setdefault(move, text)

    def journeys(self, spot: int) -> Mapping[str, Move]:
        """The commands that work at a location whatever else is true; do not change them."""
        known = self._journeys.get(spot)
        if known is None:
            a, moves = self.agent, list[Move]()
            for name in ("look", "inventory", *(["help"] if self.domain.has_help else [])):
                moves.append((name, (a, spot)[: len(PARAMETERS[name])]))
            commands = {self.command(move): move for move in moves}
            for r, there in self._initial.all_of(_PLACED):
                if there != spot:
                    commands[self._way_to(r, there)] = ("gotolocation", (a, spot, there, r))
            known = self._journeys.setdefault(spot, commands)
        return known

    def _way_to(self, receptacle: int, there: int) -> str:
        """The command for a journey: the same from everywhere."""
        text = self._ways.get((receptacle, there))
        if text is None:
            move = ("gotolocation", (self.agent, there, there, receptacle))
            text = self._ways.setdefault((receptacle, there), self.command(move))
        return text

    def _only_agent(self) -> int:
        agents = self._initial.all_of("atlocation")
        if len(agents) != 1:
            raise UsageError(f"a game has one agent in one place, this one has {len(agents)}")
        return agents[0][0]

    def _check_texts(self) -> None:
        """Everything the engine will ask for is in the grammar, and commands never change."""
        wanted = set(PARAMETERS) - (set() if self.domain.has_help else {"help"})
        missing = sorted(wanted - set(self.grammar.actions))
        if missing:
            raise UsageError(f"the game's grammar has no action {', '.join(missing)}")
        for symbol in ("intro", "task"):
            if symbol not in self.grammar.rules:
                raise UsageError(f"the game's grammar has no #{symbol}#")
        for name in wanted:
            for element in self.grammar.actions[name].template:
                if not isinstance(element, str) and not self._is_fixed(name, element):
                    raise UsageError(f"the command of action {name} depends on the state")

    def _is_fixed(self, action: str, element: Element) -> bool:
        """Whether a part of a command depends on the action and its parameters alone."""
        if not isinstance(element, Query) or not isinstance(element.what, Value):
            return False
        used = {variable for terms in element.what.choices for variable, _ in terms if variable}
        used |= {variable for _, variables in element.given for variable in variables}
        changing = any(name in self.dynamic for name, _ in element.given)
        return not changing and used <= set(PARAMETERS[action]) - {"lstart"}


def content_hash(domain: str, problem: str, grammar: str) -> str:
    """16 hex characters that identify a game by what it says, not by how its file is laid out."""
    raw = json.dumps([domain, problem, grammar], ensure_ascii=False).encode()
    return hashlib.sha256(raw).hexdigest()[:16]


def game_hash(data: Mapping[str, Any]) -> str:
    """The content hash of the game in a `game.tw-pddl` object, without parsing the game."""
    return content_hash(*_texts(data))


def task_sentence(data: Mapping[str, Any]) -> str | None:
    """The instruction of a game that says it in plain words, without parsing the game."""
    task = grammars.read(_texts(data)[2]).rules.get("task", ())
    if len(task) != 1 or task[0].condition or not all(isinstance(e, str) for e in task[0].text):
        return None
    return "".join(map(str, task[0].text)).removeprefix(TASK_PREFIX).strip()


def bindings(move: Move) -> Bindings:
    """The parameters of a move by name."""
    return dict(zip(PARAMETERS[move[0]], move[1], strict=True))


def hash64(text: str) -> int:
    """A random-looking number of 64 bits that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def display_names(ids: Sequence[str]) -> list[str]:
    """What the texts call the things with these sorted ids.

    Things of a class are numbered from the last id (1) to the first, over all ids.
    """
    bases = [_base(name) for name in ids]
    left: dict[str, int] = {}
    for base in bases:
        left[base] = left.get(base, 0) + 1
    names: list[str] = []
    for name, base in zip(ids, bases, strict=True):
        if "_bar_" in name:
            names.append(f"{base} {left[base]}")
            left[base] -= 1
        else:
            names.append(f"{name} ")
    return names


def _base(name: str) -> str:
    if "_bar_" not in name:
        return name + "_bar_"  # never mixed up with a class
    return name.split("_bar_")[0] + ("basin" if "basin" in name else "")


def _first_word(template: Sequence[Element]) -> str:
    return template[0].split(" ", 1)[0] if template and isinstance(template[0], str) else ""


def _texts(data: Mapping[str, Any]) -> tuple[str, str, str]:
    values = tuple(data.get(key) for key in ("pddl_domain", "pddl_problem", "grammar"))
    domain, problem, grammar = values
    if not isinstance(domain, str) or not isinstance(problem, str) or not isinstance(grammar, str):
        raise UsageError("not an ALFWorld game: pddl_domain, pddl_problem and grammar are texts")
    return domain, problem, grammar


def _without_task(grammar: str) -> str:
    before, prefix, after = grammar.partition(TASK_PREFIX)
    return before + prefix + after[after.find('"') :] if prefix else grammar


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
