"""Starting policies are made reproducibly, are small, and say how they were made."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from prover_cli.envs.base import Message
from prover_cli.envs.webshop.prompts import ALIASES
from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.policies.recipe import RECIPES, build, recipe_for
from prover_cli.policies.shipped import shipped_policy
from prover_cli.policies.tokenizer import save_tokenizer, train_tokenizer
from prover_cli.tokens.render import ChatRenderer
from tests.starting.recipes import tiny

SHIPPED = ("webshop", "alfworld", "searchqa")


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> ChatRenderer:
    folder = tmp_path_factory.mktemp("tokenizer")
    texts = ["click[<I0>] red shirt, $19", "search page"] * 3
    save_tokenizer(train_tokenizer(texts, 400, ALIASES), folder, 128)
    return ChatRenderer.load(folder)


@pytest.mark.parametrize("env", RECIPES)
def test_equal_recipes_give_equal_policies(tmp_path: Path, env: str) -> None:
    for name in ("one", "two"):
        assert build(tiny(env), tmp_path / name, None, lambda *_: None) == 2
    assert policy_id(tmp_path / "one") == policy_id(tmp_path / "two")
    build(tiny(env, seed=1), tmp_path / "other", None, lambda *_: None)
    assert policy_id(tmp_path / "other") != policy_id(tmp_path / "one")


@pytest.mark.parametrize("env", RECIPES)
def test_a_recipe_can_be_read_in_json(env: str) -> None:
    recipe = recipe_for(env)
    described = json.loads(json.dumps(recipe.as_json()))
    assert described["noise"] == asdict(recipe.demos)
    assert described["size"] == asdict(recipe.size)
    assert described["env"] == env and described["worlds"] == recipe.worlds


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_one_token_wherever_it_stands(renderer: ChatRenderer, alias: str) -> None:
    (alone,) = renderer.encode(alias)
    assert alone in renderer.encode(f"click[{alias}]")
    assert renderer.decode(renderer.encode(f"click[{alias}]")) == f"click[{alias}]"


@pytest.mark.parametrize("env", SHIPPED)
def test_the_chat_template_renders_what_the_renderer_does(env: str) -> None:
    from transformers import AutoTokenizer

    shipped = shipped_policy(env)
    tokenizer = AutoTokenizer.from_pretrained(shipped)
    messages = [Message("system", "be brief"), Message("user", "results page 1\n<I0> a shirt $19")]
    expected = tokenizer.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in messages],
        add_generation_prompt=True,
        return_dict=False,
    )
    assert ChatRenderer.load(shipped).prompt(messages) == list(expected)


@pytest.mark.parametrize("env", SHIPPED)
def test_a_shipped_policy_is_small_and_its_card_tells_how_to_make_it(env: str) -> None:
    folder = shipped_policy(env)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2.5 * 1024**2
    card, recipe = (folder / "README.md").read_text(), recipe_for(env)
    command = re.search(r"prover policy init --env (\w+) --steps (\d+) --seed (\d+) --out", card)
    assert command is not None and "success_rate" in card
    assert command.groups() == (env, str(recipe.steps), str(recipe.seed))
    settings = json.loads(card.split("```json")[1].split("```")[0])
    same = recipe.as_json()
    for key in ("env", "steps", "seed", "noise", "size", "rows_per_step"):
        assert settings[key] == same[key]


def test_an_environment_without_a_policy_is_named() -> None:
    with pytest.raises(UsageError, match="no starting policy ships for toy"):
        shipped_policy("toy")
    with pytest.raises(UsageError, match="no recipe"):
        recipe_for("toy")
