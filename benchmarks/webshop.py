"""Speed and memory of WebShop sessions, beside rendering and parsing a web page at every step.

    python benchmarks/webshop.py [--products 1000 100000] [--episodes 150] [--sessions 5000]

The official engine renders each page as HTML and parses it again, for the text and for what can be
clicked. `official way` does this with the same pages (jinja2 and BeautifulSoup's html.parser) and
nothing else, so it is a lower bound of what that engine takes. Both take turns in one process; the
ratio of their best rounds is what counts.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable

import jinja2
from bs4 import BeautifulSoup

from prover_cli.envs.base import Task
from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.envs.webshop.session import WebShopSession

ROUNDS, SEARCHES = 3, 100
PAGE = jinja2.Environment(autoescape=True).from_string(
    """<!DOCTYPE html><html><head><link rel="stylesheet" href="/static/style.css"></head>
<body><div class="container py-5"><div class="row top-buffer">
{% for piece in pieces %}<div class="col-sm-6 text">
{% if piece.button %}<form method="post" action="/a/{{ loop.index }}"><button type="submit"
class="btn btn-primary">{{ piece.text }}</button></form>{% else %}<h4>{{ piece.text }}</h4>
{% endif %}</div>
{% endfor %}</div></div></body></html>"""
)


def walk(env: WebShopEnvironment, task: Task, visit: Callable[[WebShopSession], None]) -> int:
    """One episode of the expert, with a look at a sub page on the way; the number of steps."""
    session, steps = env.start(task, 0), 0
    for _ in range(env.max_turns):
        action = env.expert(task, session)
        looked = action == "click[buy now]" and session.step("click[features]").valid
        if looked:
            visit(session)
            session.step("click[< prev]")
            visit(session)
        result = session.step(action)
        visit(session)
        steps += 1 + 2 * looked
        if result.done:
            break
    return steps


def official_way(session: WebShopSession) -> None:
    """Render the page, parse it for its text, parse it again for its buttons."""
    html = PAGE.render(pieces=session.page.pieces())
    " [SEP] ".join(BeautifulSoup(html, "html.parser").find_all(string=True))
    [b.get_text() for b in BeautifulSoup(html, "html.parser").find_all(class_="btn")]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def steps_beside_the_official_way(env: WebShopEnvironment, tasks: list[Task]) -> None:
    steps = sum(walk(env, task, lambda session: None) for task in tasks)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(seconds(lambda: [walk(env, t, lambda session: None) for t in tasks]))
        theirs.append(seconds(lambda: [walk(env, t, official_way) for t in tasks]) - ours[-1])
    print(
        f"  step        {1e6 * min(ours) / steps:8.0f} us ({steps / min(ours):,.0f} a second); "
        f"the official way's page alone {min(theirs) / min(ours):.1f} x as long"
    )


def small_operations(env: WebShopEnvironment, tasks: list[Task]) -> None:
    task = tasks[0]
    sessions: list[tuple[Task, bytes]] = []
    for task in tasks:
        walk(env, task, lambda session, task=task: sessions.append((task, session.snapshot())))  # type: ignore[misc]
    started = min(seconds(lambda: [env.start(t, 0) for t in tasks]) for _ in range(ROUNDS))
    restored = min(seconds(lambda: [env.restore(*s) for s in sessions]) for _ in range(ROUNDS))
    size = sum(len(snapshot) for _, snapshot in sessions) / len(sessions)
    print(f"  reset       {1e6 * started / len(tasks):8.0f} us")
    print(f"  restore     {1e6 * restored / len(sessions):8.0f} us from {size:.0f} bytes")


def searches(env: WebShopEnvironment) -> None:
    panel = env.tasks("all").draw(SEARCHES, 1)
    queries = [task.instruction for task in panel]
    new = [seconds(lambda q=query: env.shop.search(q)) for query in queries]  # type: ignore[misc]
    again = [seconds(lambda q=query: env.shop.search(q)) for query in queries]  # type: ignore[misc]
    print(
        f"  search      {1e6 * statistics.median(new):8.0f} us (median), "
        f"{1e6 * statistics.median(again):.1f} us when it was asked before"
    )


def memory(env: WebShopEnvironment, tasks: list[Task], n_sessions: int) -> None:
    """Sessions in the middle of an episode, on pages that are already in memory."""
    generator = random.Random(0)
    drawn = [generator.choice(tasks) for _ in range(n_sessions)]

    def begun(task: Task) -> WebShopSession:
        session = env.start(task, 0)
        for _ in range(3):
            session.step(env.expert(task, session))
        return session

    [begun(task) for task in tasks]
    tracemalloc.start()
    kept = [begun(task) for task in drawn]
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"  memory      {used / len(kept):8.0f} bytes for another session")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--episodes", type=int, default=150)
    parser.add_argument("--sessions", type=int, default=5000, help="of which memory is measured")
    arguments = parser.parse_args()
    for n_products in arguments.products:
        built = seconds(lambda n=n_products: WebShopEnvironment(products=n))  # type: ignore[misc]
        opened = seconds(lambda n=n_products: WebShopEnvironment(products=n))  # type: ignore[misc]
        env = WebShopEnvironment(products=n_products)
        tasks = list(env.tasks("train").draw(arguments.episodes, 0))
        print(f"{n_products:,} products: made in {built:.1f} s, opened in {1000 * opened:.0f} ms")
        steps_beside_the_official_way(env, tasks)
        small_operations(env, tasks)
        searches(env)
        memory(env, tasks, arguments.sessions)


if __name__ == "__main__":
    main()
