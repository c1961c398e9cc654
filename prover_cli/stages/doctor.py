"""`doctor`: whether this machine is ready, and what is missing where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prover_cli.config import EngineConfig
from prover_cli.doctor import machine, setup
from prover_cli.engines.select import NAMES
from prover_cli.envs.cache import cache_home
from prover_cli.errors import UsageError

Facts = dict[str, Any]
ROOM = 5 * 10**9
"""Bytes on a disk below which there is a warning."""


def run(config: EngineConfig, policy: Path) -> Facts:
    """Look at everything; the generation check opens the engine of `config` with `policy`.

    `auto` tries vllm where it can be used, then torch, until one generates. Raises `UsageError` for
    an engine that does not exist and for a policy that is none.
    """
    from prover_cli.doctor import generation

    if config.name not in NAMES:
        raise UsageError(f"there is no engine {config.name!r}; engines: {', '.join(NAMES)}")
    prompt = generation.prompt_of(policy)
    engines = setup.engines(config.device, config.servers)
    checks: list[Facts] = []
    for name in _to_try(config.name, engines):
        checks.append(generation.check(replace(config, name=name), policy, prompt))
        if checks[-1]["generates"]:
            break
    facts: Facts = {
        "versions": machine.versions(),
        "cpu": machine.processor(),
        **dict(zip(("gpus", "no_gpu"), machine.gpus(), strict=True)),
        "engines": engines,
        "extras": setup.extras(),
        "data": setup.data(),
        "disks": _disks(),
        "cache_bytes": machine.used_bytes(cache_home()),
        "policy": str(policy),
        "generation": checks,
        "ready": any(check["generates"] for check in checks),
    }
    return facts | {"warnings": _warnings(facts)}


def _to_try(name: str, engines: Sequence[Facts]) -> list[str]:
    """The named engine; for `auto` those of one's own machine that can be used."""
    if name != "auto":
        return [name]
    return [one["name"] for one in engines if one["usable"] and one["name"] in ("vllm", "torch")]


def _disks() -> list[Facts]:
    places = {"cache": cache_home(), "here": Path.cwd()}
    return [
        {"of": what, "folder": str(folder), "free_bytes": machine.free_bytes(folder)}
        for what, folder in places.items()
    ]


def _warnings(facts: Facts) -> list[str]:
    found = [
        f"{disk['free_bytes'] / 1e9:.1f} GB free at {disk['folder']}"
        for disk in facts["disks"]
        if disk["free_bytes"] < ROOM
    ]
    found += [f"{data['variable']}: {data['problem']}" for data in facts["data"] if data["problem"]]
    found += [
        f"engine {check['engine']}: {check['requests'] - check['repeated']} of "
        f"{check['requests']} replies differ when sampled again with the same seeds"
        for check in facts["generation"]
        if check["generates"] and check["repeated"] < check["requests"]
    ]
    if not facts["extras"]:
        found.append("the package is not installed, so no environment is known: pip install -e .")
    return found
