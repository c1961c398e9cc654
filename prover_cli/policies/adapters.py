"""LoRA policies: a folder with an adapter of a base checkpoint that lies elsewhere.

Such a folder has `adapter_config.json` and `adapter_model.safetensors` as peft writes them, the
tokenizer files and chat template of its base, and no model of its own. `prover.json` says which
policy the base was, so that another checkpoint under the same path is noticed. Weights of an
adapter are float32 on disk: they are few, and small steps survive.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

from prover_cli.errors import UsageError
from prover_cli.ids import ADAPTER_CONFIG, ADAPTER_RECORD, ADAPTER_WEIGHTS, adapter_base, policy_id

_NAME = "default"
_PREFIX = "base_model.model."
"""What stands before the names of weights in the file; peft's wrapper, which is not kept here."""
_BASE_PATH = "base_model_name_or_path"


def is_adapter(folder: Path) -> bool:
    """Whether the folder holds an adapter and not a whole checkpoint."""
    return (folder / ADAPTER_CONFIG).is_file()


def base_of(folder: Path) -> Path:
    """The base checkpoint of an adapter; `UsageError` when it is gone or another policy by now."""
    return adapter_base(folder)[0]


def new_adapter(model: Any, rank: int) -> Any:
    """`model` with an untrained adapter of every linear layer but the output head, alpha 2 rank.

    The model is changed in place: its own weights no longer take gradients. It computes what it
    did before, since an untrained adapter adds nothing.
    """
    peft = _peft()
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.0,
        target_modules=_linear_layers(model),
        task_type="CAUSAL_LM",
    )
    return peft.get_peft_model(model, config, adapter_name=_NAME).get_base_model()


def attach(model: Any, folder: Path, trainable: bool) -> Any:
    """The base `model` with the adapter in `folder` in its layers, changed in place.

    Only the adapter's weights take gradients, and only if it is `trainable`. Raises `UsageError`
    when the adapter does not fit the model.
    """
    return _wrapped(model, folder, trainable).get_base_model()


def merge(model: Any, folder: Path) -> Any:
    """The base `model` with the adapter in `folder` added to its weights, in their precision."""
    return _wrapped(model, folder, trainable=False).merge_and_unload()


def save_new_adapter(model: Any, folder: Path, base: Path) -> None:
    """Write the adapter in `model` into `folder`, with the absolute path of `base`."""
    config = model.peft_config[_NAME].to_dict() | {_BASE_PATH: str(base.resolve())}
    _write(model, folder, config | {"inference_mode": True}, policy_id(base))


def save_adapter(model: Any, folder: Path, out: Path, source: Path) -> None:
    """Write the adapter in `model` as `source` has it: same configuration, same base.

    A relative path to the base stays one, from `out`: the place that `folder` will be moved to.
    """
    base, base_id = adapter_base(source)
    config = json.loads((source / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    if not Path(config[_BASE_PATH]).is_absolute():
        config[_BASE_PATH] = os.path.relpath(base, out.resolve())
    _write(model, folder, config, base_id)


def _write(model: Any, folder: Path, config: dict[str, Any], base_id: str) -> None:
    from safetensors.torch import save_file

    weights = {name: t.detach().float().cpu().contiguous() for name, t in _weights(model).items()}
    save_file(weights, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})
    plain = {key: sorted(v) if isinstance(v, set) else v for key, v in config.items()}
    for name, value in ((ADAPTER_CONFIG, plain), (ADAPTER_RECORD, {"base_policy_id": base_id})):
        text = json.dumps(value, indent=2, sort_keys=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def _weights(model: Any) -> dict[str, Any]:
    """The adapter's tensors under the names that they have in the file."""
    found = _peft().get_peft_model_state_dict(
        model, adapter_name=_NAME, save_embedding_layers=False
    )
    return {_PREFIX + name: tensor for name, tensor in found.items()}


def _wrapped(model: Any, folder: Path, trainable: bool) -> Any:
    from safetensors import SafetensorError, safe_open

    peft = _peft()
    kind = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8")).get("peft_type")
    if kind != "LORA":
        raise UsageError(f"{folder} is an adapter of the kind {kind}; only LORA can be used")
    device = str(next(model.parameters()).device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # missing weights are refused below
            wrapped = peft.PeftModel.from_pretrained(
                model, str(folder), _NAME, is_trainable=trainable, torch_device=device
            )
        with safe_open(folder / ADAPTER_WEIGHTS, framework="pt") as file:
            stored = set(file.keys())
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"{folder} does not fit its base: {error}") from error
    different = stored ^ _weights(wrapped.get_base_model()).keys()
    if different:
        raise UsageError(
            f"{folder} does not fit its base: {len(different)} weights are on one side only, "
            f"such as {min(different)}"
        )
    return wrapped


def _linear_layers(model: Any) -> list[str]:
    """The last parts of their names, as configurations of adapters list them."""
    import torch

    head = model.get_output_embeddings()
    names = {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head
    }
    if not names:
        raise UsageError(f"{type(model).__name__} has no linear layers for an adapter")
    return sorted(names)


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise UsageError(
            "LoRA adapters need peft, which is not installed",
            hint="pip install 'prover-cli[lora]'",
        ) from error
    return peft
