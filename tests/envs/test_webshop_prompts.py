"""Pages as prompts and replies as actions."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.envs.base import Observation, ParsedAction, PastTurn, Task
from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.envs.webshop.prompts import ALIASES, compact_reply
from tests.envs.helpers import open_item, visit_every_kind


@pytest.fixture(scope="module")
def task(small_shop: WebShopEnvironment) -> Task:
    first: Task = small_shop.tasks("train")[0]
    return first


def _results(env: WebShopEnvironment, task: Task, pages: int = 1) -> Observation:
    session = env.start(task, 0)
    session.step("search[premium classic]")
    for _ in range(pages - 1):
        session.step("click[next >]")
    return session.observe()


def _shown(style: Any, task: Task, observation: Observation) -> str:
    return "\n".join(message.content for message in style.following(task, observation))


def test_aliases_name_the_products_of_that_page(small_shop: WebShopEnvironment, task: Task) -> None:
    style = small_shop.prompts["compact"]
    assert "".join(ALIASES) == "<I0><I1><I2><I3><I4><I5><I6><I7><I8><I9>"
    seen = set()
    for number in range(1, 8):
        observation = _results(small_shop, task, number)
        lines = _shown(style, task, observation).splitlines()
        products = observation.page["products"]
        for i, alias in enumerate(ALIASES):
            parsed = style.parse(f"click[{alias}]", observation)
            if i >= len(products):
                assert not parsed.valid and parsed.action == ""
                assert parsed.reason is not None and alias in parsed.reason
                continue
            product = products[i]
            assert (parsed.action, parsed.valid) == (f"click[{product['asin'].lower()}]", True)
            assert lines[1 + i].startswith(f"{alias} {product['title'].lower()} $")
            assert compact_reply(parsed.action, observation) == f"click[{alias}]"
            seen.add(product["asin"])
        assert not any(product["asin"] in "\n".join(lines) for product in products)
    assert len(seen) == observation.page["n_hits"]


def test_rounded_prices_keep_the_side_of_every_limit(
    small_shop: WebShopEnvironment, task: Task
) -> None:
    style = small_shop.prompts["compact"]
    for product in small_shop.shop.catalogue:
        page = {"kind": "results", "number": 1, "n_hits": 1}
        listed = {"asin": product.asin, "title": "x", "price": product.price_tag}
        observation = Observation("", "", page={**page, "products": [listed]})
        words = _shown(style, task, observation).splitlines()[1].split()
        shown = [float(word.removeprefix("$")) for word in words if word.startswith("$")]
        assert len(shown) == len(product.prices)
        for number, price in zip(shown, product.prices, strict=True):
            assert price <= number < price + 1
            assert all((number <= limit) == (price <= limit) for limit in range(10, 1000, 10))


def test_an_alias_means_nothing_off_the_results_pages(
    small_shop: WebShopEnvironment, task: Task
) -> None:
    for session in visit_every_kind(small_shop, task):
        if session.state.kind != "results":
            for alias in ALIASES:
                parsed = small_shop.prompts["compact"].parse(f"click[{alias}]", session.observe())
                assert not parsed.valid


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("search[red shoes]", "search[red shoes]"),
        ("  click[buy now]\n", "click[buy now]"),
        ("click[< prev]", "click[< prev]"),
        ("click[<I12>]", "click[<I12>]"),
    ],
)
def test_compact_replies_are_actions(
    small_shop: WebShopEnvironment, task: Task, reply: str, action: str
) -> None:
    parsed = small_shop.prompts["compact"].parse(reply, _results(small_shop, task))
    assert (parsed.action, parsed.valid, parsed.reason) == (action, True, None)


@pytest.mark.parametrize("reply", ["", "buy now", "click[]", "Search[x]", "search[x] then", "[x]"])
def test_other_compact_replies_are_invalid_and_kept(
    small_shop: WebShopEnvironment, task: Task, reply: str
) -> None:
    parsed = small_shop.prompts["compact"].parse(reply, _results(small_shop, task))
    assert (parsed.action, parsed.valid, parsed.reason) == ("", False, "not an action")


def test_compact_marks_the_chosen_options(small_shop: WebShopEnvironment, task: Task) -> None:
    style, session = small_shop.prompts["compact"], open_item(small_shop, task)
    options = small_shop.shop.product(task.payload["asin"]).options
    assert "*" not in _shown(style, task, session.observe())
    for name, values in options.items():
        session.step(f"click[{values[-1]}]")
        marked = ", ".join([*values[:-1], f"*{values[-1]}*"])
        assert f"{name}: {marked}" in _shown(style, task, session.observe()).splitlines()


def test_compact_pages_differ_by_kind(small_shop: WebShopEnvironment, task: Task) -> None:
    pages = [
        _shown(small_shop.prompts["compact"], task, session.observe())
        for session in visit_every_kind(small_shop, task)
    ]
    assert len(set(pages)) == len(pages) == 7
    assert (pages[0], pages[-1]) == ("search page", "bought")


ANSWERS = {"tags": "<think>hm</think>\n<action>{}</action>", "react": "Thought: hm\nAction: {}"}
INSTRUCTED = pytest.mark.parametrize("style", ["tags", "react"])
FORM = re.compile(r"search\[[^\[\n]+\]|click\[[^\[\n]+\]")


@INSTRUCTED
def test_the_search_bar_is_not_a_button(
    small_shop: WebShopEnvironment, task: Task, style: str
) -> None:
    index = small_shop.start(task, 0).observe()
    parsed = small_shop.prompts[style].parse(ANSWERS[style].format("click[search]"), index)
    assert not parsed.valid
    assert parsed.reason == "no button 'search' on this page; expected search[<keywords>]"


@INSTRUCTED
def test_every_listed_action_is_valid_and_the_shop_accepts_it(
    small_shop: WebShopEnvironment, task: Task, style: str
) -> None:
    prompts, with_search = small_shop.prompts[style], []
    for session in visit_every_kind(small_shop, task):
        observation, snapshot = session.observe(), session.snapshot()
        listed = _shown(prompts, task, observation).partition("Available actions:\n")[2]
        if session.state.kind == "done":
            assert listed == "(none)"
            continue
        assert "click[search]" not in listed.splitlines()
        for offer in listed.splitlines():
            if offer.startswith("search"):
                with_search.append(session.state.kind)
            written = offer.replace("<keywords>", "red shoes").upper()
            parsed = prompts.parse(ANSWERS[style].format(written), observation)
            assert parsed.valid and FORM.fullmatch(parsed.action)
            assert small_shop.restore(task, snapshot).step(parsed.action).valid
    assert with_search == ["index"]


def test_buttons_that_the_shop_cannot_read_are_not_listed(
    small_shop: WebShopEnvironment, task: Task
) -> None:
    labels = ("size [new]", "a\nb", "", "a] b", "two  blanks")
    observation = Observation("item", "", tuple(f"click[{label}]" for label in labels))
    style = small_shop.prompts["tags"]
    shown = _shown(style, task, observation).partition("Available actions:\n")[2]
    assert shown.splitlines() == ["click[a] b]", "click[two  blanks]"]
    parsed = style.parse(ANSWERS["tags"].format("click[Two blanks]"), observation)
    assert parsed == ParsedAction("click[two  blanks]", True)


WRITTEN = st.sampled_from(
    ["search", "click", "Click", "[", "]", "next >", "< Prev", "buy now", " ", "\n", "`", "red"]
)


@INSTRUCTED
@given(parts=st.lists(WRITTEN | st.text(max_size=4), max_size=7), wrapped=st.booleans())
def test_a_valid_action_has_the_form_of_one_and_the_shop_accepts_it(
    small_shop: WebShopEnvironment, task: Task, style: str, parts: list[str], wrapped: bool
) -> None:
    session = small_shop.start(task, 0)
    session.step("search[premium classic]")
    written = "".join(parts)
    reply = ANSWERS[style].format(written) if wrapped else written
    parsed = small_shop.prompts[style].parse(reply, session.observe())
    if parsed.valid:
        assert parsed.reason is None and FORM.fullmatch(parsed.action)
        assert session.step(parsed.action).valid
    else:
        assert parsed.reason and parsed.action == ""


@INSTRUCTED
def test_a_long_reply_is_parsed_at_once_and_named_in_short(
    small_shop: WebShopEnvironment, task: Task, style: str
) -> None:
    observation, began = _results(small_shop, task), time.perf_counter()
    for shape in ("click[", "search ", "[", "]", " ", "click[x", "a"):
        for written in (shape * (40_000 // len(shape)), f"click[{shape * 40_000}]"):
            parsed = small_shop.prompts[style].parse(ANSWERS[style].format(written), observation)
            assert not parsed.valid and len(parsed.reason or "") < 300
    assert time.perf_counter() - began < 3


@INSTRUCTED
@pytest.mark.parametrize("observation", ["text", "text_rich"])
def test_prompts_say_the_instruction_once(style: str, observation: str) -> None:
    shop = WebShopEnvironment(products=60, observation=observation)
    task, prompts = shop.tasks("all")[0], shop.prompts[style]
    for session in visit_every_kind(shop, task):
        page = session.observe()
        assert task.instruction not in _shown(prompts, task, page)
        past = [PastTurn(page.text, "", "click[a]"), PastTurn(page.text, "", "click[b]")]
        prompt = "\n".join(message.content for message in prompts.window(task, past, page))
        assert prompt.count(task.instruction) == 1 and "Instruction:" not in prompt
        kept = re.sub(r"Instruction:( \[SEP\] | ?\n)", "", page.text)
        kept = re.sub(re.escape(task.instruction) + r"( \[SEP\] |\n)", "", kept)
        assert prompt.count(kept.strip()) == 3


def test_tags_say_all_in_one_message_that_quotes_two_turns(
    small_shop: WebShopEnvironment, task: Task
) -> None:
    style, page = small_shop.prompts["tags"], _results(small_shop, task)
    assert style.history == 2
    past = [PastTurn("first", "", "search[x]"), PastTurn("second", "", "click[y]")]
    (message,) = style.window(task, past, page)
    order = (task.instruction, "[1] Observation: first", "[1] Action: search[x]")
    order += ("[2] Observation: second", "[2] Action: click[y]", "Observation: Back to Search")
    order += ("Available actions:", "<think>", "<action>")
    places = [message.content.rindex(text) for text in order]
    assert message.role == "user" and places == sorted(places)


def test_react_begins_a_conversation_with_the_rules(
    small_shop: WebShopEnvironment, task: Task
) -> None:
    style, page = small_shop.prompts["react"], small_shop.start(task, 0).observe()
    assert style.history is None
    rules, agreed, first = style.opening(task, page)
    assert [rules.role, agreed.role, first.role] == ["user", "assistant", "user"]
    assert "Thought:" in rules.content and "Action:" in rules.content
    assert first.content.startswith(f"Task: {task.instruction}")
    (later,) = style.following(task, page)
    assert later.role == "user" and first.content.endswith(later.content)


@INSTRUCTED
def test_a_window_marks_invalid_replies_and_quotes_their_end(
    small_shop: WebShopEnvironment, task: Task, style: str
) -> None:
    prompts, page = small_shop.prompts[style], _results(small_shop, task)
    reply = "so\n" * 500 + "buy\nit"
    parsed = prompts.parse(reply, page)
    past = [PastTurn("o", reply, parsed.action), PastTurn("o", " no ", "")]
    prompt = prompts.window(task, past, page)[-1].content
    first, second = (line for line in prompt.splitlines() if "(invalid reply)" in line)
    assert first.endswith("so buy it") and len(first) < 150
    assert second == "[2] Action: (invalid reply) no"


@pytest.mark.parametrize("style", ["compact", "tags", "react"])
def test_a_window_quotes_the_past(small_shop: WebShopEnvironment, task: Task, style: str) -> None:
    observation = _results(small_shop, task)
    prompts = small_shop.prompts[style]
    past = [PastTurn("seen before", "click[<I3>]", "click[b00]"), PastTurn("o", "s", "search[x]")]
    last = prompts.window(task, past, observation)[-1].content
    first, second = ("click[<I3>]", "did s") if style == "compact" else ("click[b00]", "search[x]")
    assert 0 <= last.index(first) < last.index(second)
    assert task.instruction in last
    empty = prompts.window(task, [], observation)
    assert empty == prompts.opening(task, observation)
