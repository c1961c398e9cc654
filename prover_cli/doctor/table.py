"""The findings as a table for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.table import Table

from prover_cli.views.text import shown

Row = tuple[str, str, str]
"""What was looked at, how it is, and more about it."""
_UNITS = ("kB", "MB", "GB", "TB")


def table(facts: Mapping[str, Any]) -> Table:
    """The facts of `stages.doctor.run`."""
    view = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for name in ("what", "state", "about it"):
        view.add_column(name, overflow="fold")
    for row in _rows(facts):
        view.add_row(*map(shown, row))
    return view


def _rows(facts: Mapping[str, Any]) -> Iterator[Row]:
    yield from ((name, version or "-", "") for name, version in facts["versions"].items())
    yield from _devices(facts)
    for engine in facts["engines"]:
        about = "; ".join(filter(None, (engine["reason"], engine["install"])))
        yield f"engine {engine['name']}", _yes(engine["usable"]), about
    for extra in facts["extras"]:
        yield f"extra {extra['name']}", _yes(extra["installed"]), extra["install"] or ""
    for data in facts["data"]:
        yield f"data {data['env']}", data["source"], _place(data)
    for disk in facts["disks"]:
        about = f"{disk['folder']}"
        if disk["of"] == "cache":
            about += f", which holds {_size(facts['cache_bytes'])}"
        yield f"disk {disk['of']}", f"{_size(disk['free_bytes'])} free", about
    yield "policy", "", facts["policy"]
    for check in facts["generation"]:
        yield f"generation {check['engine']}", _yes(check["generates"]), _generation(check)


def _devices(facts: Mapping[str, Any]) -> Iterator[Row]:
    cpu = facts["cpu"]
    yield "cpu", f"{cpu['cores']} cores", _memory(cpu)
    for gpu in facts["gpus"]:
        about = f"{_memory(gpu)}, compute capability {gpu['compute_capability']}"
        yield "gpu", gpu["name"], about
    if facts["no_gpu"]:
        yield "gpu", "none", facts["no_gpu"]


def _memory(device: Mapping[str, Any]) -> str:
    total, free = device["memory_bytes"], device["free_memory_bytes"]
    if total is None:
        return "memory unknown"
    return f"{_size(total)} of memory" + ("" if free is None else f", {_size(free)} free")


def _place(data: Mapping[str, Any]) -> str:
    if data["variable"] is None:
        return ""
    return f"{data['variable']}={data['path']}" + ("" if data["problem"] is None else ": unusable")


def _generation(check: Mapping[str, Any]) -> str:
    if check["error"]:
        return str(check["error"])
    return (
        f"{check['tokens_per_second']:,.0f} tokens/s in {check['requests']} requests, "
        f"opened in {check['seconds_to_open']:.1f} s, log-probs finite, "
        f"{check['repeated']} of {check['requests']} seeds repeat"
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _size(n_bytes: float) -> str:
    power = min(int(math.log10(max(n_bytes, 1000)) / 3), len(_UNITS))
    return f"{n_bytes / 1000**power:.1f} {_UNITS[power - 1]}"
