"""Rewrite the parts of the documentation that are generated from the code.

    python docs/generate.py            rewrite what is stale
    python docs/generate.py --check    change nothing; exit 1 and name the stale files

Generated parts stand between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from typer.main import get_command
from typer.models import ParameterInfo

from prover_cli.app import app
from prover_cli.shards.schema import TABLES, Table, stages_with

FOLDER = Path(__file__).parent
_VALUES: Mapping[Any, str] = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


def tables_part() -> str:
    """Every table of `shards.schema`, column by column."""
    return "\n\n".join(_table(table) for table in TABLES.values())


def commands_part() -> str:
    """Every command, option by option."""
    return "\n\n".join(_command(words, command) for words, command in commands())


PARTS: Mapping[str, tuple[str, Callable[[], str]]] = {
    "shards.md": ("tables", tables_part),
    "commands.md": ("commands", commands_part),
}


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """The root, every command and every subcommand, with the words that call it."""

    def walk(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield words, command
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk((*words, name), inner)

    return walk(("prover",), get_command(app))


def _table(table: Table) -> str:
    stages = stages_with(table.name)
    null = {True: "", False: "yes"}
    rows = [(f"`{c.name}`", f"`{_type(c.type)}`", null[c.required], c.doc) for c in table.columns]
    key = ", ".join(f"`{name}`" for name in table.key)
    head = f"### {table.name}\n\nKey: {key}. Written by: {', '.join(stages)}.\n\n"
    return head + _markdown(("column", "type", "null", "meaning"), rows)


def _type(dtype: Any) -> str:
    return re.sub(r"<\w+: ", "<", str(dtype))


def _command(words: Sequence[str], command: Any) -> str:
    text = f"### {' '.join(words)}\n\n{' '.join((command.help or '').split())}"
    rows = [_parameter(parameter, _declared(command)) for parameter in command.params]
    table = _markdown(("option", "value", "default", "variable", "meaning"), rows)
    return f"{text}\n\n{table}" if rows else text


def _declared(command: Any) -> dict[str, tuple[Any, ParameterInfo]]:
    """Type and declaration of each parameter, as the command's function states them."""
    hints = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
    found = {}
    for name, hint in hints.items():
        for part in get_args(hint):
            if isinstance(part, ParameterInfo):
                found[name] = (get_args(hint)[0], part)
    return found


def _parameter(parameter: Any, declared: dict[str, tuple[Any, ParameterInfo]]) -> tuple[str, ...]:
    option = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.name.upper()
    if parameter.name not in declared:
        return f"`{option}`", "", "", "", parameter.help or ""
    annotation, info = declared[parameter.name]
    unset = parameter.default is None or parameter.default is False
    default = "" if unset else f"`{parameter.default}`"
    variable = f"`{info.envvar}`" if info.envvar else ""
    return f"`{option}`", _value(annotation, info), default, variable, info.help or ""


def _value(annotation: Any, info: ParameterInfo) -> str:
    """What an option takes; empty for a flag."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)] or [annotation]
    if kinds[0] is bool:
        return ""
    several = get_args(kinds[0])
    name = _VALUES[several[0] if several else kinds[0]]
    low = "" if info.min is None else f" from {info.min:g}"
    high = "" if info.max is None else f" to {info.max:g}"
    return f"{name}{low}{high}" + (", repeatable" if several else "")


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    escaped = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def with_part(text: str, name: str, part: str) -> str:
    """`text` with the generated part `name` replaced; `ValueError` when it has no markers."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"no {begin} ... {end}")
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def stale(folder: Path = FOLDER) -> dict[Path, str]:
    """The files whose generated part is not what the code says, with their new text."""
    found = {}
    for file, (name, make) in PARTS.items():
        text = (folder / file).read_text(encoding="utf-8")
        new = with_part(text, name, make())
        if new != text:
            found[folder / file] = new
    return found


def main(arguments: Sequence[str]) -> int:
    """Rewrite stale files, or only name them with `--check`."""
    found = stale()
    for path, text in found.items():
        if "--check" in arguments:
            print(f"{path} is stale: run python docs/generate.py")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"rewrote {path}")
    return 1 if found and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
