"""Which columns of turns and trajectories a built-in method reads.

A run of ten million turns is credited from a few of its columns: prompts, replies and observations
stay on the disk. A method of another package is shown all columns, as it does not say.
"""

from __future__ import annotations

from collections.abc import Iterable

from prover_cli.credit.base import Method
from prover_cli.credit.g2po import G2PO
from prover_cli.credit.gaca import GACA
from prover_cli.credit.gae import GAE
from prover_cli.credit.gigpo import GiGPO
from prover_cli.credit.graphgpo import GraphGPO
from prover_cli.credit.hgpo import HGPO
from prover_cli.credit.mt_grpo import MTGRPO
from prover_cli.credit.prover_chain import ProVerChain
from prover_cli.credit.spo_chain import SPOChain
from prover_cli.credit.tree_methods import SPOTree, TreeGRPO, TreeRL

KEY = ("traj_id", "turn", "group_id")
TRAJECTORY = ("traj_id", "group_id", "n_turns", "reward", "success", "n_action_tokens")
PARENT = ("parent_traj_id", "parent_turn")
_OWN = "prover_cli."


def turn_columns(methods: Iterable[Method]) -> list[str] | None:
    """The columns of turns that any of the methods reads; None: all of them."""
    methods = list(methods)
    if not all(_is_ours(method) for method in methods):
        return None
    more = sorted({name for method in methods for name in _beyond_key(method)})
    return [*KEY, *more]


def trajectory_columns(methods: Iterable[Method]) -> list[str] | None:
    """The columns of trajectories that any of the methods reads; None: all of them."""
    methods = list(methods)
    if not all(_is_ours(method) for method in methods):
        return None
    ends = ["stop_reason"] if any(isinstance(m, ProVerChain) for m in methods) else []
    return [*TRAJECTORY, *ends, *(PARENT if branching(methods) else ())]


def branching(methods: Iterable[Method]) -> bool:
    """Whether any of the methods compares the branches of trees."""
    return any(isinstance(method, TreeGRPO | TreeRL | SPOTree) for method in methods)


def _is_ours(method: Method) -> bool:
    return type(method).__module__.startswith(_OWN)


def _beyond_key(method: Method) -> set[str]:
    match method:
        case GiGPO():
            state = method.key if method.similarity is None else "observation"
            return {"reward", "action_valid", state}
        case GACA() | HGPO():
            return {"reward", "action_valid", method.key}
        case GraphGPO() | G2PO():
            return {"action_valid", method.key}
        case ProVerChain():
            return {"state_key"}
        case MTGRPO():
            return {"reward"}
        case GAE():
            return {"reward"} if method.pay == "step" else set()
        case SPOChain():
            return set() if method.prob_mask is None else {"logprobs"}
        case _:
            return set()
