"""The trainer's state beside a policy: what the optimizer really works on.

Steps of a small learning rate are lost when they are rounded to bfloat16, so a `trainer_state`
folder keeps `master.safetensors` (float32 weights), `moments.safetensors` (AdamW's step count and
two moments of every weight) and `state.json` (steps behind the weights, and the policy that the
state belongs to).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.training.checkpoint import replacing

_KEPT = ("step", "exp_avg", "exp_avg_sq")


def save_state(
    master: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
    steps: int,
    policy: str,
    out: Path,
) -> None:
    """Write the state that belongs to `policy`, replacing `out`."""
    moments = {
        f"{name}.{kept}": optimizer.state[parameter][kept].cpu().contiguous()
        for name, parameter in master.items()
        if parameter in optimizer.state
        for kept in _KEPT
    }
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in master.items()}
    with replacing(out) as folder:
        save_file(weights, folder / "master.safetensors")
        save_file(moments, folder / "moments.safetensors")
        (folder / "state.json").write_text(
            json.dumps({"policy_id": policy, "steps": steps}, indent=2) + "\n", encoding="utf-8"
        )


@torch.no_grad()
def restore_state(
    master: Mapping[str, Tensor], optimizer: torch.optim.Optimizer, folder: Path, source: Path
) -> int:
    """Put weights and moments from `folder` in place; returns the steps they have behind them.

    Raises `UsageError` when the state belongs to another policy than `source` is: its weights would
    silently replace the ones that were asked for.
    """
    hint = f"remove {folder} to start a fresh optimizer"
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        owner, steps = str(state["policy_id"]), int(state["steps"])
        present = policy_id(source)
        if owner != present:
            raise UsageError(
                f"{folder} belongs to policy {owner}, but {source} is {present}", hint=hint
            )
        weights = load_file(folder / "master.safetensors")
        moments = load_file(folder / "moments.safetensors")
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise UsageError(f"{folder} is not a usable trainer state: {error}", hint=hint) from error
    if not _fits(master, weights, moments):
        raise UsageError(f"the tensors in {folder} are not those of {source}", hint=hint)
    for name, parameter in master.items():
        parameter.copy_(weights[name])
    _restore_moments(master, optimizer, moments)
    return steps


def _fits(
    master: Mapping[str, Tensor], weights: Mapping[str, Tensor], moments: Mapping[str, Tensor]
) -> bool:
    """Whether every weight is there, in shape, and each one's moments are whole or absent."""
    shapes = {name: tensor.shape for name, tensor in master.items()}
    expected = {
        f"{name}.{kept}": torch.Size() if kept == "step" else shape
        for name, shape in shapes.items()
        if f"{name}.step" in moments
        for kept in _KEPT
    }
    return shapes == {name: tensor.shape for name, tensor in weights.items()} and expected == {
        name: tensor.shape for name, tensor in moments.items()
    }


def _restore_moments(
    master: Mapping[str, Tensor], optimizer: torch.optim.Optimizer, moments: Mapping[str, Tensor]
) -> None:
    """Fill the optimizer through its own loader, which puts every tensor on the right device."""
    name_of = {parameter: name for name, parameter in master.items()}
    order = [name_of[p] for group in optimizer.param_groups for p in group["params"]]
    state = {
        index: {kept: moments[f"{name}.{kept}"] for kept in _KEPT}
        for index, name in enumerate(order)
        if f"{name}.step" in moments
    }
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )
