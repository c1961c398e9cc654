"""Prompts for instruction-tuned models, the same in every environment.

Two conventions that published agents are trained with. `TagsPrompts` shows everything a turn needs
in one message and asks for `<think>` and `<action>`. `ReactPrompts` is a conversation that begins
with the rules and asks for `Thought:` and `Action:`. An environment derives a style from one of
them and says in the four members of `Chat` what is particular to its world.
"""

from __future__ import annotations

from collections.abc import Sequence

from prover_cli.envs.base import Message, Observation, ParsedAction, PastTurn, Task
from prover_cli.envs.replies import Reply, after_label, in_tags

ANSWER_IN_TAGS = """\
Think about the next step between <think> and </think>. \
Then write exactly one action between <action> and </action>."""
ANSWER_AFTER_LABEL = """\
Answer each observation in this form, with exactly one action:
Thought: what you think about the next step
Action: the action"""
AGREED = "Understood. I will answer with one Thought and one Action."
_QUOTED_CHARACTERS = 100


class Chat:
    """What a world adds to the prompts."""

    rules = ""
    """What the agent is and does, and the forms of its actions."""

    def offered(self, observation: Observation) -> Sequence[str]:
        """The actions to list, as the policy has to write them."""
        return observation.admissible or ()

    def shown(self, task: Task, text: str) -> str:
        """An observation's text as prompts quote it below the task."""
        return text

    def read(self, action: str, observation: Observation) -> Reply:
        """The environment's form of an action, or the reason why it is not one."""
        return Reply(action)

    def page(self, task: Task, observation: Observation) -> str:
        """The current observation and the actions possible now."""
        listed = "\n".join(self.offered(observation)) or "(none)"
        return f"{self.shown(task, observation.text).strip()}\n\nAvailable actions:\n{listed}"

    def scene(self, task: Task, past: Sequence[PastTurn], observation: Observation) -> str:
        """The task, the quoted turns and the page. The numbers count the quoted turns only."""
        parts = [f"Task: {task.instruction}"]
        if past:
            turns = [
                f"[{number}] Observation: {self.shown(task, turn.observation).strip()}\n"
                f"[{number}] Action: {quoted_action(turn)}"
                for number, turn in enumerate(past, start=1)
            ]
            parts.append("\n".join(["Your last turns, the oldest first:", *turns]))
        return "\n\n".join([*parts, f"Observation: {self.page(task, observation)}"])

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return self.window(task, [], observation)

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", f"Observation: {self.page(task, observation)}")]

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        """A whole prompt that quotes the turns in `past`."""
        raise NotImplementedError

    def parsed(self, found: Reply, observation: Observation) -> ParsedAction:
        """The action found in a reply, checked."""
        result = found if found.reason is not None else self.read(found.action, observation)
        if result.reason is not None:
            return ParsedAction("", False, result.reason)
        return ParsedAction(result.action, True)


class TagsPrompts(Chat):
    """One message a turn with all that it needs; the answer in tags."""

    name = "tags"
    history: int | None = 2
    max_new_tokens = 512

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        parts = [self.rules, self.scene(task, past, observation), ANSWER_IN_TAGS]
        return [Message("user", "\n\n".join(parts))]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        return self.parsed(in_tags(reply), observation)


class ReactPrompts(Chat):
    """A conversation: rules, consent, then observations; the answer after labels."""

    name = "react"
    history: int | None = None
    max_new_tokens = 512

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        return [
            Message("user", f"{self.rules}\n\n{ANSWER_AFTER_LABEL}"),
            Message("assistant", AGREED),
            Message("user", self.scene(task, past, observation)),
        ]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        return self.parsed(after_label(reply), observation)


def quoted_action(turn: PastTurn) -> str:
    """A past action on one line.

    A reply without an action may be long, and its end is where the action would have been, so only
    that is quoted, marked as invalid for the policy to see.
    """
    if turn.action:
        return " ".join(turn.action.split())
    words = " ".join(turn.action_text.split())
    short = words if len(words) <= _QUOTED_CHARACTERS else f"...{words[-_QUOTED_CHARACTERS:]}"
    return f"(invalid reply) {short}"
