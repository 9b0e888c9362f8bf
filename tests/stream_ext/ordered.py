"""Questions whose answers depend on the order in which elements came, and what is true of them.

A question is generated as a tree that says both its text and its solutions. A solution has its bindings and the places
of the triples that it is made of, in the order of the text: the time of the element, the number of its arrival, the
triple's number in the element. It stands at the latest of them, then where all of them say, then by terms. No code is
shared with the engine."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf

from tests.stream_ext.scene import EX, Bag, Oracle, Push, Scene, Triple, random_scene
from tests.stream_ext.timing_model import Element, EmittedAt

Place = tuple[float, int, int]
NOWHERE: Place = (-inf, 0, 0)

Bindings = dict[str, str]
#: Of a triple: where it came last.
Content = Mapping[Triple, Place]


@dataclass(frozen=True)
class Solution:
    bindings: Bindings
    places: tuple[Place, ...] = ()

    def fits(self, other: Solution) -> bool:
        return all(other.bindings.get(name, value) == value for name, value in self.bindings.items())

    def with_(self, other: Solution) -> Solution:
        return Solution(self.bindings | other.bindings, self.places + other.places)

    def padded(self, width: int) -> Solution:
        return Solution(self.bindings, self.places + (NOWHERE,) * (width - len(self.places)))

    @property
    def order(self) -> tuple[Place, ...]:
        return (max(self.places, default=NOWHERE), *self.places)


@dataclass(frozen=True)
class World:
    windows: Mapping[str, Content]
    merged: Content  # of C-SPARQL
    stored: frozenset[Triple]  # the default graph


@dataclass(frozen=True)
class Part:
    """`text` stands in a group; `width`: of how many triples of streams its solutions are made, at most."""

    text: str
    names: frozenset[str]
    width: int
    solutions: Callable[[World], list[Solution]]


def matched(pattern: Triple, content: Content, width: int) -> list[Solution]:
    found = []
    for triple, place in content.items():
        bindings: Bindings = {}
        for asked, term in zip(pattern, triple, strict=True):
            if asked.startswith("?"):
                if bindings.setdefault(asked[1:], term) != term:
                    break
            elif asked != term:
                break
        else:
            found.append(Solution(bindings, (place,)[:width]))
    return found


def joined(left: Sequence[Solution], right: Sequence[Solution]) -> list[Solution]:
    return [a.with_(b) for a, b in product(left, right) if a.fits(b)]


def _names(pattern: Triple) -> frozenset[str]:
    return frozenset(part[1:] for part in pattern if part.startswith("?"))


def _full(word: str) -> str:
    return f"<{EX}{word[1:]}>" if word.startswith(":") else word


class Maker:
    """Makes parts at random."""

    def __init__(self, chance: random.Random, windows: Sequence[str], merged: bool) -> None:
        self._chance, self._windows, self._merged = chance, windows, merged

    def part(self, depth: int) -> Part:
        if not depth:
            return self._chance.choice([self._block, self._block, self._block, self._stored, self._path])()
        kinds = [self._both, self._both, self._optional, self._either, self._minus, self._absent]
        kinds += [self._distinct, self._grouped, self._limited, self._plain]
        return self._chance.choice(kinds)(depth - 1)

    def _triple(self) -> Triple:
        a, b = self._chance.sample(["?a", "?b", "?c", "?d"], 2)
        if self._chance.random() < 0.2:
            b = self._chance.choice([":n1", ":n2"])
        return (a, self._chance.choice([":p", ":p", ":p", ":v"]), b)

    def _block(self) -> Part:
        patterns = [self._triple() for _ in range(self._chance.choice([1, 1, 2, 3]))]
        window = self._chance.choice(self._windows)

        def solutions(world: World) -> list[Solution]:
            found = [Solution({})]
            content = world.merged if self._merged else world.windows[window]
            for s, p, o in patterns:
                found = joined(found, matched((_full(s), _full(p), _full(o)), content, 1))
            return found

        text = " . ".join(map(" ".join, patterns))
        names = frozenset[str]().union(*map(_names, patterns))
        return Part(self._inside(window, text), names, len(patterns), solutions)

    def _inside(self, window: str, text: str) -> str:
        return text + " ." if self._merged else f"WINDOW :{window} {{ {text} }}"

    def _stored(self) -> Part:
        if self._merged:
            return self._block()
        pattern = self._chance.choice([("?a", ":k", "?b"), ("?b", ":k", "?c"), ("?c", ":k", "?a")])
        asked = (pattern[0], _full(pattern[1]), pattern[2])
        return Part(
            " ".join(pattern) + " .",
            _names(pattern),
            0,
            lambda world: matched(asked, dict.fromkeys(world.stored, NOWHERE), 0),
        )

    def _path(self) -> Part:
        a, b = self._chance.sample(["?a", "?b", "?c"], 2)
        window = self._chance.choice(self._windows)

        def solutions(world: World) -> list[Solution]:
            content = world.merged if self._merged else world.windows[window]
            edges = {(s, o) for s, p, o in content if p == f"<{EX}p>"}
            pairs = edges
            while (more := pairs | {(s, o) for s, x in pairs for y, o in edges if x == y}) != pairs:
                pairs = more
            return [Solution({a[1:]: s, b[1:]: o}) for s, o in pairs]

        return Part(self._inside(window, f"{a} :p+ {b}"), frozenset((a[1:], b[1:])), 0, solutions)

    # ---- of other parts

    def _both(self, depth: int) -> Part:
        left, right = self.part(depth), self.part(self._chance.randrange(depth + 1))
        width = left.width + right.width

        def solutions(world: World) -> list[Solution]:
            return joined(_of(left, world), _of(right, world))

        return Part(f"{{ {left.text} }} {{ {right.text} }}", left.names | right.names, width, solutions)

    def _optional(self, depth: int) -> Part:
        left, right = self.part(depth), self.part(self._chance.randrange(depth + 1))

        def solutions(world: World) -> list[Solution]:
            others = _of(right, world)
            return [found for one in _of(left, world) for found in joined([one], others) or [one]]

        text = f"{{ {left.text} }} OPTIONAL {{ {right.text} }}"
        return Part(text, left.names | right.names, left.width + right.width, solutions)

    def _either(self, depth: int) -> Part:
        parts = [self.part(depth), self.part(self._chance.randrange(depth + 1))]

        def solutions(world: World) -> list[Solution]:
            return [solution for part in parts for solution in _of(part, world)]

        text = " UNION ".join(f"{{ {part.text} }}" for part in parts)
        names = parts[0].names | parts[1].names
        return Part(text, names, max(part.width for part in parts), solutions)

    def _minus(self, depth: int) -> Part:
        left, right = self.part(depth), self.part(0)

        def solutions(world: World) -> list[Solution]:
            others = _of(right, world)
            return [
                one
                for one in _of(left, world)
                if not any(one.fits(other) and one.bindings.keys() & other.bindings for other in others)
            ]

        return Part(f"{{ {left.text} }} MINUS {{ {right.text} }}", left.names, left.width, solutions)

    def _absent(self, depth: int) -> Part:
        left, right = self.part(depth), self.part(self._chance.randrange(depth + 1))
        if "LIMIT" in right.text or "n" in left.names & right.names:
            return left  # what a sub-SELECT says for some values only may be something else

        def solutions(world: World) -> list[Solution]:
            others = _of(right, world)
            return [one for one in _of(left, world) if not any(map(one.fits, others))]

        return Part(f"{{ {left.text} }} FILTER NOT EXISTS {{ {right.text} }}", left.names, left.width, solutions)

    def _some(self, names: frozenset[str]) -> list[str]:
        return sorted(self._chance.sample(sorted(names), self._chance.randrange(1, len(names) + 1)))

    def _plain(self, depth: int) -> Part:
        inner = self.part(depth)
        names = self._some(inner.names)

        def solutions(world: World) -> list[Solution]:
            return [Solution(_only(one, names), one.places) for one in _of(inner, world)]

        order = self._chance.choice(["", f" ORDER BY ?{names[0]}"])
        text = f"{{ SELECT {_list(names)} {{ {inner.text} }}{order} }}"
        return Part(text, frozenset(names), inner.width, solutions)

    def _distinct(self, depth: int) -> Part:
        inner = self.part(depth)
        names = self._some(inner.names)

        def solutions(world: World) -> list[Solution]:
            return [Solution(bindings, _latest(some, inner)) for bindings, some in _groups(_of(inner, world), names)]

        text = f"{{ SELECT DISTINCT {_list(names)} {{ {inner.text} }} }}"
        return Part(text, frozenset(names), min(inner.width, 1), solutions)

    def _grouped(self, depth: int) -> Part:
        """How many there are, or the first of something: what is said of a group has an order of its own below."""
        inner = self.part(depth)
        names, emitted = self._some(inner.names), self._chance.choice(sorted(inner.names))
        counted, distinct = self._chance.random() < 0.5, self._chance.random() < 0.3

        def solutions(world: World) -> list[Solution]:
            found = []
            for bindings, some in _groups(_of(inner, world), names):
                if counted:
                    more = {"n": _integer(len(some))}
                else:
                    values = [one.bindings[emitted] for one in in_order(some, emitted) if emitted in one.bindings]
                    more = {"n": values[0]} if values else {}
                found.append(Solution(bindings | more, _latest(some, inner)))
            return found

        aggregate = "COUNT(*)" if counted else f"SAMPLE(?{emitted})"
        select = "SELECT DISTINCT" if distinct else "SELECT"
        text = f"{{ {select} {_list(names)} ({aggregate} AS ?n) {{ {inner.text} }} GROUP BY {_list(names)} }}"
        if "n" in inner.names:
            return self._block()
        return Part(text, frozenset((*names, "n")), min(inner.width, 1), solutions)

    def _limited(self, depth: int) -> Part:
        inner = self.part(depth)
        names, limit = self._some(inner.names), self._chance.randrange(1, 5)

        def solutions(world: World) -> list[Solution]:
            rows = [bindings for bindings, _ in _groups(_of(inner, world), names)]
            rows.sort(key=lambda row: [term_order(row.get(name)) for name in names])
            return [Solution(row) for row in rows[:limit]]

        text = f"{{ SELECT DISTINCT {_list(names)} {{ {inner.text} }} ORDER BY {_list(names)} LIMIT {limit} }}"
        return Part(text, frozenset(names), 0, solutions)


def _of(part: Part, world: World) -> list[Solution]:
    return [solution.padded(part.width) for solution in part.solutions(world)]


def _list(names: Sequence[str]) -> str:
    return " ".join(f"?{name}" for name in names)


def _only(solution: Solution, names: Sequence[str]) -> Bindings:
    return {name: solution.bindings[name] for name in names if name in solution.bindings}


def _groups(solutions: Sequence[Solution], names: Sequence[str]) -> list[tuple[Bindings, list[Solution]]]:
    found: dict[tuple[tuple[str, str], ...], list[Solution]] = {}
    for one in solutions:
        found.setdefault(tuple(_only(one, names).items()), []).append(one)
    return [(dict(key), some) for key, some in found.items()]


def _latest(solutions: Sequence[Solution], inner: Part) -> tuple[Place, ...]:
    return (max(solution.order[0] for solution in solutions),) if inner.width else ()


def _integer(number: int) -> str:
    return f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def term_order(term: str | None) -> tuple[int, object]:
    if term is None:
        return (0, 0)
    if term.startswith("<"):
        return (1, term)
    number = re.fullmatch(r'"(\d+)"\^\^.*', term)
    assert number is not None, term
    return (2, int(number[1]))


def in_order(solutions: Sequence[Solution], name: str) -> list[Solution]:
    return sorted(solutions, key=lambda one: (one.order, term_order(one.bindings.get(name))))


def _string(term: str | None) -> str:
    if term is None:
        return "-"
    return term[1:-1] if term.startswith("<") else term[1 : term.index('"', 1)]


# ---- what is said of the whole ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Observed:
    """An aggregate: its text, and its value for a group (None: it has none)."""

    text: str
    value: Callable[[Sequence[Solution]], str | None]


def _joined_values(name: str, distinct: bool, replaced: bool) -> Observed:
    def value(solutions: Sequence[Solution]) -> str | None:
        ordered = in_order(solutions, name)
        if replaced:  # the order of what is made of the terms: of strings
            ordered = sorted(solutions, key=lambda one: (one.order, _string(one.bindings.get(name))))
        terms = [one.bindings.get(name) for one in ordered]
        if not replaced and None in terms:
            return None
        texts = [_string(term) for term in terms]
        if distinct and replaced:
            texts = list(dict.fromkeys(texts))
        elif distinct:
            texts = [_string(term) for term in dict.fromkeys(terms)]
        return '"' + ",".join(texts) + '"'

    argument = f'COALESCE(STR(?{name}), "-")' if replaced else f"?{name}"
    return Observed(f'GROUP_CONCAT({"DISTINCT " * distinct}{argument}; SEPARATOR=",")', value)


def _sample(name: str) -> Observed:
    def value(solutions: Sequence[Solution]) -> str | None:
        return next((one.bindings[name] for one in in_order(solutions, name) if name in one.bindings), None)

    return Observed(f"SAMPLE(?{name})", value)


def _count(names: frozenset[str]) -> Observed:
    def value(solutions: Sequence[Solution]) -> str | None:
        return _integer(len({tuple(sorted(one.bindings.items())) for one in solutions}))

    return Observed("COUNT(DISTINCT *)", value)


@dataclass(frozen=True)
class Question:
    part: Part
    keys: tuple[str, ...]
    observed: tuple[Observed, ...]
    having: str | None  # this variable's first value is not :n1

    @property
    def select(self) -> str:
        return f"SELECT {_list(self.keys)} " + " ".join(f"({t.text} AS ?x{i})" for i, t in enumerate(self.observed))

    @property
    def pattern(self) -> str:
        """With what stands behind it; `#` hides the bracket that a scene adds."""
        groups = f" GROUP BY {_list(self.keys)}" if self.keys else ""
        having = f" HAVING (STR(SAMPLE(?{self.having})) != '{EX}n1')" if self.having else ""
        return f"{self.part.text} }}{groups}{having} #"

    def answer(self, world: World) -> Bag:
        groups = _groups(_of(self.part, world), self.keys)
        if not self.keys and not groups:
            groups = [({}, [])]
        rows = []
        for bindings, some in groups:
            if self.having is not None:
                first = _sample(self.having).value(some)
                if first is None or _string(first) == f"{EX}n1":
                    continue
            values = [each.value(some) for each in self.observed]
            rows.append(tuple(str(value) for value in (*map(bindings.get, self.keys), *values)))
        return Counter(rows)


def random_question(chance: random.Random, windows: Sequence[str], merged: bool) -> Question:
    part = Maker(chance, windows, merged).part(chance.choice([0, 1, 1, 2, 2, 3]))
    names = sorted(part.names)
    keys = tuple(chance.sample(names, chance.choice([0, 1, 1])))
    kinds: list[Callable[[str], Observed]] = [
        _sample,
        lambda name: _joined_values(name, False, True),
        lambda name: _joined_values(name, False, False),
        lambda name: _joined_values(name, True, chance.random() < 0.5),
    ]
    observed = [make(chance.choice(names)) for make in chance.sample(kinds, chance.randrange(1, 4))]
    if chance.random() < 0.2 and "+" not in part.text:
        observed.append(_count(part.names))
    return Question(part, keys, tuple(observed), chance.choice(names) if chance.random() < 0.15 else None)


def ordered_scene(seed: int) -> tuple[Scene, Question]:
    """The steps and windows of a scene, under such a question."""
    scene = random_scene(seed)
    chance = random.Random(-1 - seed)
    names = [window.name for window in scene.windows]
    question = random_question(chance, names, scene.merged)
    scene.select, scene.pattern = question.select, question.pattern
    scene.r2s = chance.choice(["RSTREAM", "RSTREAM", "ISTREAM", "DSTREAM"])
    return scene, question


class OrderedOracle(Oracle):
    """As the oracle, with an answer that knows where each triple stands."""

    def __init__(self, scene: Scene, question: Question) -> None:
        super().__init__(scene)
        self._question = question
        self._times: list[int] = []

    def _elements(self, push: Push) -> list[Element]:
        self._times += [time for time, _ in push.elements]
        return super()._elements(push)

    def answer(self, emitted: EmittedAt) -> Bag:
        windows = {
            window.name: dict(self._placed(held, left_out))
            for window, held, left_out in zip(
                self.scene.windows, emitted.contents, emitted.skipped or [0] * len(self.scene.windows), strict=True
            )
        }
        stored = frozenset(triple for triple, graph in self.store if graph is None)
        merged = dict.fromkeys((t for t, graph in self.store if self.scene.static and graph == f"<{EX}g1>"), NOWHERE)
        for content in windows.values():
            for triple, place in content.items():
                merged[triple] = max(place, merged.get(triple, NOWHERE))
        return self._question.answer(World(windows, merged, stored))

    def _placed(self, held: Sequence[int], left_out: int) -> Iterator[tuple[Triple, Place]]:
        """The last of several places of a triple comes last; without so many triples of the oldest element."""
        places = [
            ((self._times[number], number, at), triple)
            for number in held
            for at, triple in enumerate(self.triples[number])
        ]
        for place, triple in sorted(places)[left_out:]:
            yield triple, place
