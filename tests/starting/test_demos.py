"""What starting policies are shown: no task of the environment, and errors to learn from."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields

import pytest

from prover_cli.envs.alfworld import AlfworldEnvironment
from prover_cli.envs.searchqa import SearchQAEnvironment
from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.policies.alfworld_demos import AlfworldDemos
from prover_cli.policies.copying import KIND as COPYING
from prover_cli.policies.demos import FIRST_SEED, STYLE, Demonstrations, play
from prover_cli.policies.recipe import RECIPES, recipe_for
from prover_cli.policies.searchqa_demos import SearchQADemos
from prover_cli.policies.webshop_demos import WebShopDemos
from tests.starting.recipes import DEMOS, FewGames, FewQuestions


def without_errors(source: Demonstrations) -> Demonstrations:
    noiseless: Demonstrations = type(source)(**{each.name: 0.0 for each in fields(source)})
    return noiseless


def solved(source: Demonstrations, n: int) -> float:
    """The share of the environment's own first training tasks that the player solves."""
    environment = source.world(0)
    wins = 0
    for task in environment.tasks("train")[:n]:
        player = source.player(environment, task, random.Random(task.task_id))
        session = environment.start(task, 0)
        style, result = environment.prompts[STYLE], None
        while result is None or not result.done:
            observation = session.observe()
            reply = source.reply(player.choose(session).action, observation)
            result = session.step(style.parse(reply, observation).action)
        wins += bool(result.success)
    return wins / n


def last_seed(env: str) -> int:
    return FIRST_SEED + recipe_for(env).worlds - 1


def test_no_product_of_the_environment_is_shown() -> None:
    environment, shown = WebShopEnvironment(), WebShopDemos().world(FIRST_SEED)
    asins = {product.asin for product in environment.shop.catalogue}
    assert asins.isdisjoint(product.asin for product in shown.shop.catalogue)
    instructions = {task.instruction for task in environment.tasks("all")}
    seen = {m.content.split("\n")[0] for d in play(WebShopDemos(), 1, 0) for m in d.messages}
    assert len(seen & instructions) <= 0.01 * len(instructions)


def test_no_question_of_the_environment_is_shown() -> None:
    """By chance a name occurs in two worlds, but then the answer is another."""
    own = {t.instruction: t.payload["answers"] for t in SearchQAEnvironment().tasks("all")}
    for seed in (FIRST_SEED, last_seed("searchqa")):
        shown = SearchQADemos().world(seed).tasks("all")
        alike = [task for task in shown if task.instruction in own]
        assert len(alike) <= 0.005 * len(own)
        assert all(own[t.instruction][0] not in t.payload["answers"] for t in alike)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_no_game_of_the_environment_is_shown(level: int) -> None:
    own = {task.payload["content"] for task in AlfworldEnvironment(level=level).tasks("all")}
    for seed in (FIRST_SEED, last_seed("alfworld")):
        shown = AlfworldDemos().world(seed).tasks("all")
        assert own.isdisjoint(task.payload["content"] for task in shown)


@pytest.mark.parametrize("env", RECIPES)
def test_equal_seeds_give_equal_demonstrations(env: str) -> None:
    assert list(play(DEMOS[env], 1, 0)) == list(play(DEMOS[env], 1, 0))
    assert list(play(DEMOS[env], 1, 0)) != list(play(DEMOS[env], 1, 1))


@pytest.mark.parametrize("env", RECIPES)
def test_every_kind_of_decision_has_its_share_of_a_step(env: str) -> None:
    kinds = {demo.kind for demo in play(DEMOS[env], 1, 0)}
    assert kinds == set(recipe_for(env).rows_per_step) - {COPYING}


@pytest.mark.parametrize(("source", "least"), [(SearchQADemos(), 0.97), (AlfworldDemos(), 0.95)])
def test_without_errors_the_tasks_are_solved(source: Demonstrations, least: float) -> None:
    assert solved(without_errors(source), 300) >= least


def test_without_errors_every_product_is_right_and_bought() -> None:
    kinds: Counter[str] = Counter()
    bought = 0
    for demo in play(without_errors(WebShopDemos()), 1, 0):
        kinds[demo.kind] += 1
        bought += demo.reply == "click[buy now]"
    assert kinds["lacking"] == 0
    assert kinds["index"] == bought


def test_a_shopper_opens_wrong_products_and_returns() -> None:
    source = WebShopDemos(1.0, 1.0, 0.0, 0.0)
    replies = Counter(demo.reply for demo in play(source, 1, 0) if demo.kind == "lacking")
    assert replies["click[< prev]"] > 50
    assert replies.total() > 1.5 * replies["click[< prev]"]


@pytest.mark.parametrize("error", [each.name for each in fields(SearchQADemos)])
def test_each_error_of_a_searcher_shows(error: str) -> None:
    right = list(play(without_errors(FewQuestions()), 1, 0))
    wrong = list(play(FewQuestions(**{"early_answer": 0, "wrong_title": 0, error: 1.0}), 1, 0))
    same = set(right) & set(wrong)
    assert len(same) < len(right)
    if error == "whole_question":
        first = [demo for demo in wrong if demo.kind == "first"]
        assert all(d.messages[0].content.startswith(d.reply.split(" ", 1)[1]) for d in first)
    else:
        assert {d.reply for d in right if d.kind == "answer"} - {d.reply for d in wrong}


def test_a_searcher_writes_what_the_prompt_shows() -> None:
    """Queries and nearly all answers can be copied from the prompt."""
    demos = list(play(without_errors(FewQuestions()), 1, 0))
    for kind, least in (("first", 1.0), ("answer", 0.85)):
        chosen = [demo for demo in demos if demo.kind == kind]
        words = [(d.reply.split()[1:], set(_words(d.messages[0].content))) for d in chosen]
        copied = sum(set(_words(" ".join(reply))) <= shown for reply, shown in words)
        assert copied >= least * len(chosen)


def _words(text: str) -> list[str]:
    return [word.strip(".,;:?()") for word in text.split()]


def test_a_housekeeper_acts_on_what_the_prompt_shows() -> None:
    """Equal prompts, equal actions: nothing hidden decides."""
    known: dict[tuple[object, ...], str] = {}
    for demo in play(without_errors(AlfworldDemos()), 1, 0):
        assert known.setdefault(demo.messages, demo.reply) == demo.reply


@pytest.mark.parametrize("error", [each.name for each in fields(AlfworldDemos)])
def test_each_error_of_a_housekeeper_costs_turns(error: str) -> None:
    names = [each.name for each in fields(AlfworldDemos)]
    chance = 0.5 if error == "detour" else 1.0
    wrong = FewGames(**{name: chance if name == error else 0.0 for name in names})
    n_right = len(list(play(without_errors(FewGames()), 1, 0)))
    assert len(list(play(wrong, 1, 0))) > n_right
