"""Generated queries, each asked again and again with other constants: texts of one outline, and those that nearly are.

    ?a :p "x" FILTER(?a != :b)      ?a :p "never" FILTER(?a != :b)      ?a :p "x"@en FILTER(?a != :never)

A constant is exchanged by one of its own kind most of the time, sometimes by one of another kind, by one that no triple
has, or by one that is an error there. `plain` is as all engines read it; `spelled` has the same constants otherwise:
relative to a BASE, with another prefix, with escapes, between other quotes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_up

from tests.stream_ext.generated import (
    EX,
    GRAPHS,
    LITERALS,
    MIXED,
    NODES,
    NUMBERS,
    PREDICATES,
    PROLOGUE,
    TAGGED,
    TIMES,
    Asked,
    Element,
    Group,
    Maker,
    Quad,
    quads,
)

_XSD = "http://www.w3.org/2001/XMLSchema#"
#: IRIs that are no common names, and those that look like something else.
ODD = (
    f"<{EX}a%20b>", f"<{EX}\u00e9>", "<urn:x-rillet:parameter:0>", "<http://other/x#y>", "<mailto:a@ex>", f"<{EX}>",
    f"<{EX}a?b=c&d#e>", "<x:_:b1>",
)  # fmt: skip
NAMES = (*(name for name in NODES if name[0] == ":"), *PREDICATES, *GRAPHS[1:])
ABSENT = (":never", ":g9", "<http://never/>")
STRINGS = (
    '"a"', '"ab"', '""', '"2"', '"never"', '"urn:x-rillet:parameter:0"', '"\u00e4 \U0001f600"', '"it\'s"', '"#{"',
    '"<http://ex/a>"', '"?a"', '" a "', f'"{"long " * 60}"',
)  # fmt: skip
TYPED = (
    *TIMES, *(text for text in (*LITERALS, *MIXED, *TAGGED) if text[-1] != '"' and text[0] == '"'),
    '"2020-01-02"^^xsd:date',
    '"NaN"^^xsd:double', '"INF"^^xsd:float', '"no"^^xsd:integer',
    '"P1D"^^xsd:duration', '""@en', '"never"@en', '"ABC"@en-us', '"x"^^<http://ex/odd>',
)  # fmt: skip
#: Of values that are written in two ways both peers make one term; one of them has no integers of more than 64 bits.
_LONG_INTEGER = "12345678901234567890123"
NOT_FOR_PEERS = ('"01"^^xsd:integer', '"-0"^^xsd:integer', '"1"^^xsd:boolean', _LONG_INTEGER)
ESCAPED = ('"tab\\t"', '"two\\nlines"', '"q\\"uote"', '"back\\\\slash"', '"\\u0061"')
COUNTED = (*NUMBERS, _LONG_INTEGER, "1e3", "0.50", "999999999999999999")
BOOLEANS = ("true", "false")

_CONSTANT = re.compile(
    r"(?P<cut>(?:LIMIT|OFFSET) [0-9]+)"
    r'|(?P<typed>"(?:[^"\\]|\\.)*"(?:@[A-Za-z-]+|\^\^(?:xsd)?:[a-zA-Z]+|\^\^<[^>]*>))'
    r'|(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<iri><[a-z]+:[^>\s]*>)"
    r"|(?P<name>(?<![\w?$_]):[a-z][a-z0-9]*)"
    r"|(?P<number>(?<![\w?$:.@-])-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?\b)"
    r"|(?P<boolean>\b(?:true|false)\b)"
)
#: A subject, and an object, that is a variable.
_SUBJECT = re.compile(r"\?[a-e](?= :[pqrn] )")
_OBJECT = re.compile(r"(?<=:[pqrn] )\?[a-e](?= [.;}])")


class Wider(Maker):
    """Also lists, blank nodes with properties, and abbreviations; more vertices are constants, mostly such as `data`
    has: no plan is kept of a query whose terms are not stored."""

    def __init__(self, chance: random.Random, data: Sequence[Quad]) -> None:
        super().__init__(chance)
        self._subjects = sorted({s for s, *_ in data if s[0] in ":<"})
        self._objects = sorted({o for _, _, o, _ in data if o[0] != "_" and "\\" not in o})

    def constant(self) -> str:
        return self.chance.choice(self._objects) if self.chance.random() < 0.9 else super().constant()

    def triples(self, bound: set[str]) -> tuple[Element, set[str]]:
        made, names = super().triples(bound)
        text = made.text
        if self.chance.random() < 0.5:
            text = _SUBJECT.sub(lambda match: self._or(match[0], self._subjects), text)
        if self.chance.random() < 0.5:
            text = _OBJECT.sub(lambda match: self._or(match[0], self._objects), text)
        chosen = self.chance.random()
        if chosen < 0.06:
            names = names | {"d"}
            text += f" {self.chance.choice((':a', '?a', '[]'))} :q ?d , {self.constant()} ; :n ?d ."
        elif chosen < 0.1:
            text += f" ?{self.named('a', names)} :p [ :q {self.constant()} ; :r [] ] ."
        elif chosen < 0.12:
            text += f" ?{self.named('a', names)} :r ( {self.constant()} :b ) ."
        return Element(text), names & {match[1] for match in re.finditer(r"\?(\w+)", text)}

    def _or(self, variable: str, constants: Sequence[str]) -> str:
        return self.chance.choice(constants) if self.chance.random() < 0.5 else variable

    def plain(self) -> Asked:
        if self.chance.random() < 0.35:  # as most applications ask
            group, bound = self.group(0)
            names = self.some(bound) or ["a"]
            return self.cut(Asked("SELECT " + " ".join(f"?{name}" for name in names), group), names)
        asked = super().plain()
        if asked.head.startswith("SELECT ?") and "(" not in asked.head and self.chance.random() < 0.05:
            return Asked(
                f"DESCRIBE {asked.head.split()[1]} {self.chance.choice((':a', ':never', f'<{EX}b>'))}", asked.group
            )
        if self.chance.random() < 0.03:
            return Asked("CONSTRUCT", Group([Element(f"{self.chance.choice((':a', '?a'))} :q {self.constant()} .")]))
        return asked


def wide_quads(chance: random.Random) -> list[Quad]:
    """Quads that have terms of all kinds, some of them far more often than others."""
    objects = (*ODD, *STRINGS, *TYPED, *ESCAPED, *COUNTED, *BOOLEANS)
    subjects = (*NODES, *ODD[:4])
    data = set(quads(chance, chance.choice((12, 20, 30))))
    for _ in range(chance.choice((8, 16))):
        data.add((chance.choice(subjects), chance.choice(PREDICATES), chance.choice(objects), chance.choice(GRAPHS)))
    if chance.random() < 0.3:
        hub, predicate = chance.choice(NAMES[:4]), chance.choice(PREDICATES)
        data |= {(f":s{n}", predicate, hub, "") for n in range(40)}
    return sorted(data)


@dataclass(frozen=True)
class Text:
    """A query with other constants: as the peers get it, and as we do."""

    plain: Asked
    spelled: str
    whole_spelled: str  # without what orders and cuts

    @property
    def is_ordered(self) -> bool:
        return bool(self.plain.keys or self.plain.limit is not None or self.plain.offset)


def texts_of(chance: random.Random, asked: Asked, count: int) -> Iterator[Text]:
    """The first two have the constants of `asked`."""
    styles, varied = Styles(chance), Varied(chance)
    for number in range(count):
        plain = asked if number < 2 else varied.of(asked, chance.random() < 0.15)
        if number >= 2 and plain.limit is not None and chance.random() < 0.3:
            plain = replace(plain, limit=chance.choice((0, 1, 2, 5)), offset=chance.choice((0, 0, 1, 2)))
        some = styles.varied() if chance.random() < 0.2 else styles
        yield Text(plain, f"{some.of(plain)} # {number}", some.of(plain.whole))


class Varied:
    """Which constants of a query are exchanged mostly: the subjects and objects of its patterns, and few others."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._varies: list[bool] = []

    def of(self, asked: Asked, any_place: bool) -> Asked:
        places, share = count_up(), self._chance.choice((0.2, 0.5, 0.9))

        def change(text: str) -> str:
            def other(match: re.Match[str]) -> str:
                if not self._may_vary(next(places), match) and not any_place:
                    return match[0]
                return _another(self._chance, match) if self._chance.random() < share else match[0]

            return _CONSTANT.sub(other, text)

        head, group = change(asked.head), _with_texts(asked.group, change)
        return replace(asked, head=head, group=group, tail=change(asked.tail))

    def _may_vary(self, place: int, match: re.Match[str]) -> bool:
        if place == len(self._varies):
            before = _BEFORE_OBJECT.search(match.string, 0, match.start())
            is_end = before is not None or _PREDICATE.match(match.string, match.end()) is not None
            often = 0.02 if not is_end else 0.9 if match.lastgroup in ("name", "iri", "string") else 0.05
            self._varies.append(self._chance.random() < often)
        return self._varies[place]


