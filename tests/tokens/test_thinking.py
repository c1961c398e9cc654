"""Thinking is kept, stripped or off, as declared, and actions are what is said after it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.engines.base import FinishReason, Generation, Sampling
from prover_cli.envs.base import INLINE, Message, Observation, ParsedAction, PastTurn, Task
from prover_cli.errors import UsageError
from prover_cli.stages.agent import Agent, Context, Prompt
from prover_cli.tokens.render import ChatRenderer
from prover_cli.tokens.thinking import UNFINISHED, answer, ends_inside, find_outside
from tests.tokens.chat_models import MODELS, QWEN35, chat_model
from tests.tokens.test_templates import huggingface, text

TASK = Task("t", "toy", "train", 0, "act", {})
POLICIES = ("keep", "strip", "off")


class Pages:
    """Pages to messages; the reply is the action. The number of a page is not in its text."""

    name = "pages"
    history: int | None = None
    max_new_tokens = 8
    ends: tuple[str, ...] = ()

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("system", "Act."), *self.following(task, observation)]

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", f"{observation.text} {observation.page['number']}")]

    def window(self, task: Task, past: list[PastTurn], observation: Observation) -> list[Message]:
        return [Message("user", "".join(f"[{turn.action_text}]" for turn in past))]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        return ParsedAction(reply, True)


class Inline(Pages):
    """Pages go on inside the reply, whose actions end in a tag."""

    ends = ("</do>",)

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message(INLINE, f"<page>{observation.text}</page>")]

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", observation.text)]


def agent_of(
    policy: Path, thinking: str, style: Pages | None = None, history: int | None = None
) -> Agent:
    renderer = ChatRenderer.load(policy, thinking)
    return Agent(renderer, style or Pages(), history, Sampling(8, renderer.stop_ids))


def page(number: int) -> Observation:
    return Observation("page", f"s{number}", page={"number": number})


def played(
    agent: Agent, replies: list[str], cut: Sequence[int] = ()
) -> list[tuple[Prompt, list[int]]]:
    """Every turn's prompt, and the ids that the engine gets with its reply appended.

    The replies of the turns in `cut` have no token that ends them.
    """
    context, turns = Context(), []
    for number, reply in enumerate(replies):
        prompt = agent.prompt(TASK, context, page(number))
        ids = [*agent.renderer.encode(reply), *agent.renderer.stop_ids[: number not in cut]]
        given = [*context.with_prompt(prompt), *ids]
        said, parsed = agent.parse(ids, page(number), prompt)
        context.record(prompt, ids, page(number), said, parsed.action)
        assert context.ids == given
        turns.append((prompt, given))
    return turns


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in MODELS:
        chat_model(folder / name, name)
    return folder


@pytest.mark.parametrize("thinking", ["keep", "off"])
@pytest.mark.parametrize("name", MODELS)
def test_in_append_only_modes_every_prompt_begins_with_the_last_one_and_its_reply(
    folder: Path, name: str, thinking: str
) -> None:
    replies = ["<think>\na\n</think>\n\ngo", "plain", "<think>\nb\n</think>\n\non", "end"]
    turns = played(agent_of(folder / name, thinking), replies)
    assert [prompt.reset for prompt, _ in turns] == [True, False, False, False]
    for (_, before), (prompt, after) in pairwise(turns):
        assert after[: len(before)] == before
        assert after[len(before) :][: len(prompt.ids)] == list(prompt.ids)


@pytest.mark.parametrize("name", MODELS)
def test_stripped_turns_are_rows_of_their_own_without_earlier_thinking(
    folder: Path, name: str
) -> None:
    agent = agent_of(folder / name, "strip")
    opened = agent.renderer.opens_thinking
    replies = [f"{'' if opened else '<think>'}\nsecret{n}\n</think>\n\ngo {n}" for n in range(3)]
    for number, (prompt, _) in enumerate(played(agent, replies)):
        assert prompt.reset
        talk = [("system", "Act."), ("user", "page 0")]
        for n in range(number):
            talk += [("assistant", f"go {n}"), ("user", f"page {n + 1}")]
        if name == "gemma":
            talk = [("user", "Act.\n\npage 0"), *talk[2:]]
        assert list(prompt.ids) == huggingface(folder / name, talk, enable_thinking=True)
        assert "secret" not in text(folder / name, list(prompt.ids))


def test_a_stripped_prompt_is_the_template_s_own_of_the_whole_conversation(folder: Path) -> None:
    """Qwen3's template drops earlier thinking itself: the same ids come out."""
    agent = agent_of(folder / "qwen3", "strip")
    replies = ["<think>\na\n</think>\n\ngo", "<think>\nb\n</think>\n\non", "x"]
    prompt, _ = played(agent, replies)[2]
    talk = [("system", "Act."), ("user", "page 0")]
    for n, reply in enumerate(replies[:2]):
        talk += [("assistant", reply), ("user", f"page {n + 1}")]
    assert list(prompt.ids) == huggingface(folder / "qwen3", talk)


