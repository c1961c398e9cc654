"""The recipe of a starting policy: tokenizer, model, demonstrations, warm start."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prover_cli.envs.webshop.prompts import ALIASES
from prover_cli.errors import UsageError
from prover_cli.policies.alfworld_demos import AlfworldDemos
from prover_cli.policies.copying import KIND, copying_rows
from prover_cli.policies.demos import Demo, Demonstrations, play
from prover_cli.policies.searchqa_demos import SearchQADemos
from prover_cli.policies.tokenizer import FIRST_TEXT_ID, save_tokenizer, train_tokenizer
from prover_cli.policies.warm_start import Row, WarmStart, train
from prover_cli.policies.webshop_demos import WebShopDemos
from prover_cli.tokens.render import ChatRenderer

CALIBRATION_STEPS = 10


@dataclass(frozen=True)
class ModelSize:
    """A Qwen3 architecture with tied embeddings."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 32
    feed_forward: int = 384
    vocabulary: int = 1536
    """At most this many tokens; the texts may yield fewer."""
    context: int = 1024


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a starting policy; equal recipes give equal checkpoints on one
    machine and thread count."""

    env: str
    demos: Demonstrations
    rows_per_step: Mapping[str, int]
    """How many decisions of each kind (and exercises in copying) make up a training step."""
    steps: int
    worlds: int
    """How many worlds the demonstrations come from."""
    size: ModelSize = field(default_factory=ModelSize)
    single_tokens: tuple[str, ...] = ()
    """Texts that are one token wherever they occur."""
    seed: int = 0

    def as_json(self) -> dict[str, Any]:
        described = ("demos", "size", "rows_per_step", "single_tokens")
        plain = {key: value for key, value in vars(self).items() if key not in described}
        return plain | {
            "rows_per_step": dict(self.rows_per_step),
            "noise": asdict(self.demos),
            "size": asdict(self.size),
        }


_RECIPES = (
    Recipe(
        env="webshop",
        demos=WebShopDemos(),
        rows_per_step=MappingProxyType({"index": 6, "item": 5, "lacking": 4, "results": 5}),
        steps=2600,
        worlds=12,
        single_tokens=ALIASES,
    ),
    Recipe(
        env="searchqa",
        demos=SearchQADemos(),
        rows_per_step=MappingProxyType(
            {"first": 8, "search": 9, "again": 4, "answer": 13, "copy": 12}
        ),
        steps=1700,
        worlds=6,
        single_tokens=("search", "answer"),
    ),
    Recipe(
        env="alfworld",
        demos=AlfworldDemos(),
        rows_per_step=MappingProxyType({"search": 8, "take": 6, "carry": 6, "use": 4, "put": 4}),
        steps=350,
        worlds=4,
    ),
)
RECIPES: Mapping[str, Recipe] = MappingProxyType({recipe.env: recipe for recipe in _RECIPES})


def recipe_for(env: str) -> Recipe:
    """The recipe of an environment; `UsageError` when it has none."""
    if env not in RECIPES:
        raise UsageError(
            f"there is no recipe for a starting policy of {env}; there are: {', '.join(RECIPES)}"
        )
    return RECIPES[env]


def build(
    recipe: Recipe, out: Path, minutes: float | None, on_step: Callable[[int, int, float], None]
) -> int:
    """Make the checkpoint `out`; returns the number of training steps taken.

    With `minutes` the number of steps is chosen by the speed of the first few. `on_step` receives
    the step, the number of steps and the loss.
    """
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    demos = list(play(recipe.demos, recipe.worlds, recipe.seed))
    texts = (message.content for demo in demos for message in demo.messages)
    tokenizer = train_tokenizer(texts, recipe.size.vocabulary, recipe.single_tokens)
    save_tokenizer(tokenizer, out, recipe.size.context)
    renderer = ChatRenderer.load(out)
    rows = _rows(demos, renderer)
    if KIND in recipe.rows_per_step:
        rows[KIND] = copying_rows(FIRST_TEXT_ID, tokenizer.get_vocab_size() - 1, recipe.seed)
    config = _config(recipe.size, tokenizer.get_vocab_size(), renderer.im_end_id)
    steps = recipe.steps
    if minutes is not None:
        steps = _steps_in(minutes, _model(config, recipe.seed), rows, recipe)
    model = _model(config, recipe.seed)
    settings = WarmStart(recipe.rows_per_step, steps, seed=recipe.seed)
    train(model, rows, settings, lambda step, loss: on_step(step, steps, loss))
    model.to(torch.bfloat16).save_pretrained(out)
    return steps


def _rows(demos: Sequence[Demo], renderer: ChatRenderer) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = defaultdict(list)
    for demo in demos:
        reply = [*renderer.encode(demo.reply), renderer.im_end_id]
        rows[demo.kind].append(Row(renderer.prompt(demo.messages), reply))
    return rows


def _config(size: ModelSize, vocabulary: int, end_id: int) -> Any:
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=size.width,
        intermediate_size=size.feed_forward,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.head_size,
        max_position_embeddings=size.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end_id,
        pad_token_id=0,
    )


def _model(config: Any, seed: int) -> Any:
    import torch
    from transformers import Qwen3ForCausalLM

    torch.manual_seed(seed)
    make: Any = Qwen3ForCausalLM
    return make(config)


def _steps_in(minutes: float, model: Any, rows: Mapping[str, Sequence[Row]], recipe: Recipe) -> int:
    """The number of steps that fit, from the speed of a few on a model that is thrown away."""
    began = time.perf_counter()
    calibration = WarmStart(recipe.rows_per_step, CALIBRATION_STEPS, seed=recipe.seed)
    train(model, rows, calibration, lambda step, loss: None)
    per_step = (time.perf_counter() - began) / CALIBRATION_STEPS
    return max(int(minutes * 60 / per_step), CALIBRATION_STEPS)
