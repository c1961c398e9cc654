"""Starting policies are made reproducibly, from demonstrations that leak nothing."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prover_cli.envs.base import Message
from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.envs.webshop.prompts import ALIASES
from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.policies.demos import FIRST_CATALOGUE_SEED, Noise, demonstrations
from prover_cli.policies.muon import Muon, orthogonalise
from prover_cli.policies.recipe import ModelSize, build, recipe_for
from prover_cli.policies.shipped import shipped_policy
from prover_cli.policies.tokenizer import save_tokenizer, train_tokenizer
from prover_cli.tokens.render import ChatRenderer

TINY = replace(
    recipe_for("webshop"),
    steps=2,
    catalogues=1,
    size=ModelSize(layers=1, width=32, heads=2, kv_heads=1, head_size=16, feed_forward=32),
)


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> ChatRenderer:
    folder = tmp_path_factory.mktemp("tokenizer")
    texts = ["click[<I0>] red shirt, $19", "search page"] * 3
    save_tokenizer(train_tokenizer(texts, 400, ALIASES), folder, 128)
    return ChatRenderer.load(folder)


def test_equal_recipes_give_equal_policies(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert build(TINY, tmp_path / name, None, lambda *_: None) == 2
    assert policy_id(tmp_path / "one") == policy_id(tmp_path / "two")
    build(replace(TINY, seed=1), tmp_path / "other", None, lambda *_: None)
    assert policy_id(tmp_path / "other") != policy_id(tmp_path / "one")


def test_demonstrations_show_no_product_of_the_environment() -> None:
    environment = WebShopEnvironment()
    shown = WebShopEnvironment(catalogue_seed=FIRST_CATALOGUE_SEED)
    asins = {product.asin for product in environment.shop.catalogue}
    assert asins.isdisjoint(product.asin for product in shown.shop.catalogue)
    instructions = {task.instruction for task in environment.tasks("all")}
    seen = {m.content.split("\n")[0] for d in demonstrations(1, Noise(), 0) for m in d.messages}
    assert len(seen & instructions) <= 0.01 * len(instructions)


def test_demonstrations_without_noise_are_the_expert() -> None:
    demos = list(demonstrations(1, Noise(0, 0, 0, 0), 0))
    kinds = Counter(demo.kind for demo in demos)
    assert kinds["lacking"] == 0
    assert kinds["index"] == sum(demo.reply == "click[buy now]" for demo in demos)


def test_noise_makes_wrong_products_and_returns() -> None:
    demos = list(itertools.islice(demonstrations(1, Noise(1.0, 1.0, 0.0, 0.0), 0), 2000))
    replies = Counter(demo.reply for demo in demos if demo.kind == "lacking")
    assert replies["click[< prev]"] > 50
    assert replies.total() > 1.5 * replies["click[< prev]"]


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_one_token_wherever_it_stands(renderer: ChatRenderer, alias: str) -> None:
    (alone,) = renderer.encode(alias)
    assert alone in renderer.encode(f"click[{alias}]")
    assert renderer.decode(renderer.encode(f"click[{alias}]")) == f"click[{alias}]"


def test_the_chat_template_renders_what_the_renderer_does(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    shipped = shipped_policy("webshop")
    tokenizer = AutoTokenizer.from_pretrained(shipped)
    messages = [Message("system", "be brief"), Message("user", "results page 1\n<I0> a shirt $19")]
    expected = tokenizer.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in messages],
        add_generation_prompt=True,
        return_dict=False,
    )
    assert ChatRenderer.load(shipped).prompt(messages) == list(expected)


def test_the_shipped_policy_is_small_and_has_a_card() -> None:
    folder = shipped_policy("webshop")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 8 << 20
    card = (folder / "README.md").read_text()
    assert "prover policy init --env webshop" in card and "success_rate" in card


def test_an_environment_without_a_policy_is_named() -> None:
    with pytest.raises(UsageError, match="no starting policy ships for toy"):
        shipped_policy("toy")
    with pytest.raises(UsageError, match="no recipe"):
        recipe_for("toy")


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 16, 4), (1, 4, 16)])
def test_orthogonalised_matrices_have_singular_values_near_one(
    shape: tuple[int, int, int],
) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert ((values > 0.5) & (values < 1.4)).all()


def test_muon_minimises_a_quadratic() -> None:
    target = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    weight = torch.zeros(6, 4, requires_grad=True)
    optimizer = Muon([weight], lr=0.05)
    losses = []
    for step in range(200):
        optimizer.lr = 0.05 * (1 - step / 200)
        loss = ((weight - target) ** 2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.01 * losses[0]
