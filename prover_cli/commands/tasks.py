"""`prover tasks`: what environments offer, and what they prepare or generate in advance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from prover_cli import console, options
from prover_cli.errors import ProverError

ABOUT = "Look at an environment's tasks; prepare its data, or generate some."
app = typer.Typer(no_args_is_help=True, help=ABOUT, rich_markup_mode=None)

Env = Annotated[str, typer.Argument(help="Environment.")]
Option = Annotated[
    list[str] | None, options.option("--env-option", help="Any other option: KEY=VALUE.")
]


@app.callback(help=ABOUT)
def main() -> None:
    pass


@app.command("show")
@console.guard
def show(
    env: Env = "webshop",
    split: Annotated[str, options.option("--split", help="train, valid, test or all.")] = "train",
    tasks: Annotated[
        int, options.option("--tasks", min=0, help="Tasks listed, from the first on.")
    ] = 10,
    data: options.EnvData = None,
    goals: options.Goals = None,
    products: options.Products = None,
    corpus: options.Corpus = None,
    env_option: Option = None,
    as_json_: options.AsJson = False,
) -> None:
    """Print a split: its size and hash, what was skipped, and its first tasks."""
    from prover_cli.stages import tasks as stage

    chosen = options.env_options(env, data, env_option, goals, products, corpus)
    facts = stage.show(env, chosen, split, tasks)
    if as_json_:
        console.data_json(facts)
        return
    for task in facts.pop("tasks"):
        console.data(f"{task['index']}  {task['task_id']}  {task['instruction']}")
    _talk(facts)


@app.command("prepare")
@console.guard
def prepare(
    env: Env,
    data: options.EnvData = None,
    goals: options.Goals = None,
    products: options.Products = None,
    corpus: options.Corpus = None,
    tag_titles: Annotated[
        bool, options.option("--tag-titles", help="WebShop: tag all titles now, not when bought.")
    ] = False,
    env_option: Option = None,
    as_json_: options.AsJson = False,
) -> None:
    """Build once what is derived from an environment's official data, so that it opens at once."""
    chosen = options.env_options(env, data, env_option, goals, products, corpus)
    _work(env, "prepare", chosen | ({"tag_titles": True} if tag_titles else {}), as_json_)


@app.command("generate")
@console.guard
def generate(
    env: Env,
    out: Annotated[Path, options.option("--out", help="New folder to write.")],
    products: options.Products = None,
    seed: options.Seed = 0,
    env_option: Option = None,
    as_json_: options.AsJson = False,
) -> None:
    """Write an environment's generated content in the official file formats."""
    chosen = options.env_options(None, None, env_option, products=products)
    _work(env, "generate", chosen | {"out": str(out), "seed": seed}, as_json_)


@app.command("verify")
@console.guard
def verify(
    env: Env,
    data: options.EnvData = None,
    games: Annotated[
        int | None,
        options.option("--games", min=1, help="Games drawn from each split; default: all."),
    ] = None,
    seed: options.Seed = 0,
    env_option: Option = None,
    as_json_: options.AsJson = False,
) -> None:
    """Play an environment's games in its official engine too; leaves with 1 if the two differ."""
    chosen = options.env_options(env, data, env_option) | {"seed": seed}
    facts = _work(env, "verify", chosen | ({} if games is None else {"games": games}), as_json_)
    if differences := facts["n_differences"]:
        raise ProverError(f"the engines of {env} differ in {differences} answers")


def _work(env: str, ability: str, chosen: Mapping[str, Any], as_json: bool) -> Mapping[str, Any]:
    from prover_cli.stages import tasks as stage

    with console.reporting() as reporter:
        facts = stage.work(env, ability, chosen, reporter)
    if as_json:
        console.data_json(facts)
        return facts
    _talk({name: value for name, value in facts.items() if name != "folder"})
    if "folder" in facts:
        console.data(facts["folder"])
    return facts


def _talk(facts: Mapping[str, Any]) -> None:
    """One line a fact; counts by name on one line; a list's parts below its name."""
    for name, value in facts.items():
        if isinstance(value, list):
            value = "".join(f"\n  {json.dumps(part, ensure_ascii=False)}" for part in value)
        if isinstance(value, Mapping):
            value = ", ".join(f"{key}: {part}" for key, part in value.items()) or "none"
        if value is not None:
            console.talk(f"{name.replace('_', ' ')}: {value}")
