"""Printed text keeps every visible character and passes nothing that a terminal obeys."""

from __future__ import annotations

import io
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from prover_cli.views.text import plain, shortened, shown


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    assert plain("\x1b[31mred\x1b[0m\x07") == "␛[31mred␛[0m␇"
    assert plain("a\x7f\x9b2J") == "a␡\\x9b2J"
    assert plain("left\u202eright\u2028x") == "left\\u202eright\\u2028x"
    assert plain("one\ntwo\tx\r") == "one␊two␉x␍"


def test_lines_are_kept_where_they_are_wanted() -> None:
    assert plain("one\r\ntwo\tx\rthree", lines=True) == "one\ntwo\tx␍three"


def test_visible_text_is_unchanged() -> None:
    foreign = "gr\u00f6\u00dfe \u5c3a\u5bf8 \U0001f469\u200d\U0001f52c"
    for text in ("click[buy now]", "[/INST]", "[bold]", "\\[x]", foreign, "a  b", ":smile:"):
        assert plain(text) == text


@given(st.text())
def test_no_control_character_passes_and_no_visible_one_is_lost(text: str) -> None:
    for lines in (False, True):
        result = plain(text, lines=lines)
        kept = "\n\t" if lines else ""
        assert not [c for c in result if unicodedata.category(c) == "Cc" and c not in kept]
        visible = iter(result)
        letters = (c for c in text if unicodedata.category(c)[0] not in "CZ")
        assert all(c in visible for c in letters)


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Cc"]), max_size=60))
def test_rich_prints_it_as_it_is(text: str) -> None:
    output = io.StringIO()
    Console(width=10_000, file=output).print(shown(text))
    assert output.getvalue().removesuffix("\n") == plain(text)


def test_shortened_text_is_one_line_of_at_most_its_width() -> None:
    assert shortened("a\n b\x1b", 9) == "a b␛"
    assert shortened("abcdef", 4) == "abc…"
