"""Episodes in the shop: what actions do, what pages show, and exact snapshots."""

from __future__ import annotations

import json
import random

import pytest

from prover_cli.envs.base import Task
from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.envs.webshop.session import WebShopSession
from tests.envs.helpers import open_item, random_action, visit_every_kind

INVALID = (
    "",
    "Search[x]",
    "Click[back to search]",
    "search",
    "search[]",
    "search [x]",
    "search[a\nb]",
    "buy[now]",
    "click[nothing]",
    "click[search]",
    "click[a[b]]",
    "click[]",
    "click[<I0>]",
    "buy now",
    "think about it",
)


@pytest.fixture(scope="module")
def task(small_shop: WebShopEnvironment) -> Task:
    """A task whose product has two options."""
    shop = small_shop.shop
    return next(
        t for t in small_shop.tasks("train") if len(shop.product(t.payload["asin"]).options) == 2
    )


def _first_values(env: WebShopEnvironment, task: Task) -> dict[str, str]:
    options = env.shop.product(task.payload["asin"]).options
    return {name: values[0] for name, values in options.items()}


@pytest.mark.parametrize("rich", [False, True])
def test_a_restored_session_is_equal_at_every_step_and_ever_after(rich: bool) -> None:
    env = WebShopEnvironment(products=60, observation="text_rich" if rich else "text")
    for number, task in enumerate(env.tasks("train").head(40)):
        generator = random.Random(number)
        session = open_item(env, task) if number % 2 else env.start(task, 0)
        copies: list[WebShopSession] = []
        for _ in range(env.max_turns):
            snapshot = session.snapshot()
            assert len(snapshot) < 600
            assert isinstance(json.loads(snapshot), dict)
            copy = env.restore(task, snapshot)
            assert copy.snapshot() == snapshot
            assert copy.observe() == session.observe()
            copies.append(copy)
            action = random_action(session, generator)
            expected = session.step(action)
            for copy in copies:
                assert copy.step(action) == expected


def test_the_order_of_chosen_options_survives_a_snapshot(
    small_shop: WebShopEnvironment, task: Task
) -> None:
    chosen = _first_values(small_shop, task)
    for names in (sorted(chosen), sorted(chosen, reverse=True)):
        session = open_item(small_shop, task)
        for name in names:
            session.step(f"click[{chosen[name]}]")
        copy = small_shop.restore(task, session.snapshot())
        expected = session.step("click[buy now]").observation.text
        assert json.dumps({name: chosen[name] for name in names}) in expected
        assert copy.step("click[buy now]").observation.text == expected
        assert small_shop.restore(task, session.snapshot()).observe().text == expected


@pytest.mark.parametrize("action", INVALID)
def test_an_invalid_action_changes_nothing_on_any_page(
    small_shop: WebShopEnvironment, task: Task, action: str
) -> None:
    for session in visit_every_kind(small_shop, task):
        before, snapshot = session.observe(), session.snapshot()
        result = session.step(action)
        assert (result.valid, result.reward, result.done, result.success) == (
            False,
            0,
            False,
            False,
        )
        assert result.observation == before
        assert session.snapshot() == snapshot


def test_a_search_is_valid_on_every_page(small_shop: WebShopEnvironment, task: Task) -> None:
    sessions = visit_every_kind(small_shop, task)
    kinds = {session.state.kind for session in sessions}
    assert kinds == {"index", "results", "item", "description", "features", "reviews", "done"}
    for session in sessions:
        result = session.step("search[Coffee Table]")
        assert (result.valid, result.reward, result.done) == (True, 0.0, False)
        state = session.state
        assert (state.kind, state.keywords, state.number) == ("results", ["coffee", "table"], 1)
        assert (state.asin, state.options) == (None, {})


def test_everything_clickable_can_be_clicked(small_shop: WebShopEnvironment, task: Task) -> None:
    for page in visit_every_kind(small_shop, task):
        for action in page.observe().admissible or ():
            session = small_shop.restore(task, page.snapshot())
            assert session.step(action).valid == (action != "click[search]")


def test_text_behind_the_action_and_case_of_the_argument_do_not_matter(
    small_shop: WebShopEnvironment, task: Task
) -> None:
    plain, noisy = small_shop.start(task, 0), small_shop.start(task, 0)
    plain.step("search[coffee table]")
    assert noisy.step("search[Coffee TABLE] and then look").valid
    assert noisy.observe() == plain.observe()


