"""Recipes small enough to be made within seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prover_cli.envs.alfworld.environment import AlfworldEnvironment
from prover_cli.envs.searchqa.environment import SearchQAEnvironment
from prover_cli.policies.alfworld_demos import AlfworldDemos
from prover_cli.policies.demos import Demonstrations
from prover_cli.policies.recipe import ModelSize, Recipe, recipe_for
from prover_cli.policies.searchqa_demos import SearchQADemos
from prover_cli.policies.webshop_demos import WebShopDemos

TINY = ModelSize(layers=1, width=32, heads=2, kv_heads=1, head_size=16, feed_forward=32)


@dataclass(frozen=True)
class FewQuestions(SearchQADemos):
    def world(self, seed: int) -> SearchQAEnvironment:
        return SearchQAEnvironment(seed=seed, size=200)


@dataclass(frozen=True)
class FewGames(AlfworldDemos):
    def world(self, seed: int) -> AlfworldEnvironment:
        return AlfworldEnvironment(seed=seed, games=6)


DEMOS: dict[str, Demonstrations] = {
    "webshop": WebShopDemos(),
    "searchqa": FewQuestions(),
    "alfworld": FewGames(),
}


def tiny(env: str, seed: int = 0) -> Recipe:
    return replace(recipe_for(env), demos=DEMOS[env], steps=2, worlds=1, size=TINY, seed=seed)
