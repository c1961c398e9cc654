"""What the documentation holds: fenced blocks, links, headings."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is that of its opening fence."""

    path: Path
    line: int
    language: str
    text: str

    @property
    def module(self) -> str | None:
        """The file name in the first line of a block that is a module of its own."""
        found = re.match(r"# (\w+\.py)\n", self.text)
        return found.group(1) if found else None


def documents() -> list[Path]:
    """Every page, the README where there is one."""
    readme = ROOT / "README.md"
    return sorted((ROOT / "docs").glob("*.md")) + ([readme] if readme.is_file() else [])


def blocks(path: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page in some languages, or all of them."""
    text = path.read_text(encoding="utf-8")
    found = (
        Block(path, text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2))
        for match in _FENCE.finditer(text)
    )
    return [block for block in found if not languages or block.language in languages]


def links(path: Path) -> Iterator[tuple[str, str]]:
    """Relative links outside fenced blocks: file (empty for this one) and anchor."""
    for target in _LINK.findall(_FENCE.sub("", path.read_text(encoding="utf-8"))):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield file, anchor


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def generator() -> ModuleType:
    """The script that makes the generated parts."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
