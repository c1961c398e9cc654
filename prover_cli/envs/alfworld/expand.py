"""From symbols to sentences: expanding a grammar over the facts that hold now.

A query's condition is matched from left to right. For each atom its true facts are tried in the
order of their arguments, and two variables never share a value, not even with a parameter of the
action being answered. The order of the matches is the order of every list in a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prover_cli.envs.alfworld.facts import Facts
from prover_cli.envs.alfworld.grammar import Condition, Element, Grammar, Query, Symbol, Value
from prover_cli.errors import UsageError

Bindings = Mapping[str, int]
"""Variables and the numbers of the things they stand for."""


class Expander:
    """A grammar with the names of the things it speaks of."""

    def __init__(self, grammar: Grammar, ids: Sequence[str], names: Sequence[str]) -> None:
        self._rules = grammar.rules
        self._ids, self._names = ids, names

    def text(self, elements: Sequence[Element], facts: Facts, bound: Bindings) -> str:
        """The text of a right hand side."""
        parts: list[str] = []
        for element in elements:
            if isinstance(element, str):
                parts.append(element)
            elif isinstance(element, Symbol):
                parts.append(self.symbol(element.name, facts, bound))
            else:
                parts.append(self._query(element, facts, bound))
        return "".join(parts)

    def symbol(self, name: str, facts: Facts, bound: Bindings) -> str:
        """The text of the first alternative that applies. Its condition only tests."""
        for alternative in self._rules.get(name, ()):
            condition = alternative.condition
            if not condition or any(True for _ in matches(condition, facts, bound)):
                return self.text(alternative.text, facts, bound)
        raise UsageError(f"the game's grammar says nothing for #{name}#")

    def _query(self, query: Query, facts: Facts, bound: Bindings) -> str:
        what = query.what
        found = matches(query.given, facts, bound) if query.given else (bound,)
        if isinstance(what, Symbol):
            items = [self.symbol(what.name, facts, each) for each in found]
        else:
            items = [self._value(what, each) for each in found]
        if not query.listed:
            return "".join(items)
        if len(items) > 1:
            comma = self.symbol("list_separator", facts, bound)
            last = self.symbol("list_last_separator", facts, bound)
            return comma.join(items[:-1]) + last + items[-1]
        return items[0] if items else self.symbol("list_empty", facts, bound)

    def _value(self, value: Value, bound: Bindings) -> str:
        text = ""
        for terms in value.choices:
            text = "".join([self._term(variable, what, bound) for variable, what in terms])
            if text:
                break
        return text

    def _term(self, variable: str, what: str, bound: Bindings) -> str:
        if not variable:
            return what
        if variable not in bound:
            raise UsageError(f"the game's grammar names {variable}, which stands for nothing here")
        if what == "name":
            return self._names[bound[variable]]
        if what == "id":
            return self._ids[bound[variable]]
        return "a" if what == "indefinite" else "the"


def matches(condition: Condition, facts: Facts, bound: Bindings) -> Iterable[Bindings]:
    """All ways of making a condition true, in order."""
    (name, variables), rest = condition[0], condition[1:]
    found = _single(name, variables, facts, bound)
    if not rest:
        return found
    return (extended for first in found for extended in matches(rest, facts, first))


def _single(
    name: str, variables: tuple[str, ...], facts: Facts, bound: Bindings
) -> Sequence[Bindings]:
    """The bindings that make one atom true, sorted by its arguments."""
    x = variables[0]
    first = bound.get(x)
    taken = bound.values()
    if len(variables) == 1:
        members = facts.members(name)
        if first is None:
            return [{**bound, x: v} for v in sorted(members) if v not in taken]
        return (bound,) if first in members else ()
    y = variables[1]
    second = bound.get(y)
    if first is not None:
        found = facts.seconds(name, first)
        if second is None:
            return [{**bound, y: v} for v in found if v not in taken]
        return (bound,) if second in found else ()
    if second is not None:
        return [{**bound, x: v} for v in facts.firsts(name, second) if v not in taken]
    return [
        {**bound, x: v, y: w}
        for v, w in facts.all_of(name)
        if v not in taken and w not in taken and (v == w) == (x == y)
    ]