def test_a_block_opened_in_the_generation_prompt_is_closed_once_per_turn(folder: Path) -> None:
    agent = agent_of(folder / "qwen35", "keep")
    _, ids = played(agent, ["a\n</think>\n\ngo", "b\n</think>\n\non"])[1]
    whole = text(folder / "qwen35", ids)
    assert whole.count("<think>") == whole.count("</think>") == 2
    assert "<think>\na\n</think>\n\ngo<|im_end|>\n<|im_start|>user\npage 1" in whole


@pytest.mark.parametrize("name", ["qwen3", "qwen35"])
def test_off_closes_the_block_before_the_reply(folder: Path, name: str) -> None:
    prompt, _ = played(agent_of(folder / name, "off"), ["go"])[0]
    assert text(folder / name, list(prompt.ids)).endswith("<think>\n\n</think>\n\n")
    assert not prompt.thinking


def test_off_needs_a_switch_where_there_is_thinking(tmp_path: Path, folder: Path) -> None:
    always = QWEN35.replace("enable_thinking is true", "true").replace(
        "enable_thinking is defined and", ""
    )
    policy = chat_model(tmp_path, "qwen35", always)
    with pytest.raises(UsageError, match="no switch that turns thinking off") as error:
        ChatRenderer.load(policy, "off")
    assert "--thinking keep" in str(error.value.hint)
    talk = [Message("user", "Go")]
    for name in ("chatml", "llama3"):
        assert (
            ChatRenderer.load(folder / name, "off").prompt(talk)
            == ChatRenderer.load(folder / name).prompt(talk)
        )  # fmt: skip


def test_another_way_of_thinking_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="keep, strip or off, not 'on'"):
        ChatRenderer.load(folder / "qwen3", "on")


@pytest.mark.parametrize(
    "name, thinking, note",
    [
        ("qwen3", "keep", "drops the thinking"),
        ("qwen35", "keep", "drops the thinking"),
        ("qwen3", "off", "rewrites earlier turns"),
        ("qwen3", "strip", None),
        ("qwen35", "strip", None),
        ("chatml", "keep", None),
        ("llama3", "off", None),
        ("mistral", "keep", None),
        ("tools", "keep", None),
    ],
)
def test_a_renderer_says_where_the_template_would_render_otherwise(
    folder: Path, name: str, thinking: str, note: str | None
) -> None:
    notes = ChatRenderer.load(folder / name, thinking).notes
    assert [note in said for said in notes] == [True] if note else notes == ()


@pytest.mark.parametrize("thinking", POLICIES)
@pytest.mark.parametrize("name, reply, action, reason", [
    ("qwen3", "go", "go", None),
    ("qwen3", "<think>\na\n</think>\n\ngo", "go", None),
    ("qwen3", "<think>a</think>b</think>go", "go", None),
    ("qwen3", "<think>go", "", UNFINISHED),
    ("qwen3", "go<think>a</think>b<think>", "", UNFINISHED),
    ("chatml", "<think>a</think><do>go</do>", "<do>go</do>", None),
    ("chatml", "", "", None),
])  # fmt: skip
def test_the_action_is_what_follows_the_thinking(
    folder: Path, thinking: str, name: str, reply: str, action: str, reason: str | None
) -> None:
    agent = agent_of(folder / name, thinking)
    ids = [*agent.renderer.encode(reply), agent.renderer.stop_ids[0]]
    said, parsed = agent.parse(ids, page(0), agent.prompt(TASK, Context(), page(0)))
    assert said == reply
    assert (parsed.action, parsed.reason) == (action, reason)
    assert parsed.valid == (reason is None)


@pytest.mark.parametrize(
    "reply, action", [("a</think>\n\ngo", "go"), ("go", None), ("a</think>go<think>", None)]
)
def test_thinking_that_the_prompt_opened_must_be_closed(
    folder: Path, reply: str, action: str | None
) -> None:
    agent = agent_of(folder / "qwen35", "keep")
    prompt = agent.prompt(TASK, Context(), page(0))
    _, parsed = agent.parse(agent.renderer.encode(reply), page(0), prompt)
    assert prompt.thinking
    assert (parsed.action, parsed.valid) == (action or "", action is not None)
    assert parsed.reason == (None if action else UNFINISHED)


@pytest.mark.parametrize("thinking", POLICIES)
def test_windowed_prompts_quote_replies_without_their_thinking(folder: Path, thinking: str) -> None:
    agent = agent_of(folder / "qwen3", thinking, history=2)
    turns = played(agent, ["x", "<think>a</think>\n\ngo", "<think>cut", "on"])
    prompt, _ = turns[3]
    assert "[go][]" in text(folder / "qwen3", list(prompt.ids))
    assert agent.quoted(Context()) == []
    assert "[]" not in text(folder / "qwen3", list(turns[0][0].ids))


