"""The vault: a tiny world with one decision that matters, for tests and for learning the tools.

A row of rooms ends at a vault. Coloured keys lie in one room; the instruction names the colour
that fits. Going on without that key cannot be undone, so success hangs on the turn that takes it.
With `slip` > 0 a step forward sometimes fails, which makes futures differ between continuations.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType

from prover_cli.envs.base import Message, Observation, ParsedAction, PastTurn, StepResult, Task
from prover_cli.envs.panel import SPLITS, Panel, make_task
from prover_cli.errors import UsageError
from prover_cli.ids import canonical_json, derive_seed, digest

COLOURS = ("red", "blue", "green", "white")


@dataclass
class _State:
    room: int = 0
    held: str | None = None
    done: bool = False
    seed: int = 0
    draws: int = 0


class ToySession:
    """One walk to the vault."""

    def __init__(self, rooms: int, key_room: int, colour: str, slip: float, state: _State) -> None:
        self._rooms, self._key_room, self._colour = rooms, key_room, colour
        self._slip = slip
        self._state = state

    def observe(self) -> Observation:
        state = self._state
        place = "the vault" if state.room == self._rooms - 1 else f"room {state.room}"
        keys = ", ".join(COLOURS) if state.room == self._key_room else "none"
        text = f"You are in {place}. Keys here: {keys}. You hold: {state.held or 'nothing'}."
        task = [self._rooms, self._key_room, self._colour]
        key = digest([state.room, state.held, state.done, *task])
        return Observation(text, key, self._admissible())

    def step(self, action: str) -> StepResult:
        state, valid, success = self._state, action in self._admissible(), False
        if valid and action == "go":
            state.room += not self._slips()
        elif valid and action == "open":
            state.done, success = True, state.held == self._colour
        elif valid:
            state.held = action.removeprefix("take ")
        return StepResult(self.observe(), float(success), state.done, success, valid)

    def snapshot(self) -> bytes:
        return canonical_json(asdict(self._state)).encode()

    def reseed(self, seed: int) -> None:
        self._state.seed, self._state.draws = seed, 0

    def _slips(self) -> bool:
        if not self._slip:
            return False
        self._state.draws += 1
        draw = derive_seed("vault", self._state.seed, self._state.draws)
        return random.Random(draw).random() < self._slip

    def _admissible(self) -> tuple[str, ...]:
        if self._state.done:
            return ()
        if self._state.room == self._rooms - 1:
            return ("open",)
        taking = self._state.room == self._key_room
        return ("go", *(f"take {colour}" for colour in COLOURS if taking))


class PlainStyle:
    """The instruction and the observation as they are; the reply is the action."""

    name = "plain"
    history = None
    max_new_tokens = 12

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", f"{task.instruction}\n{observation.text}")]

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", observation.text)]

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        lines = [f"{turn.observation} > {turn.action_text}" for turn in past]
        return [Message("user", "\n".join([task.instruction, *lines, observation.text]))]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        action = reply.strip()
        return ParsedAction(action, bool(action), None if action else "empty reply")


class ToyEnvironment:
    """`n_tasks` vaults of `rooms` rooms; a step slips with chance `slip`."""

    name = "toy"
    default_prompt = "plain"
    prompts = MappingProxyType({"plain": PlainStyle()})

    def __init__(self, *, n_tasks: int = 24, rooms: int = 3, slip: float = 0.0) -> None:
        if rooms < 2 or n_tasks < 1 or not 0 <= slip < 1:
            raise UsageError("toy needs rooms >= 2, n_tasks >= 1 and 0 <= slip < 1")
        self._n_tasks, self._rooms, self._slip = n_tasks, rooms, slip
        slip = float(slip)
        self.assets = {"tasks": str(n_tasks), "rooms": str(rooms), "slip": str(slip)}
        self.fingerprint = digest(["vault", n_tasks, rooms, slip])
        self.max_turns = 2 * rooms + 2

    def tasks(self, split: str) -> Panel:
        if split not in SPLITS:
            raise UsageError(f"no split {split!r}; splits: {', '.join(SPLITS)}")
        parts = ("train", "train", "valid", "test")
        numbers = range(self._n_tasks)
        return Panel(
            tuple(self._task(i, split) for i in numbers if split in ("all", parts[i % len(parts)]))
        )

    def _task(self, index: int, split: str) -> Task:
        colour = COLOURS[derive_seed("colour", index) % len(COLOURS)]
        room = derive_seed("room", index) % (self._rooms - 1)
        payload = {"number": index, "colour": colour, "key_room": room}
        text = f"Task {index}: open the vault with the {colour} key from room {room}."
        return make_task(self.name, split, index, text, payload, self.fingerprint)

    def start(self, task: Task, seed: int) -> ToySession:
        return self._session(task.payload, _State(seed=seed))

    def restore(self, task: Task, snapshot: bytes) -> ToySession:
        return self._session(task.payload, _State(**json.loads(snapshot)))

    def _session(self, payload: Mapping[str, object], state: _State) -> ToySession:
        colour, room = str(payload["colour"]), int(str(payload["key_room"]))
        return ToySession(self._rooms, room, colour, self._slip, state)

    def expert(self, task: Task, session: ToySession) -> str:
        state = json.loads(session.snapshot())
        if state["room"] == self._rooms - 1:
            return "open"
        if state["room"] == task.payload["key_room"] and state["held"] != task.payload["colour"]:
            return f"take {task.payload['colour']}"
        return "go"
