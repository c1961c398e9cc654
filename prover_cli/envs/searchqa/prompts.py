"""Ways of showing SearchQA to a policy and of reading its replies.

`search-r1` is the conversation that Search-R1 trains: one growing reply, into which the results of
its searches are written. `tags` is verl-agent's: a fresh prompt each turn that quotes the last
turns. `react` is the toolkit's own conversation. `compact` is for policies of some million
parameters. Actions are read from what the policy writes and from nothing else, so that tags in
questions or passages do nothing; they are shown with square brackets all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from prover_cli.envs.base import INLINE, Message, Observation, ParsedAction, PastTurn, Task
from prover_cli.envs.chat import Chat, ReactPrompts, quoted_action
from prover_cli.envs.replies import Reply
from prover_cli.envs.searchqa.compact import CompactStyle
from prover_cli.envs.searchqa.session import as_action, parts_of
from prover_cli.envs.searchqa.tagged import ENDS, both_kinds, first_block
from prover_cli.envs.searchqa.texts import without_tags

__all__ = ["CompactStyle", "ReactStyle", "SearchR1Style", "TagsStyle"]

_FORM = re.compile(r"(search|answer)\s*\[(.*)\]", re.IGNORECASE | re.ASCII | re.DOTALL)
OBSERVATION_TOKENS = 500
"""Tokens of results that Search-R1 shows after a search."""
SEARCH_R1 = """\
Answer the question below. Whenever you have read something new, first think about it between \
<think> and </think>. If you need to know more, write a query between <search> and </search>: a \
search engine will put the passages it finds between <information> and </information>. Search as \
many times as you need. As soon as you know enough, write the answer between <answer> and \
</answer>, only the answer itself and no explanation, for example <answer> Beijing </answer>.
Question: {question}
"""
SEARCH_R1_INVALID = """
I did not act. A query has to stand between <search> and </search>, and the final answer between \
<answer> and </answer>. Let me try again.
"""
SEARCH_R1_REFUSED = """
I cannot search any more. I have to give the final answer between <answer> and </answer>.
"""
TAGS = """\
You answer questions with the help of a search engine.
Question: {question}

{history}Think about what you know so far between <think> and </think>. Then write exactly one of \
these:
- <search> a query </search> if you need to know more,
- <answer> the answer </answer> if you know enough: only the answer itself, without explanation.
"""
TAGS_HISTORY = """\
You have acted {n} times so far. Below are the last steps and what the search engine found, each \
time between <information> and </information>.
{steps}

"""


class SearchR1Style:
    """Search-R1: an append-only conversation with a single reply, in which the results stand."""

    name = "search-r1"
    history: int | None = None
    max_new_tokens = 500
    ends = ENDS

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", SEARCH_R1.format(question=without_tags(task.instruction)))]

    def following(self, task: Task, observation: Observation) -> list[Message]:
        if observation.page["kind"] != "search":
            refused = observation.page["kind"] == "refused"
            return [Message(INLINE, SEARCH_R1_REFUSED if refused else SEARCH_R1_INVALID)]
        return [
            Message(INLINE, "\n\n<information>"),
            Message(INLINE, observation.text, max_tokens=OBSERVATION_TOKENS),
            Message(INLINE, "</information>\n\n"),
        ]

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        """The quoted turns below the question, where a fresh prompt each turn is asked for."""
        (opening,) = self.opening(task, observation)
        if observation.page["kind"] == "start":
            return [opening]
        steps = "\n".join(_steps(past, observation))
        return [Message("user", f"{opening.content}\nThe last steps:\n{steps}\n")]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        return _parsed(first_block(reply))


class TagsStyle:
    """verl-agent: the question, the last turns, and the tags of Search-R1.

    It has no `ends`: what follows a closing tag makes a reply invalid there, and has to be seen.
    """

    name = "tags"
    history: int | None = 4
    max_new_tokens = 512

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return self.window(task, [], observation)

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", _framed(observation.text))]

    def window(
        self, task: Task, past: Sequence[PastTurn], observation: Observation
    ) -> list[Message]:
        history = ""
        if observation.page["kind"] != "start":
            steps = "\n".join(_steps(past, observation))
            history = TAGS_HISTORY.format(n=observation.page["turn"], steps=steps)
        question = without_tags(task.instruction)
        return [Message("user", TAGS.format(question=question, history=history))]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        """As verl-agent: a reply with both kinds of tags, or two of one kind, is marked as invalid,
        but its block is executed all the same; tags may be in any case."""
        parsed = _parsed(first_block(reply, any_case=True))
        if parsed.valid and (reason := both_kinds(reply)) is not None:
            return ParsedAction(parsed.action, False, reason)
        return parsed


class SearchChat(Chat):
    """The rules of a search and the forms of its actions."""

    rules = """\
You answer a question with the help of a search engine. search[<query>] shows the passages that \
fit the query best. answer[<text>] gives the final answer and ends the task: only the answer \
itself, such as a name, a date or yes, without explanation. A question may need several searches, \
each with what the one before has found."""

    def shown(self, task: Task, text: str) -> str:
        """Without the question, which every prompt states anyway."""
        return "No search yet." if text == f"Question: {task.instruction}" else text

    def offered(self, observation: Observation) -> Sequence[str]:
        search = ["search[<query>]"] if observation.page["searches_left"] else []
        return [*search, "answer[<text>]"]

    def read(self, action: str, observation: Observation) -> Reply:
        form = _FORM.fullmatch(action.strip())
        if form is None:
            return Reply(action, f"expected {' or '.join(self.offered(observation))}")
        verb, content = form.group(1).lower(), form.group(2).strip()
        if not content:
            return Reply(action, f"nothing in the brackets of {verb}")
        return Reply(as_action(verb, content))


class ReactStyle(SearchChat, ReactPrompts):
    """`Thought:` and `Action:` in a conversation."""


def _parsed(found: tuple[str, str] | str) -> ParsedAction:
    """An action out of a block, or the reason why there is none."""
    if isinstance(found, str):
        return ParsedAction("", False, found)
    return ParsedAction(as_action(*found), True)


def _steps(past: Sequence[PastTurn], observation: Observation) -> list[str]:
    """The quoted turns, each with what came of it; numbered from the beginning of the episode."""
    if not past:
        return [f"Step {observation.page['turn']}: {_framed(observation.text)}"]
    came = [*(turn.observation for turn in past[1:]), observation.text]
    first = int(observation.page["turn"]) - len(past) + 1
    return [
        f"Step {number}: {_quoted(turn)} {_framed(text)}"
        for number, (turn, text) in enumerate(zip(past, came, strict=True), start=first)
    ]


def _quoted(turn: PastTurn) -> str:
    parts = parts_of(turn.action)
    if parts is None:
        return without_tags(quoted_action(turn))
    verb, content = parts
    return f"<{verb}> {without_tags(content)} </{verb}>"


def _framed(text: str) -> str:
    return f"<information>{text}</information>"