def test_a_context_that_was_changed_is_an_error_that_names_the_turn(folder: Path) -> None:
    agent, context = agent_of(folder / "qwen3", "keep"), Context()
    for number in range(3):
        prompt = agent.prompt(TASK, context, page(number))
        context.record(prompt, agent.renderer.encode("go"), page(number), "go", "go")
    copy = context.copy()
    context.ids[4] += 1
    with pytest.raises(UsageError, match="turn 3: the context is not the prompt of turn 2"):
        agent.prompt(TASK, context, page(3))
    assert not agent.prompt(TASK, copy, page(3)).reset


def test_a_template_that_puts_messages_before_the_reply_cannot_be_continued(
    tmp_path: Path,
) -> None:
    sorted_by_role = (
        "{% for m in messages %}{% if m.role != 'assistant' %}{{ m.content }}\n{% endif %}"
        "{% endfor %}{% for m in messages %}{% if m.role == 'assistant' %}<|im_start|>"
        "{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>{% endif %}"
    )
    policy = chat_model(tmp_path, "qwen3", sorted_by_role)
    assert "Only prompts that begin anew" in ChatRenderer.load(policy).notes[0]
    with pytest.raises(UsageError, match=r"turn 1: .* cannot be continued") as error:
        played(agent_of(policy, "keep"), ["go", "on"])
    assert "--thinking strip" in str(error.value.hint)
    assert len(played(agent_of(policy, "strip"), ["go", "on"])) == 2


def test_a_reply_gone_on_with_stays_inside_its_thinking_until_it_is_closed(folder: Path) -> None:
    agent = agent_of(folder / "qwen35", "keep", Inline())
    inside = ["a", "b", "c</think><do>d</do>", "<do>e</do>", "<think>f"]
    thinks = [prompt.thinking for prompt, _ in played(agent, inside, cut=range(5))]
    assert thinks == [True, True, True, False, False]
    ended = [prompt.thinking for prompt, _ in played(agent, inside)]
    assert ended == [True] * 5
    mixed = played(agent, ["<do>a</do></think>", "still thinks", "on"], cut=[1])
    assert [prompt.thinking for prompt, _ in mixed] == [True] * 3


def test_a_reply_that_is_gone_on_with_cannot_be_stripped(folder: Path) -> None:
    with pytest.raises(UsageError, match="goes on inside the reply") as error:
        played(agent_of(folder / "qwen3", "strip", Inline()), ["<do>a</do>", "b"])
    assert "--thinking keep" in str(error.value.hint)


@pytest.mark.parametrize("name, reply, kept", [
    ("qwen3", "<do>a</do> and more", "<do>a</do>"),
    ("qwen3", "<think><do>x</do></think><do>a</do> b", "<think><do>x</do></think><do>a</do>"),
    ("qwen3", "<think><do>no</do> and on", "<think><do>no</do> and on"),
    ("qwen35", "<do>no</do></think>\n<do>a</do> more", "<do>no</do></think>\n<do>a</do>"),
    ("qwen35", "<do>no</do> and on", "<do>no</do> and on"),
])  # fmt: skip
def test_a_reply_is_cut_after_an_end_outside_its_thinking(
    folder: Path, name: str, reply: str, kept: str
) -> None:
    agent = agent_of(folder / name, "keep", Inline())
    ids = tuple(agent.renderer.encode(reply))
    prompt = agent.prompt(TASK, Context(), page(0))
    sampled = Generation(ids, (-0.5,) * len(ids), FinishReason.LENGTH)
    cut = agent.cut(sampled, prompt)
    whole = agent.renderer.decode(cut.ids)
    assert whole.startswith(kept) and cut.ids == ids[: len(cut.ids)]
    assert kept == reply or not agent.renderer.decode(cut.ids[:-1]).startswith(kept)
    assert cut.finish_reason is (FinishReason.LENGTH if kept == reply else FinishReason.STOP)


TEXTS = st.lists(st.sampled_from(["<think>", "</think>", "x", "\n", "end"]), max_size=8)


@given(parts=TEXTS, opened=st.booleans())
def test_what_is_said_is_never_part_of_the_thinking(parts: list[str], opened: bool) -> None:
    reply = "".join(parts)
    said = answer(reply, opened)
    assert (said is None) == ends_inside(reply, opened)
    if said is not None:
        assert "<think>" not in said and "</think>" not in said
        assert reply.endswith(said)
    place = find_outside(reply, "end", opened)
    assert place < 0 or not ends_inside(reply[:place], opened)
