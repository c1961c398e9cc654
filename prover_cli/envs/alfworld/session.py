"""One ALFWorld episode: the facts that change, and what the agent has seen of them."""

from __future__ import annotations

import json
from typing import Any

from prover_cli.envs.alfworld import rules
from prover_cli.envs.alfworld.game import Game, hash64
from prover_cli.envs.alfworld.rules import Move
from prover_cli.envs.base import Observation, StepResult
from prover_cli.errors import UsageError

NOTHING = "Nothing happens."


class AlfworldSession:
    """An episode of one game. Deterministic: there is nothing to reseed.

    Play goes on after a win, as in the official engine; `won` says whether the goal holds now.
    """

    def __init__(self, game: Game, show_help: bool = False) -> None:
        self.game = game
        self.facts = game.fresh_facts()
        self.text = game.introduction
        self.moves = 0
        self.won = game.won_at_start
        self.valid = True
        self.focus: int | None = None
        """The receptacle that the last action was about."""
        self.seen: set[str] = set()
        """What has been learned so far, apart from the changes the agent made itself."""
        self._seen_key = 0
        self._looked_into: set[int] = set()
        self._show_help = show_help
        self._possible: dict[str, Move] | None = None
        self._admissible: tuple[str, ...] | None = None

    @property
    def possible(self) -> dict[str, Move]:
        """Every command that works now; do not change it."""
        if self._possible is None:
            self._possible = rules.possible(self.game, self.facts)
        return self._possible

    @property
    def admissible(self) -> tuple[str, ...]:
        """The commands that work now, sorted; `help` only where it was asked for."""
        if self._admissible is None:
            commands = sorted(self.possible)
            if self.game.help_command is not None and not self._show_help:
                commands.remove(self.game.help_command)
            self._admissible = tuple(commands)
        return self._admissible

    @property
    def state_key(self) -> str:
        """Equal for states with equal futures."""
        return self.game.state_key(self.facts)

    @property
    def observable_key(self) -> str:
        """Equal where an agent that forgets nothing knows the same about the same game.

        What it knows is what texts have shown it, in whatever order, and what it has changed.
        Commands are counted too: the ones that did something, and per place the ones that failed
        although they begin like a command.
        """
        return f"{int(self.state_key, 16) ^ self._seen_key:016x}"

    def observe(self) -> Observation:
        return Observation(self.text, self.state_key, self.admissible, self._page())

    def step(self, action: str) -> StepResult:
        command = action.strip()
        move = self.possible.get(command)
        self.valid = move is not None
        if move is None:
            self.text = NOTHING
            self._fail(command)
        else:
            before = self.facts.key
            rules.apply(self.facts, move)
            self.text = self.game.feedback(self.facts, move)
            self.moves += 1
            if self.facts.key != before:
                self._possible = self._admissible = None
                self.won = self.game.goal.reached(self.facts)
            self._learn(move)
        observation = self.observe()
        info = {"won": self.won, "observable_key": observation.page["observable_key"]}
        return StepResult(observation, float(self.won), self.won, self.won, self.valid, info)

    def snapshot(self) -> bytes:
        gone, new = self.game.initial.difference(self.facts, self.game.dynamic)
        state: dict[str, Any] = {
            "game": self.game.content,
            "gone": gone,
            "new": new,
            "moves": self.moves,
            "text": self.text,
            "valid": self.valid,
            "focus": self.focus,
            "seen": sorted(self.seen),
        }
        return json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode()

    def reseed(self, seed: int) -> None:
        pass

    @classmethod
    def restored(cls, game: Game, snapshot: bytes, show_help: bool = False) -> AlfworldSession:
        """The session of a snapshot of the same game."""
        state = json.loads(snapshot)
        if state["game"] != game.content:
            raise UsageError(f"the snapshot is of game {state['game']}, not of game {game.content}")
        session = cls(game, show_help)
        gone, new = ([(name, tuple(row)) for name, row in state[key]] for key in ("gone", "new"))
        session.facts.patch(gone, new)
        session.won = game.goal.reached(session.facts)
        session.moves, session.text, session.valid = state["moves"], state["text"], state["valid"]
        session.focus = state["focus"]
        for thing in state["seen"]:
            session._see(thing)
        return session

    def copy(self) -> AlfworldSession:
        """An equal session that goes its own way."""
        return self.restored(self.game, self.snapshot(), self._show_help)

    def _learn(self, move: Move) -> None:
        """Note what the answer to a move has shown."""
        name, values = move
        if name in ("gotolocation", "openobject", "closeobject", "examinereceptacle"):
            self.focus = values[-1]
            if name != "closeobject":
                self._see(f"{_INSIDE if self._is_accessible(self.focus) else _OUTSIDE}{self.focus}")
        elif name in ("pickupobject", "putobject"):
            self.focus = values[3]
        if name == "putobject" or name in rules.TREATMENTS or name in _TELLING:
            self._see(f"{name} {' '.join(map(str, values[1:]))}")

    def _fail(self, command: str) -> None:
        verb = command.split(" ", 1)[0]
        if verb in self.game.verbs:
            self._see(f"no {rules.place(self.game, self.facts)} {command}")

    def _see(self, thing: str) -> None:
        if thing not in self.seen:
            self.seen.add(thing)
            if thing.startswith(_INSIDE):
                self._looked_into.add(int(thing.removeprefix(_INSIDE)))
            self._seen_key ^= hash64(thing)

    def _is_accessible(self, receptacle: int) -> bool:
        return rules.accessible(self.facts, receptacle)

    def _page(self) -> dict[str, Any]:
        """What the agent knows of where it is, for short prompts.

        The content of a receptacle is given only once it was shown.
        """
        names, facts, focus = self.game.names, self.facts, self.focus
        held = rules.in_hand(self.game, facts)
        page: dict[str, Any] = {
            "observable_key": self.observable_key,
            "valid": self.valid,
            "won": self.won,
            "at": None if focus is None else names[focus],
            "closed": focus is not None and not self._is_accessible(focus),
            "things": None,
            "holding": None if held is None else names[held],
            "held_is": [] if held is None else rules.qualities(facts, held),
            "seen": [names[r] for r in sorted(self._looked_into)],
            "places": self.game.places,
        }
        if focus in self._looked_into and not page["closed"]:
            page["things"] = [names[o] for o in facts.firsts("inreceptacle", focus)]
        return page


_INSIDE, _OUTSIDE = "in ", "at "
_TELLING = ("examineobject", "toggleobject", "sliceobject", "look")