_PREDICATE, _BEFORE_OBJECT = re.compile(" :[pqrn] "), re.compile("(?<=[ ?]):[pqrn] $")


def _with_texts(group: Group, change: Callable[[str], str]) -> Group:
    return Group(
        [Element(change(each.text), [_with_texts(child, change) for child in each.children]) for each in group.elements]
    )


_KINDS: dict[str, tuple[str, ...]] = {
    "typed": (*TYPED, *NOT_FOR_PEERS[:3]),
    "string": (*STRINGS, *STRINGS, *ESCAPED),
    "iri": (*ODD, *ABSENT[2:], f"<{EX}a>", f"<{EX}b>"),
    "name": (*NAMES, *NAMES[:4], *ABSENT[:2]),
    "number": COUNTED,
    "boolean": BOOLEANS,
}
_VALUES = (*TYPED, *STRINGS, *ESCAPED, *COUNTED, *BOOLEANS)


def _another(chance: random.Random, match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind == "cut":
        return f"{match[0].split()[0]} {chance.choice((0, 1, 2, 3, 7))}"
    if chance.random() < 0.12:  # another kind; of a name mostly another way to name
        return chance.choice(_KINDS["iri"] if kind == "name" else _KINDS["name"] if kind == "iri" else _VALUES)
    if chance.random() < 0.02:  # perhaps an error there
        return chance.choice((*_VALUES, *NAMES, "un:known", "<relative>", "?b", "_:l"))
    return chance.choice(_KINDS[kind])


# ---- how constants are written ------------------------------------------------------------------------------------

_PROLOGUES = (
    PROLOGUE,
    f"BASE <{EX}> {PROLOGUE} PREFIX e: <{EX}> PREFIX g: <{EX}g>",
    f"PREFIX : <http://other/>\n{PROLOGUE} BASE <http://ex/deep/er/> PREFIX e: <../../> BASE <..> BASE <../>",
)
_E, _BASE = "e:", "<>"  # what a prologue allows


class Styles:
    """How the constant at each place of a text is written, the same for all texts of a query."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._prologue = chance.choice((0, 0, 1, 2))
        self._rate = chance.choice((0.0, 0.0, 0.1, 0.3))
        self._chosen: list[float] = []

    def varied(self) -> Styles:
        other = Styles(self._chance)
        other._prologue = self._prologue
        return other

    def of(self, asked: Asked) -> str:
        text = str(asked)
        places = count_up()
        return _PROLOGUES[self._prologue] + _CONSTANT.sub(
            lambda match: self._written(next(places), match), text.removeprefix(PROLOGUE)
        )

    def _written(self, place: int, match: re.Match[str]) -> str:
        while len(self._chosen) <= place:
            self._chosen.append(self._chance.random() if self._chance.random() < self._rate else -1.0)
        kind, ways = match.lastgroup or "", [match[0]]
        if self._chosen[place] < 0 or kind == "cut":
            return match[0]
        if kind == "name":
            ways = list(_of_name(match[0][1:], self._prologue > 0))
        elif kind == "string" and "\\" not in match[0]:
            ways = list(_of_string(match[0][1:-1]))
        elif kind == "number":
            ways = list(_of_number(match[0]))
        elif kind == "boolean":
            ways = [f'"{match[0]}"^^xsd:boolean', f"'{match[0]}'^^<{_XSD}boolean>"]
        elif kind == "iri":
            ways = [f"<\\u{ord(match[0][1]):04x}{match[0][2:]}", match[0]]
        return ways[int(self._chosen[place] * len(ways))] + (" #' <\" :a\n" if self._chosen[place] > 0.95 else "")


def _of_name(local: str, has_more: bool) -> Iterator[str]:
    yield from (
        f"<{EX}{local}>",
        f"<{EX}{local}>",
        f"<{local}>",
        f"<./{local}>",
        f"<{EX}\\u{ord(local[0]):04X}{local[1:]}>",
    )
    if has_more:
        yield from (f"e:{local}", f"e:{local}")


def _of_string(value: str) -> Iterator[str]:
    yield f'"{value}"^^xsd:string'
    yield f'"""{value}"""'
    yield "".join(['"', *(f"\\U{ord(letter):08x}" for letter in value), '"'])
    if "'" not in value:
        yield from (f"'{value}'", f"'{value}'", f"'''{value}'''")


def _of_number(text: str) -> Iterator[str]:
    kind = "double" if "e" in text else "decimal" if "." in text else "integer"
    yield from (f'"{text}"^^xsd:{kind}', f"'{text}'^^<{_XSD}{kind}>")
