"""Stage facts as compact tables: one per kind of stage, its variants side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from prover_cli.views.stats import Facts
from prover_cli.views.text import plain

_SHARES = ("_rate", "_share", "_interval", "_fraction")
_NAMED_SHARES = frozenset({"share_of_rollout_tokens", "pass_at_k"})
_NO_SHARES = frozenset({"reward_interval"})


def stats_view(facts: Mapping[str, Facts]) -> RenderableType:
    """The facts of `run_facts`; a column per variant and a row per fact."""
    tables: dict[str, list[str]] = {}
    for name in facts:
        tables.setdefault(name.partition("@")[0], []).append(name)
    return Group(*(_table(names, facts) for names in tables.values()))


def _table(names: Sequence[str], facts: Mapping[str, Facts]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column(Text(names[0].partition("@")[0]), overflow="fold")
    for name in names:
        table.add_column(Text(plain(name.partition("@")[2])), overflow="fold")
    columns = [dict(_rows(facts[name])) for name in names]
    for label in dict.fromkeys(label for column in columns for label in column):
        table.add_row(*(Text(cell) for cell in (label, *(c.get(label, "-") for c in columns))))
    return table


def _rows(facts: Facts, prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        label = prefix + plain(str(key)).replace("_", " ")
        if key == "estimators":
            for name, inner in value.items():
                yield from _rows(inner, f"{plain(name)}: ")
        elif key == "last_step" and value is not None:
            yield from _rows(value, "last step: ")
        else:
            yield label, _value(key, value)


def _value(key: str, value: Any) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, Mapping):
        return ", ".join(f"{plain(k)}: {_value(key, v)}" for k, v in value.items()) or "-"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(key, item) for item in value) + "]"
    if isinstance(value, float):
        return f"{value:.1%}" if _is_share(key) else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else plain(str(value))


def _is_share(key: str) -> bool:
    return key not in _NO_SHARES and (key in _NAMED_SHARES or key.endswith(_SHARES))