def test_chosen_options_show_in_the_rich_form_only(task: Task) -> None:
    envs = [WebShopEnvironment(products=150, observation=o) for o in ("text", "text_rich")]
    for env in envs:
        session = open_item(env, task)
        before = session.observe()
        for value in _first_values(env, task).values():
            after = session.step(f"click[{value}]").observation
            assert after.state_key != before.state_key
            marked = f"  [clicked button] {value} [clicked button_]\n"
            if env is envs[0]:
                assert after.text == before.text
            else:
                assert marked not in before.text
                assert marked in after.text
                assert f"You have clicked {value}.\n" in after.text


def test_a_later_value_replaces_an_earlier_one(small_shop: WebShopEnvironment, task: Task) -> None:
    name, values = next(iter(small_shop.shop.product(task.payload["asin"]).options.items()))
    session = open_item(small_shop, task)
    for value in values:
        session.step(f"click[{value}]")
        assert session.state.options == {name: value}


@pytest.mark.parametrize("leave", ["click[< prev]", "click[back to search]", "search[red]"])
def test_leaving_an_item_clears_its_options(
    small_shop: WebShopEnvironment, task: Task, leave: str
) -> None:
    session = open_item(small_shop, task)
    for value in _first_values(small_shop, task).values():
        session.step(f"click[{value}]")
    assert len(session.state.options) == 2
    session.step(leave)
    assert session.state.options == {}
    assert session.state.asin is None


@pytest.mark.parametrize("page", ["description", "features", "reviews"])
def test_sub_pages_keep_options_and_lead_back(
    small_shop: WebShopEnvironment, task: Task, page: str
) -> None:
    session = open_item(small_shop, task)
    for value in _first_values(small_shop, task).values():
        session.step(f"click[{value}]")
    before = session.observe()
    there = session.step(f"click[{page}]").observation
    assert there.admissible == ("click[back to search]", "click[< prev]")
    assert there.page["chosen"] == before.page["chosen"]
    assert session.step("click[< prev]").observation == before


def test_leaving_an_item_returns_to_the_same_results_page(
    small_shop: WebShopEnvironment, task: Task
) -> None:
    session = small_shop.start(task, 0)
    session.step("search[color]")
    second = session.step("click[next >]").observation
    asin = second.page["products"][3]["asin"]
    session.step(f"click[{asin.lower()}]")
    assert session.state.asin == asin
    back = session.step("click[< prev]").observation
    assert (back.text, back.page) == (second.text, second.page)
    assert session.state.visited == [asin]


def test_pages_past_the_last_are_empty(small_shop: WebShopEnvironment, task: Task) -> None:
    session = small_shop.start(task, 0)
    listed = list(session.step("search[color size]").observation.page["products"])
    n_hits = session.observe().page["n_hits"]
    assert 10 < n_hits <= 50
    for number in range(2, 9):
        result = session.step("click[next >]")
        assert result.valid
        assert f"Page {number} (Total results: {n_hits})" in result.observation.text
        products = result.observation.page["products"]
        assert len(products) == max(0, min(10, n_hits - 10 * (number - 1)))
        listed += products
    assert len({product["asin"] for product in listed}) == len(listed) == n_hits
    last = session.observe().admissible
    assert last == ("click[back to search]", "click[< prev]", "click[next >]")
    assert session.step("click[< prev]").observation.page["number"] == 7


def test_a_purchase_ends_the_episode(small_shop: WebShopEnvironment, task: Task) -> None:
    session = open_item(small_shop, task)
    result = session.step("click[buy now]")
    assert result.done and 0 < result.reward < 1 and not result.success
    assert result.info["r_option"] == 0
    assert result.observation.admissible == ()
    assert f"Your score (min 0.0, max 1.0) [SEP] {result.reward}" in result.observation.text


def test_the_attributes_page_is_shown_on_request(task: Task) -> None:
    env = WebShopEnvironment(products=150, attributes_page=True)
    session = open_item(env, task)
    product = env.shop.product(task.payload["asin"])
    tail = [*product.attributes, product.category, product.query, product.product_category]
    text = session.step("click[attributes]").observation.text
    assert text.endswith(" [SEP] ".join(["< Prev", *tail]))
