"""Pages as prompts and replies as actions."""

from __future__ import annotations

from typing import Any

import pytest

from prover_cli.envs.base import Observation, PastTurn, Task
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
                assert not parsed.valid and parsed.action == f"click[{alias}]"
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
    assert (parsed.action, parsed.valid, parsed.reason) == (reply, False, "not an action")


def test_compact_marks_the_chosen_options(small_shop: WebShopEnvironment, task: Task) -> None:
    style, session = small_shop.prompts["compact"], open_item(small_shop, task)
    options = small_shop.shop.by_asin[task.payload["asin"]].options
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


@pytest.mark.parametrize(
    ("style", "reply", "action"),
    [
        ("tags", "<action>click[a]</action> no, <action> click[b] </action>", "click[b]"),
        ("tags", "I think\n<action>\nsearch[red shoes]\n</action>", "search[red shoes]"),
        ("react", "Thought: x\nAction: click[a]\nAction: click[b]  ", "click[b]"),
        ("react", "Thought: Action: click[a]\nAction:search[x y]", "search[x y]"),
    ],
)
def test_the_last_action_of_a_reply_counts(
    small_shop: WebShopEnvironment, task: Task, style: str, reply: str, action: str
) -> None:
    parsed = small_shop.prompts[style].parse(reply, _results(small_shop, task))
    assert (parsed.action, parsed.valid, parsed.reason) == (action, True, None)


@pytest.mark.parametrize(
    ("style", "reply", "action", "reason"),
    [
        ("tags", " click[a] ", "click[a]", "no action found"),
        ("tags", "<action>click[a]", "<action>click[a]", "no action found"),
        ("tags", "<action>click[a]</action><action>buy</action>", "buy", "not an action"),
        ("react", "click[a]", "click[a]", "no action found"),
        ("react", "action: click[a]", "action: click[a]", "no action found"),
        ("react", "Action: buy it", "buy it", "not an action"),
    ],
)
def test_replies_without_an_action_say_why(
    small_shop: WebShopEnvironment, task: Task, style: str, reply: str, action: str, reason: str
) -> None:
    parsed = small_shop.prompts[style].parse(reply, _results(small_shop, task))
    assert (parsed.action, parsed.valid) == (action, False)
    assert parsed.reason is not None and parsed.reason.startswith(reason)


@pytest.mark.parametrize("style", ["tags", "react"])
def test_instructed_styles_list_what_is_possible(
    small_shop: WebShopEnvironment, task: Task, style: str
) -> None:
    for session in visit_every_kind(small_shop, task):
        observation = session.observe()
        system, user = small_shop.prompts[style].opening(task, observation)
        assert (system.role, user.role) == ("system", "user")
        assert user.content.startswith(observation.text)
        listed = user.content.rpartition("You can: ")[2]
        assert listed.startswith("search[keywords]") and "click[search]" not in listed
        assert all(a in listed for a in observation.admissible or () if a != "click[search]")


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
