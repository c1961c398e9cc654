"""What is true: facts about things known by small numbers, indexed by either argument."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable

Index = dict[int, tuple[int, ...]]
Fact = tuple[str, tuple[int, ...]]
Code = Callable[[str, tuple[int, ...]], int]

_NO_ONE: frozenset[int] = frozenset()
_NONE: Index = {}


class Facts:
    """Facts with one or two arguments. Values in an index are immutable, so copies are cheap.

    `key` is the exclusive or of the codes of all facts that can change: equal sets of facts have
    equal keys whatever the order of changes. `marks` are the predicates
    `not_p` to keep: such a fact is true from the time a true p is deleted until p is true again.
    """

    __slots__ = ("_code", "_marks", "by_first", "by_second", "key", "one")

    def __init__(self, code: Code, marks: frozenset[str] = frozenset()) -> None:
        self._code, self._marks = code, marks
        self.one: dict[str, frozenset[int]] = {}
        self.by_first: dict[str, Index] = {}
        self.by_second: dict[str, Index] = {}
        self.key = 0

    @classmethod
    def of(
        cls, facts: Iterable[Fact], keyed: Container[str], code: Code, marks: frozenset[str]
    ) -> Facts:
        """These facts; those of the `keyed` predicates count in the key."""
        new = cls(code, marks)
        one: dict[str, set[int]] = {}
        two: dict[str, set[tuple[int, ...]]] = {}
        for name, arguments in facts:
            if len(arguments) == 1:
                one.setdefault(name, set()).add(arguments[0])
            else:
                two.setdefault(name, set()).add(arguments)
        new.one = {name: frozenset(xs) for name, xs in one.items()}
        for name, pairs in two.items():
            new.by_first[name] = _index(pairs)
            new.by_second[name] = _index((y, x) for x, y in pairs)
        for name in (*one, *two):
            if name in keyed:
                for arguments in new.all_of(name):
                    new.key ^= code(name, arguments)
        return new

    def copy(self, dynamic: Iterable[str]) -> Facts:
        """A copy whose facts of the `dynamic` predicates can change independently."""
        other = Facts(self._code, self._marks)
        other.one = self.one.copy()
        other.by_first, other.by_second = self.by_first.copy(), self.by_second.copy()
        other.key = self.key
        for name in dynamic:
            if name in self.by_first:
                other.by_first[name] = self.by_first[name].copy()
                other.by_second[name] = self.by_second[name].copy()
        return other

    def members(self, name: str) -> frozenset[int]:
        """The x of all facts name(x)."""
        return self.one.get(name, _NO_ONE)

    def seconds(self, name: str, first: int) -> tuple[int, ...]:
        """The y of all facts name(first, y), ascending."""
        return self.by_first.get(name, _NONE).get(first, ())

    def firsts(self, name: str, second: int) -> tuple[int, ...]:
        """The x of all facts name(x, second), ascending."""
        return self.by_second.get(name, _NONE).get(second, ())

    def holds(self, name: str, *arguments: int) -> bool:
        """Whether the fact is true."""
        if len(arguments) == 1:
            return arguments[0] in self.one.get(name, _NO_ONE)
        return arguments[1] in self.by_first.get(name, _NONE).get(arguments[0], ())

    def all_of(self, name: str) -> list[tuple[int, ...]]:
        """The arguments of all facts of a predicate, sorted."""
        if name in self.one:
            return [(x,) for x in sorted(self.one[name])]
        index = self.by_first.get(name, _NONE)
        return [(x, y) for x in sorted(index) for y in index[x]]

    def add(self, name: str, *arguments: int) -> None:
        """Make a fact true."""
        if self.holds(name, *arguments):
            return
        self._insert(name, arguments)
        mark = f"not_{name}"
        if mark in self._marks and self.holds(mark, *arguments):
            self._remove(mark, arguments)

    def drop(self, name: str, *arguments: int) -> None:
        """Make a fact false; leaves its mark if it was true."""
        if not self.holds(name, *arguments):
            return
        self._remove(name, arguments)
        if f"not_{name}" in self._marks:
            self._insert(f"not_{name}", arguments)

    def patch(self, gone: Iterable[Fact], new: Iterable[Fact]) -> None:
        """Take away and add facts as they are: no marks follow."""
        for name, arguments in gone:
            self._remove(name, arguments)
        for name, arguments in new:
            self._insert(name, arguments)

    def difference(self, other: Facts, names: Iterable[str]) -> tuple[list[Fact], list[Fact]]:
        """The facts of some predicates that are true only here, and those true only there."""
        gone: list[Fact] = []
        new: list[Fact] = []
        for name in sorted(names):
            here, there = self.members(name), other.members(name)
            gone += [(name, (x,)) for x in sorted(here - there)]
            new += [(name, (x,)) for x in sorted(there - here)]
            ours, theirs = self.by_first.get(name, _NONE), other.by_first.get(name, _NONE)
            if ours == theirs:
                continue
            for x in sorted({*ours, *theirs}):
                mine, others = ours.get(x, ()), theirs.get(x, ())
                if mine is not others:
                    gone += [(name, (x, y)) for y in mine if y not in others]
                    new += [(name, (x, y)) for y in others if y not in mine]
        return gone, new

    def _insert(self, name: str, arguments: tuple[int, ...]) -> None:
        self.key ^= self._code(name, arguments)
        if len(arguments) == 1:
            self.one[name] = self.one.get(name, _NO_ONE) | {arguments[0]}
            return
        x, y = arguments
        _put(self.by_first.setdefault(name, {}), x, y)
        _put(self.by_second.setdefault(name, {}), y, x)

    def _remove(self, name: str, arguments: tuple[int, ...]) -> None:
        self.key ^= self._code(name, arguments)
        if len(arguments) == 1:
            self.one[name] = self.one[name] - {arguments[0]}
            return
        x, y = arguments
        _take(self.by_first[name], x, y)
        _take(self.by_second[name], y, x)


def _index(pairs: Iterable[tuple[int, ...]]) -> Index:
    values: dict[int, list[int]] = {}
    for key, value in sorted(pairs):
        values.setdefault(key, []).append(value)
    return {key: tuple(each) for key, each in values.items()}


def _put(index: Index, key: int, value: int) -> None:
    values = list(index.get(key, ()))
    insort(values, value)
    index[key] = tuple(values)


def _take(index: Index, key: int, value: int) -> None:
    values = index[key]
    place = bisect_left(values, value)
    rest = values[:place] + values[place + 1 :]
    if rest:
        index[key] = rest
    else:
        del index[key]
