"""Which action a reply has, and why it has none; with the actions of WebShop as the example."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.envs.base import Observation, ParsedAction
from prover_cli.envs.replies import Reply, after_label, in_tags
from prover_cli.envs.webshop import WebShopEnvironment

READERS = pytest.mark.parametrize("read", [in_tags, after_label])


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("<action>look</action>", "look"),
        ("<think>hm</think><action>look</action>", "look"),
        ("<think>\nhm\n</think>\n<action>\n look \n</action>\n", "look"),
        ("< Think >hm</ THINK ><ACTION >look< / action>", "look"),
        ("I think:<action>look</action>and so on", "look"),
        ("<action>take a from b\nnow</action>", "take a from b\nnow"),
        ("<action>`look`</action>", "look"),
        ("<action>\n```\nlook\n```\n</action>", "look"),
        ("<action>take an [odd] <b>thing</b></action>", "take an [odd] <b>thing</b>"),
        ("<think>思考</think><action>take crème brûlée 1</action>", "take crème brûlée 1"),
        ("</action><action>look</action></action>", "look"),
        # What is thought does not count.
        ("<think><action>wait</action></think><action>look</action>", "look"),
        ("<think><action>wait</think><action>look</action>", "look"),
        ("<think>a <think> b</think><action>look</action>", "look"),
        ("<think>a</think><action>look</action><think><action>wait</action>", "look"),
        ("<action>wait</action> no.</think><action>look</action>", "look"),
        ("<action>look<think>sure?</think></action>", "look"),
        ("<action>look</action><think>", "look"),
    ],
)
def test_the_only_action_in_tags_is_found(reply: str, action: str) -> None:
    assert in_tags(reply) == Reply(action)


@pytest.mark.parametrize(
    ("reply", "fact"),
    [
        ("", "no action"),
        ("look", "no action"),
        ("look</action>", "no action"),
        ("<act>look</act>", "no action"),
        ("<act\u0131on>look</act\u0131on>", "no action"),
        ("<think><action>look</action></think>", "no action"),
        ("<think></think><action>look</action></think>", "no action"),
        ("<think>so <action>look</action>", "the reply ends before </think>"),
        ("<think>a</think><think><action>look</action>", "the reply ends before </think>"),
        ("<think>a</think><action>look", "the reply ends before </action>"),
        ("<action>look</act", "the reply ends before </action>"),
        ("</action>look<action>", "the reply ends before </action>"),
        ("<action></action>", "the action is empty"),
        ("<action> \n ` ` </action>", "the action is empty"),
        ("<action>look</action><action>wait</action>", "2 actions"),
        ("<action>look</action><action>look</action>", "2 actions"),
        ("<action><action>look</action></action>", "2 actions"),
        ("<action>look</action>\n<action>wai", "2 actions"),
    ],
)
def test_a_reply_without_exactly_one_action_in_tags_says_why(reply: str, fact: str) -> None:
    expected = Reply(reply.strip(), f"{fact}; expected exactly one <action>...</action>")
    assert in_tags(reply) == expected


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Thought: hm\nAction: look", "look"),
        ("Thought:\nhm\n\nAction:\nlook", "look"),
        ("Action:\n\n  look  \n", "look"),
        ("  ACTION :look", "look"),
        ("thought: hm\r\naction: look\r\n", "look"),
        ("Action: `look`", "look"),
        ("Action:\n```\nlook\n```", "look"),
        ("Action: take crème brûlée 1 from [shelf] 2", "take crème brûlée 1 from [shelf] 2"),
        ("Thought: which Action: is best?\nAction: look", "look"),
        ("Action: look\n\nThis shows me the room.", "look"),
        # An imagined continuation is not part of the reply's action.
        ("Action: look\nObservation: a room\nThought: go on\nAction: wait", "look"),
        ("Action:\nlook\n  observation : a room", "look"),
        ("Observation: a room\nThought: hm\nAction: look", "look"),
        # What is thought does not count.
        ("<think>\nAction: wait\n</think>\nThought: hm\nAction: look", "look"),
        ("Action: wait\n</think>\nAction: look", "look"),
    ],
)
def test_the_only_action_after_a_label_is_found(reply: str, action: str) -> None:
    assert after_label(reply) == Reply(action)


@pytest.mark.parametrize(
    ("reply", "fact"),
    [
        ("", "no action"),
        ("look", "no action"),
        ("Thought: the next Action: look", "no action"),
        ("Reaction: look", "no action"),
        ("Act\u0131on: look", "no action"),
        ("<think>\nAction: look", "the reply ends before </think>"),
        ("Thought: hm\nAction:", "the action is empty"),
        ("Thought: hm\nAction: ``", "the action is empty"),
        ("Action:\nObservation: a room", "the action is empty"),
        ("Action: look\nAction: wait", "2 actions"),
        ("Action: look\n\nThought: and\nAction: wait\nObservation: a\nAction: c", "2 actions"),
        ("Action:\nAction: look", "2 actions"),
        ("Action:\nlook\nwait", "2 lines after Action:"),
        ("Action: look\nThought: hm\nand", "3 lines after Action:"),
    ],
)
def test_a_reply_without_exactly_one_labelled_action_says_why(reply: str, fact: str) -> None:
    expected = Reply(reply.strip(), f"{fact}; expected exactly one line `Action: ...`")
    assert after_label(reply) == expected


PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<action>",
        "</ action >",
        "\nAction:",
        "Observation:",
        "\n",
        "`",
        "[a]",
    ]
)


@READERS
@given(parts=st.lists(PIECES | st.text(max_size=5), max_size=12))
def test_any_reply_has_an_action_or_a_reason(
    read: Callable[[str], Reply], parts: list[str]
) -> None:
    reply = "".join(parts)
    found = read(reply)
    if found.reason is not None:
        assert found.action == reply.strip()
    else:
        assert found.action and found.action == found.action.strip()
        assert found.action in reply or "think>" in reply


@given(text=st.text(max_size=30), decoy=st.text(max_size=30))
def test_thoughts_never_change_the_action(text: str, decoy: str) -> None:
    reply = f"<action>{text}</action>"
    thought = f"<think>{decoy.replace('think', '')}<action>decoy</action></think>"
    with_decoy, without = in_tags(thought + reply), in_tags(reply)
    assert (without.reason is None) == (with_decoy.reason is None)
    assert without.reason is not None or with_decoy == without


SHAPES = (
    "<", " ", "\n", "`", "< ", "<think>", "</think>", "<action>", "</action>", "<action", "<think ",
    "Action:", "\nAction:", "\nAction", "\nObservation:", "\n ", "a ", "\t\n",
)  # fmt: skip


@READERS
@pytest.mark.parametrize("before", ["", "<", "<action", "<action>", "Action:", "<think"])
def test_a_long_reply_takes_linear_time(read: Callable[[str], Reply], before: str) -> None:
    began = time.perf_counter()
    for shape in SHAPES:
        read(before + shape * (40_000 // len(shape)))
        read(before + " " * 40_000 + shape)
    # All shapes take some 0.1 s; one quadratic pattern takes many seconds.
    assert time.perf_counter() - began < 3


ANSWERS = {"tags": "<think>hm</think>\n<action>{}</action>", "react": "Thought: hm\nAction: {}"}
INSTRUCTED = pytest.mark.parametrize("style", ["tags", "react"])


def _results(shop: WebShopEnvironment) -> Observation:
    session = shop.start(shop.tasks("train")[0], 0)
    return session.step("search[premium classic]").observation


@INSTRUCTED
@pytest.mark.parametrize(
    ("written", "action"),
    [
        ("search[red shoes]", "search[red shoes]"),
        ("SEARCH[red  shoes]", "search[red shoes]"),
        (" Search [ Red\u00a0shoes, size 9] ", "search[red shoes, size 9]"),
        ("search[crème brûlée 日本]", "search[crème brûlée 日本]"),
        ("search[a] b]", "search[a] b]"),
        ("`search[click]`", "search[click]"),
        ("Click [ Back  to Search ]", "click[back to search]"),
        ("click[NEXT >]", "click[next >]"),
        ("cLICK\t[next >]", "click[next >]"),
    ],
)
def test_case_and_blanks_do_not_matter(
    small_shop: WebShopEnvironment, style: str, written: str, action: str
) -> None:
    parsed = small_shop.prompts[style].parse(ANSWERS[style].format(written), _results(small_shop))
    assert parsed == ParsedAction(action, True)


@INSTRUCTED
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("buy now", "unknown action 'buy now'; expected search[<keywords>] or click[<button>]"),
        ("buy[now]", "unknown action 'buy'"),
        ("[next >]", "unknown action ''"),
        ("research[shoes]", "unknown action 'research'"),
        ("I will click[next >]", "unknown action 'i will click'"),
        ("click", "no [ in 'click'"),
        ("search[red", "no ] at the end of 'search[red'"),
        ("click[next >] now", "no ] at the end of 'click[next >] now'"),
        ("click[]", "nothing in the brackets of click"),
        ("search[  ]", "nothing in the brackets of search"),
        ("click[< prev] click[next >]", "more than one action: 'click[< prev] click[next >]'"),
        ("search[a], then Click [b]", "more than one action"),
        ("search[a [b]]", "WebShop cannot read a [ inside the brackets: 'search[a [b]]'"),
        ("click[buy now]", "no button 'buy now' on this page"),
        ("click[nex >]", "no button 'nex >' on this page; the closest is 'next >'"),
        ("click[next>]", "no button 'next>' on this page; the closest is 'next >'"),
        ("click[Back to Serach]", "no button 'back to serach' on this page; the closest is 'back"),
    ],
)
def test_what_is_not_an_action_of_the_page_says_why(
    small_shop: WebShopEnvironment, style: str, written: str, reason: str
) -> None:
    reply = ANSWERS[style].format(written)
    parsed = small_shop.prompts[style].parse(f" {reply}\n", _results(small_shop))
    assert (parsed.action, parsed.valid) == ("", False)
    assert parsed.reason is not None and parsed.reason.startswith(reason)


@pytest.mark.parametrize(
    ("style", "reply", "reason"),
    [
        ("tags", "search[x]", "no action; expected exactly one <action>"),
        ("tags", "Thought: x\nAction: search[x]", "no action"),
        ("tags", "<action>search[x]</action><action>search[x]</action>", "2 actions"),
        ("tags", "<action>search[x]", "the reply ends before </action>"),
        ("react", "search[x]", "no action; expected exactly one line `Action: ...`"),
        ("react", "<action>search[x]</action>", "no action"),
        ("react", "Action: search[x]\nAction: search[y]", "2 actions"),
        ("react", "Action: search[red\nshoes]", "2 lines after Action:"),
    ],
)
def test_a_style_asks_for_its_own_form(
    small_shop: WebShopEnvironment, style: str, reply: str, reason: str
) -> None:
    parsed = small_shop.prompts[style].parse(reply, _results(small_shop))
    assert (parsed.action, parsed.valid) == ("", False)
    assert parsed.reason is not None and parsed.reason.startswith(reason)
