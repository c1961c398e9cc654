"""Credit methods by name, including those that other packages add.

A name with `@paper` or `@code` says which of two published forms it is. A package adds a method
with an entry point in the group `prover.estimators` whose value is a frozen dataclass (or a
`partial` of one) that is an `Estimator` or `RunScoped`; its fields are the knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from importlib.metadata import entry_points
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from prover_cli.credit.agentopsd import AgentOPSD
from prover_cli.credit.base import Method
from prover_cli.credit.carl import CARL
from prover_cli.credit.controls import Constant, JudgeOnly
from prover_cli.credit.criticsearch import CriticSearch
from prover_cli.credit.cw_grpo import CWGRPO
from prover_cli.credit.filters import DynamicSampling, StarPOS
from prover_cli.credit.g2po import G2PO
from prover_cli.credit.gaca import GACA
from prover_cli.credit.gae import GAE
from prover_cli.credit.gigpo import GiGPO
from prover_cli.credit.gpg import GPG
from prover_cli.credit.graphgpo import GraphGPO
from prover_cli.credit.group_relative import GroupRelative
from prover_cli.credit.hcapo import HCAPO
from prover_cli.credit.hgpo import HGPO
from prover_cli.credit.mt_grpo import MTGRPO
from prover_cli.credit.pivoarl import PivoARL
from prover_cli.credit.prover import ProVer
from prover_cli.credit.prover_chain import ProVerChain
from prover_cli.credit.reinforce import ReinforcePlusPlus
from prover_cli.credit.sharpo import SHARPO
from prover_cli.credit.spo_chain import SPOChain
from prover_cli.credit.tree_methods import SPOTree, TreeGRPO, TreeRL
from prover_cli.credit.triage import Triage
from prover_cli.credit.vineppo import VinePPO
from prover_cli.credit.vppo import VPPO
from prover_cli.errors import UsageError

_GROUP = "prover.estimators"

_BUILT_IN: Mapping[str, Callable[..., Method]] = {
    # From rollouts.
    "grpo": partial(GroupRelative, norm="mean"),
    "grpo-std": partial(GroupRelative, norm="std"),
    "dr-grpo": partial(GroupRelative, norm="mean"),
    "rloo": partial(GroupRelative, norm="rloo"),
    "maxrl": partial(GroupRelative, norm="maxrl"),
    "search-r1": partial(GroupRelative, norm="std"),
    "reinforce++": partial(ReinforcePlusPlus, baseline=False),
    "reinforce++-baseline": partial(ReinforcePlusPlus, baseline=True),
    "gpg": GPG,
    "dapo": DynamicSampling,
    "ragen": StarPOS,
    "gigpo": GiGPO,
    "gigpo@code": partial(GiGPO, across_steps=True, penalty=0.1),
    "hgpo": HGPO,
    "graphgpo@paper": partial(GraphGPO, cost=1.0, across_steps=False),
    "graphgpo@code": partial(GraphGPO, cost=0.0, across_steps=True),
    "g2po": partial(G2PO, across_steps=False),
    "g2po@code": partial(G2PO, across_steps=True),
    "mt-grpo": MTGRPO,
    # With judge labels.
    "criticsearch": CriticSearch,
    "cw-grpo": CWGRPO,
    "vppo": VPPO,
    "triage": Triage,
    "prover-judge-only": JudgeOnly,
    # With continuations, and the control for them.
    "prover": ProVer,
    "prover-chain": ProVerChain,
    "constant": Constant,
    "vineppo": VinePPO,
    "spo-chain": SPOChain,
    "carl": CARL,
    "pivoarl": PivoARL,
    "tree-grpo@paper": partial(TreeGRPO, form="paper"),
    "tree-grpo@code": partial(TreeGRPO, form="code"),
    "treerl": TreeRL,
    "spo-tree": SPOTree,
    # With a scoring pass.
    "gaca": GACA,
    "sharpo": SHARPO,
    "agentopsd@paper": partial(AgentOPSD, prior="group"),
    "agentopsd@code": partial(AgentOPSD, prior="half"),
    "hcapo": HCAPO,
    # With a value column.
    "gae": GAE,
    "steppo": GAE,
    "actor-critic": partial(GAE, lambda_=0.0),
}


def names() -> list[str]:
    """Registered estimator names, sorted."""
    return sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=_GROUP))})


def make(name: str, **knobs: Any) -> Method:
    """An estimator with its knobs set; `UsageError` for an unknown name or knob."""
    factory = _BUILT_IN.get(name) or _external(name)
    _check_values(name, factory, knobs)
    unknown = sorted(set(knobs) - set(knob_names(name)))
    if unknown and knob_names(name):
        raise UsageError(
            f"estimator {name} has no knob {', '.join(unknown)}; "
            f"it has: {', '.join(knob_names(name))}"
        )
    try:
        return factory(**knobs)
    except TypeError as error:
        raise UsageError(
            f"estimator {name}: {error}; it has: {', '.join(knob_names(name)) or 'no knobs'}"
        ) from None


def _check_values(name: str, factory: Callable[..., Method], knobs: Mapping[str, Any]) -> None:
    """`UsageError` for a value that a knob's type does not allow."""
    hints = get_type_hints(factory.func if isinstance(factory, partial) else factory)
    for knob, value in knobs.items():
        try:
            TypeAdapter(hints.get(knob, Any)).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise UsageError(f"estimator {name}: {knob}={value!r}: {reason}") from None


def knob_names(name: str) -> list[str]:
    """The knobs an estimator takes."""
    factory = _BUILT_IN.get(name) or _external(name)
    target = factory.func if isinstance(factory, partial) else factory
    fixed = set(factory.keywords) if isinstance(factory, partial) else set()
    if not (isinstance(target, type) and is_dataclass(target)):
        return []
    return [item.name for item in fields(target) if item.name not in fixed]


def split_knobs(names: Sequence[str], knobs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Which knobs each of several estimators gets.

    `KEY` goes to every one that has it, `NAME.KEY` to that one only, before the former. Raises
    `UsageError` for a knob that none has.
    """
    taken = {name: knob_names(name) for name in names}
    own: dict[str, dict[str, Any]] = {name: {} for name in names}
    for knob in sorted(knobs, key=lambda knob: "." in knob):
        name, dot, key = knob.rpartition(".")
        takers = [one for one in names if key in taken[one] and (not dot or one == name)]
        if not takers:
            known = sorted({key for keys in taken.values() for key in keys})
            raise UsageError(f"no knob {knob} in {', '.join(names)}; they have: {', '.join(known)}")
        for one in takers:
            own[one][key] = knobs[knob]
    return own


def needs(name: str) -> frozenset[str]:
    """The tables an estimator cannot do without."""
    return make(name).needs


def _external(name: str) -> Callable[..., Method]:
    found = [entry for entry in entry_points(group=_GROUP) if entry.name == name]
    if not found:
        raise UsageError(f"there is no estimator called {name!r}; known: {', '.join(names())}")
    factory: Callable[..., Method] = found[0].load()
    return factory
