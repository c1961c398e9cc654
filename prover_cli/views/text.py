"""Text from policies, environments and judges, made safe to print.

Such text goes into renderables as `rich.text.Text` made here and never as a string, because a
string may be read as markup: `[/INST]` would raise and `[bold]` would vanish. Every visible
character stays; what a terminal would obey instead of show is replaced by something that shows.
"""

from __future__ import annotations

import unicodedata

from rich.text import Text

MARK = "▌"
"""In front of every turn of the proposed segment, so that it shows without colours too."""
_CONTROL_PICTURES = 0x2400
_DELETE = 0x7F
_JOINERS = "\u200c\u200d"
"""Format characters that spell words and emoji; they stay."""
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def plain(text: str, *, lines: bool = False) -> str:
    """`text` with control and format characters shown instead of obeyed.

    ESC becomes `␛` and so on; characters without a picture become their escape, e.g. `\\x9b`.
    With `lines`, line feeds and tabs are kept and CR LF counts as a line feed.
    """
    if lines:
        text = text.replace("\r\n", "\n")
    return "".join(
        character if lines and character in "\n\t" else _shown(character) for character in text
    )


def shown(text: str, style: str = "", *, lines: bool = False) -> Text:
    """`plain(text)` as a renderable that wraps and never drops a character."""
    return Text(plain(text, lines=lines), style=style, overflow="fold")


def shortened(text: str, width: int) -> str:
    """One line of at most `width` characters; a cut is marked by an ellipsis."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"


def number(value: float | None, form: str) -> str:
    """A formatted number; null is shown as such."""
    return "n/a" if value is None else format(value, form)


def _shown(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return "␡"
    if unicodedata.category(character) in _HIDDEN and character not in _JOINERS:
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return character
