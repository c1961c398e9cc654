"""The text grammar: how right hand sides are read and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from prover_cli.envs.alfworld import grammar as grammars
from prover_cli.envs.alfworld.expand import Expander, matches
from prover_cli.envs.alfworld.facts import Facts
from prover_cli.envs.alfworld.game import display_names, hash64
from prover_cli.envs.alfworld.grammar import Alternative, Grammar, parse, parse_condition
from prover_cli.errors import UsageError

IDS = ["a", "b", "c", "d"]
NAMES = ["ant 1", "bee 1", "cat 1", ""]


def _facts(*facts: tuple[str, ...]) -> Facts:
    numbered = ((name, tuple(IDS.index(x) for x in rest)) for name, *rest in facts)
    return Facts.of(numbered, set(), lambda name, values: hash64(f"{name}{values}"), frozenset())


def _say(
    rhs: str, *facts: tuple[str, ...], bound: Mapping[str, int] | None = None, **rules: Any
) -> str:
    basic = {"list_empty": "none", "list_separator": ", ", "list_last_separator": ", and "}
    given = {name: (Alternative((), parse(text)),) for name, text in basic.items()}
    given |= {
        name: tuple(Alternative(parse_condition(c), parse(t)) for c, t in alternatives)
        for name, alternatives in rules.items()
    }
    expander = Expander(Grammar(given, {}), IDS, NAMES)
    return expander.text(parse(rhs), _facts(*facts), bound or {})


@pytest.mark.parametrize(
    ("rhs", "said"),
    [
        ("", ""),
        ("  \n (is open)", "(is open)"),
        ("one  two\nthree ", "one  two\nthree "),
        ("abc; def", "abc"),
        ("abc] def", "abc"),
        ("abc} def", "abc"),
        ("abc <def>", "abc "),
        ('say "x" loud', "say x loud"),
        ('say "x', "say "),
        ("// all of this\n  but this", "but this"),
        ("not // a comment", "not // a comment"),
        ("abc #not closed", "abc "),
        ("{x | } y", ""),
    ],
)
def test_a_literal_is_read_as_the_official_reader_does(rhs: str, said: str) -> None:
    assert _say(rhs) == said


def test_tabs_between_elements_vanish_and_blanks_stay() -> None:
    assert _say("\t{x}\t{y} z\t", bound={"x": 0, "y": 1}) == "ant 1bee 1 z\t"


@pytest.mark.parametrize(
    ("rhs", "said"),
    [
        ("{x}", "ant 1"),
        ("{x.name}", "ant 1"),
        ("{x.id}", "a"),
        ("{x.indefinite} {x.name}", "a ant 1"),
        ("{x.indefinite + ' ' + x.name}", "a ant 1"),
        ("{x.definite + '_'}", "the_"),
        ("{y.name or y.id}", "d"),
        ("{y.name or 'it'}", "it"),
        ("{x.name or x.id}", "ant 1"),
    ],
)
def test_values(rhs: str, said: str) -> None:
    assert _say(rhs, bound={"x": 0, "y": 3}) == said


@pytest.mark.parametrize("rhs", ["{x.colour}", "{x.name * 2}", "{len(x)}", "{x | p(x) or q(x)}"])
def test_what_no_known_grammar_says_is_refused(rhs: str) -> None:
    with pytest.raises(UsageError, match="unknown"):
        parse(rhs)


def test_a_list_is_joined_and_an_empty_list_has_its_own_word() -> None:
    rhs = "[{x.name | p(x:object)}]"
    assert _say(rhs) == "none"
    assert _say(rhs, ("p", "b")) == "bee 1"
    assert _say(rhs, ("p", "b"), ("p", "a")) == "ant 1, and bee 1"
    assert _say(rhs, ("p", "b"), ("p", "c"), ("p", "a")) == "ant 1, bee 1, and cat 1"


def test_without_brackets_matches_are_put_together() -> None:
    assert _say("{x.id | p(x:object)}!", ("p", "b"), ("p", "a")) == "ab!"
    assert _say("<{x}>") == ""


def test_a_symbol_in_a_query_sees_the_match() -> None:
    rules = {"name(x)": [("", "{x.id}#mark(x)#")], "mark(x)": [("q(x:object)", " *"), ("", "")]}
    facts = (("p", "a"), ("p", "b"), ("q", "a"))
    assert _say("[{#name(x)# | p(x:object)}]", *facts, **rules) == "a*, and b"


def test_the_first_alternative_whose_condition_has_a_match_is_taken() -> None:
    rules = {"s": [("p(x:object)", "one"), ("q(x:object)", "two"), ("", "three")]}
    assert _say("#s#", ("q", "a"), **rules) == "two"
    assert _say("#s#", ("q", "a"), ("p", "b"), **rules) == "one"
    assert _say("#s#", **rules) == "three"


def test_a_condition_binds_nothing() -> None:
    rules = {"s": [("p(x:object)", "{x.name}")]}
    with pytest.raises(UsageError, match="stands for nothing"):
        _say("#s#", ("p", "a"), **rules)


def test_a_symbol_without_an_alternative_is_an_error() -> None:
    with pytest.raises(UsageError, match="#s#"):
        _say("#s#", s=[("p(x:object)", "one")])
    with pytest.raises(UsageError, match="#t#"):
        _say("#t#")


def test_matches_come_in_the_order_of_arguments_from_left_to_right() -> None:
    facts = _facts(("p", "c"), ("p", "a"), ("r", "a", "d"), ("r", "c", "b"), ("r", "a", "b"))
    found = list(matches(parse_condition("p(x:t) & r(x:t, y:t)"), facts, {}))
    assert found == [{"x": 0, "y": 1}, {"x": 0, "y": 3}, {"x": 2, "y": 1}]
    backwards = list(matches(parse_condition("r(x:t, y:t) & p(x:t)"), facts, {"y": 1}))
    assert [match["x"] for match in backwards] == [0, 2]


def test_two_variables_never_share_a_value() -> None:
    facts = _facts(("p", "a"), ("p", "b"), ("r", "a", "a"))
    pairs = list(matches(parse_condition("p(x:t) & p(y:t)"), facts, {}))
    assert pairs == [{"x": 0, "y": 1}, {"x": 1, "y": 0}]
    assert list(matches(parse_condition("p(x:t)"), facts, {"z": 0})) == [{"x": 1, "z": 0}]
    assert list(matches(parse_condition("r(x:t, y:t)"), facts, {})) == []


TEXT = '''
# a comment
grammar :: """ {"s": [{"rhs": "old"}], "task": [{"rhs": "Your task is to: sing."}]} """;
action Sing {
    feedback :: "#s#";  # order is free
    template :: "sing to {o}";
    grammar :: """
        {
            # dropped
            "s": [{"condition": "p(o:object)", "rhs": "new", "weight": 3}]
        }
    """;
}
'''


def test_blocks_are_merged_and_the_later_wins() -> None:
    grammar = grammars.read(TEXT)
    assert grammar.rules["s"] == (Alternative((("p", ("o",)),), ("new",)),)
    assert grammar.rules["task"] == (Alternative((), ("Your task is to: sing.",)),)
    assert set(grammar.actions) == {"sing"}
    assert grammar.predicates() == {"p"}


@pytest.mark.parametrize(
    ("cut", "paste"), [("action Sing {", "action {"), ('{"s"', "{s"), ("feedback", "feedbag")]
)
def test_a_damaged_grammar_is_a_usage_error(cut: str, paste: str) -> None:
    with pytest.raises(UsageError):
        grammars.read(TEXT.replace(cut, paste, 1))


def test_the_task_sentence_is_cut_where_the_official_reader_cuts_it() -> None:
    task = grammars.read(TEXT.replace("sing.", "sing; loudly.")).rules["task"]
    assert task == (Alternative((), ("Your task is to: sing",)),)


def test_names_count_down_and_basins_are_a_class_of_their_own() -> None:
    basins = ("sink_bar_1_bar_sinkbasin", "bathtub_bar_9_bar_bathtubbasin")
    ids = sorted([*basins, *(f"drawer_bar_{n}" for n in "123"), "agent1", "sink_bar_1"])
    assert dict(zip(ids, display_names(ids), strict=True)) == {
        "agent1": "agent1 ",
        "bathtub_bar_9_bar_bathtubbasin": "bathtubbasin 1",
        "drawer_bar_1": "drawer 3",
        "drawer_bar_2": "drawer 2",
        "drawer_bar_3": "drawer 1",
        "sink_bar_1": "sink 1",
        "sink_bar_1_bar_sinkbasin": "sinkbasin 1",
    }
