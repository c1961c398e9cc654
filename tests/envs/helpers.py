"""Ways through an environment that several tests take."""

from __future__ import annotations

import random

from prover_cli.envs.base import Task
from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.envs.webshop.session import WebShopSession

QUERIES = ("coffee table", "women's dresses", "red", "gluten free chips", "zzz", "the")


def open_item(env: WebShopEnvironment, task: Task) -> WebShopSession:
    """A session on the page of the goal's product."""
    session = env.start(task, 0)
    for _ in range(env.max_turns):
        if session.state.kind == "item" and session.state.asin == task.payload["asin"]:
            return session
        session.step(env.expert(task, session))
    raise AssertionError("the expert did not reach the goal's product")


def visit_every_kind(env: WebShopEnvironment, task: Task) -> list[WebShopSession]:
    """One session on each kind of page: index, results, item, sub pages, done."""
    index = env.start(task, 0)
    results = env.start(task, 0)
    results.step(env.expert(task, results))
    sessions = [index, results, open_item(env, task)]
    for label in ("description", "features", "reviews", "buy now"):
        session = open_item(env, task)
        assert session.step(f"click[{label}]").valid
        sessions.append(session)
    return sessions


def random_action(session: WebShopSession, generator: random.Random) -> str:
    """A search or a click, with options and products preferred to ways back."""
    clicks = [a for a in session.observe().admissible or () if a != "click[search]"]
    if not clicks or generator.random() < 0.05:
        return f"search[{generator.choice(QUERIES)}]"
    if generator.random() < 0.8:
        aside = ("click[back to search]", "click[< prev]", "click[next >]")
        clicks = [action for action in clicks if action not in aside] or clicks
    return generator.choice(clicks)
