"""WebShop as an environment: which data, which goals, which splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prover_cli.envs.base import PromptStyle, Task
from prover_cli.envs.panel import SPLITS, LazyTasks, Panel, make_task
from prover_cli.envs.webshop import expert, world
from prover_cli.envs.webshop.goals import MODES, Goal
from prover_cli.envs.webshop.nouns import TAGGERS, RecordedNouns, Tagger, choose
from prover_cli.envs.webshop.pages import PageState
from prover_cli.envs.webshop.prepare import generate_files, prepare
from prover_cli.envs.webshop.prompts import CompactStyle, ReactStyle, TagsStyle
from prover_cli.envs.webshop.session import WebShopSession
from prover_cli.envs.webshop.store import Catalogue
from prover_cli.errors import UsageError
from prover_cli.ids import digest

DEFAULT_PRODUCTS = 1000
OFFICIAL = MappingProxyType({"test": slice(0, 500), "valid": slice(500, 1500)})
"""Ranges of the shuffled goals in the official data; the rest is for training."""
HELD_OUT = MappingProxyType({"test": 0.15, "valid": 0.15})
"""Shares of the products whose goals are held out where the official ranges do not fit."""


class WebShopEnvironment:
    """WebShop on the official data (`data`) or on the generated catalogue.

    `goals` is human or synthetic; `products` limits the catalogue (default 1,000 when generated,
    all otherwise); `price_seed` decides hidden prices and price limits; `observation` is the
    official text or text_rich; `attributes_page` adds the official sub page of that name; `nouns`
    names the tagger of titles whose nouns are not recorded: auto, spacy or words (see `nouns`).
    """

    name = "webshop"
    max_turns = 15
    default_prompt = "compact"
    prompts: Mapping[str, PromptStyle] = MappingProxyType(
        {"compact": CompactStyle(), "tags": TagsStyle(), "react": ReactStyle()}
    )

    prepare = staticmethod(prepare)
    generate = staticmethod(generate_files)

    def __init__(
        self,
        *,
        data: str | None = None,
        goals: str = "human",
        products: int | None = None,
        observation: str = "text",
        price_seed: int = 0,
        catalogue_seed: int = 0,
        attributes_page: bool = False,
        nouns: str = "auto",
    ) -> None:
        _check_choice("goals", goals, MODES)
        _check_choice("observation", observation, ("text", "text_rich"))
        _check_choice("nouns", nouns, TAGGERS)
        if products is not None and products < 1:
            raise UsageError(f"webshop needs at least one product, not {products}")
        self._official = data is not None
        if data is None:
            catalogue = world.generated(products or DEFAULT_PRODUCTS, catalogue_seed)
        else:
            catalogue = world.official(Path(data), products)
        tagger, self._warning = _tagger(catalogue, nouns)
        self._shop = world.Shop(catalogue, world.tasks(catalogue, goals, price_seed), tagger)
        if not self._shop.goals:
            other = next(mode for mode in MODES if mode != goals)
            raise UsageError(f"the catalogue has no {goals} goals", hint=f"--goals {other}")
        self._rich = observation == "text_rich"
        self._attributes_page = attributes_page
        self.assets = {
            "catalogue": catalogue.hash,
            "tasks": self._shop.goals.hash,
            "title nouns": tagger.name,
            "search": world.SEARCH,
            "attributes page": "shown" if attributes_page else "hidden",
        }
        self.fingerprint = digest([self.name, self.assets])

    @property
    def shop(self) -> world.Shop:
        return self._shop

    def tasks(self, split: str) -> Panel:
        if split not in SPLITS:
            raise UsageError(f"no split {split!r}; splits: {', '.join(SPLITS)}")
        indices, note = self._splits
        chosen = range(len(self._shop.goals)) if split == "all" else indices[split]
        if self._warning:
            note += f"; {self._warning}"
        tasks = LazyTasks(chosen, lambda index: self._task(index, split))
        return Panel(tasks, note, self._shop.catalogue.summary["skipped"])

    @cached_property
    def _splits(self) -> tuple[Mapping[str, Sequence[int]], str]:
        n = len(self._shop.goals)
        if self._official and n > OFFICIAL["valid"].stop:
            ranges = {name: range(n)[part] for name, part in OFFICIAL.items()}
            ranges["train"] = range(OFFICIAL["valid"].stop, n)
            return ranges, "official ranges of the shuffled goals: test 0-499, valid 500-1499"
        return self._split_by_product(), (
            f"{n} goals are too few for the official ranges: split by product, "
            + ", ".join(f"{share:.0%} {name}" for name, share in HELD_OUT.items())
        )

    def _split_by_product(self) -> dict[str, list[int]]:
        """Goals of one product stay together, so that no split has seen another's products."""
        of_goals = self._shop.goals.asins()
        asins = list(dict.fromkeys(of_goals))
        n_test, n_valid = (round(len(asins) * HELD_OUT[name]) for name in ("test", "valid"))
        home = dict.fromkeys(asins, "train")
        home |= dict.fromkeys(asins[:n_test], "test")
        home |= dict.fromkeys(asins[n_test : n_test + n_valid], "valid")
        parts: dict[str, list[int]] = {"train": [], "valid": [], "test": []}
        for index, asin in enumerate(of_goals):
            parts[home[asin]].append(index)
        return parts

    def _task(self, index: int, split: str) -> Task:
        goal = self._shop.goals[index]
        return make_task(self.name, split, index, goal.text, goal.as_json(), self.fingerprint)

    def start(self, task: Task, seed: int) -> WebShopSession:
        return self._session(task, PageState())

    def restore(self, task: Task, snapshot: bytes) -> WebShopSession:
        return self._session(task, WebShopSession.state_of(snapshot))

    def _session(self, task: Task, state: PageState) -> WebShopSession:
        goal = _goal(task.payload)
        return WebShopSession(self._shop, goal, self._rich, self._attributes_page, state)

    def expert(self, task: Task, session: Any) -> str:
        return expert.next_action(self._shop, _goal(task.payload), session)


def _check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        known = f"{', '.join(choices[:-1])} or {choices[-1]}"
        raise UsageError(f"webshop's {option} can be {known}, not {value!r}")


def _tagger(catalogue: Catalogue, wanted: str) -> tuple[Tagger, str | None]:
    """The tagger for titles without recorded nouns, and what to warn of."""
    if not catalogue.summary["n_titles_without_nouns"]:
        return RecordedNouns(), None
    return choose(wanted)


def _goal(payload: Mapping[str, Any]) -> Goal:
    fields = dict(payload)
    fields["attributes"] = tuple(fields["attributes"])
    fields["options"] = tuple(o if isinstance(o, str) else tuple(o) for o in fields["options"])
    return Goal(**fields)
