"""docs/credit.md lists every method and every knob, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from prover_cli.credit import registry
from prover_cli.credit.base import Reason

PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("credit.md", "method.md")]
TEXT = PAGES[0].read_text(encoding="utf-8")


def table(header: str) -> list[list[str]]:
    """The cells of the rows of all tables whose header begins so."""
    found = re.findall(rf"^\| {re.escape(header)}.*\n\| --- .*\n((?:\| .*\n)+)", TEXT, re.MULTILINE)
    return [
        [cell.strip() for cell in line.strip("|\n ").split(" | ")]
        for rows in found
        for line in rows.splitlines()
    ]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_method_is_listed_once() -> None:
    listed = [name for row in table("method | advantage") for name in codes(row[0])]
    assert sorted(listed) == registry.names()


def test_the_listed_knobs_are_the_real_ones() -> None:
    listed = {
        name: codes(row[1])[0].split() if codes(row[1]) else []
        for row in table("estimator | knobs")
        for name in codes(row[0])
    }
    assert listed == {name: registry.knob_names(name) for name in registry.names()}


def test_every_reason_is_explained() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [reason for reason in Reason if f"| `{reason}`" not in text]
    assert missing == []


def test_approximate_methods_say_so_in_their_modules() -> None:
    folder = Path(registry.__file__).parent
    marked = {
        path.stem
        for path in folder.glob("*.py")
        if "approximate" in path.read_text().split('"""')[1]
    }
    listed = {
        codes(row[0])[0].replace("-", "_")
        for row in table("method | advantage")
        if row[-1] == "approximate"
    }
    assert marked == listed
