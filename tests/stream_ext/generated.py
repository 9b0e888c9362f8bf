"""Queries and small data from a seed: all of SPARQL's ways to combine patterns, over few terms, so that much meets.

A query is kept as a tree of text, which can be cut down: a failing one is reported as small as it goes. What an
engine may choose freely is left out (NOW, RAND, SAMPLE, the order of ties) or compared with that freedom."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

EX = "http://ex/"
PROLOGUE = f"PREFIX : <{EX}> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>"
HOLE = "\0"  # where a child's text goes

GRAPHS = ("", ":g1", ":g2")
PREDICATES = (":p", ":q", ":r", ":n")
NODES = (":a", ":b", ":c", ":f", "_:x", "_:y")
INTEGERS = ("0", "1", "2", "3", "-2")
NUMBERS = (*INTEGERS, "1.5", "2.25")  # STR of a computed double is written in more than one way
LITERALS = ('"a"', '"ab"', '""', '"a"@en', '"a"@fr', '"b"@en-gb', "true", "false", '"2"', '"x"^^:odd')
TIMES = (
    '"2020-01-02T03:04:05Z"^^xsd:dateTime',
    '"2020-01-02T05:04:05+02:00"^^xsd:dateTime',
    '"2021-06-07T08:09:10.5Z"^^xsd:dateTime',
    '"2010-01-02T03:04:05"^^xsd:dateTime',
)
#: Of several types, for promotion: their texts are not looked at.
MIXED = ("2", "1.5", "1.5e0", "-2e0", '"2"^^xsd:float', '"0.5"^^xsd:float', '"2.0"^^xsd:decimal', '"3"^^xsd:double')
TAGGED = ('"Abc"@en', '"abc"@fr', '"ABC"', '"a.c"', '"ba\\nAc"', '"\u00e4bc"@de')
VARIABLES = ("a", "b", "c", "d", "e")

Quad = tuple[str, str, str, str]


@dataclass
class Element:
    """One thing of a group; its text has a hole for each child."""

    text: str
    children: list[Group] = field(default_factory=list)

    def __str__(self) -> str:
        first, *rest = self.text.split(HOLE)
        return first + "".join(f"{child}{more}" for child, more in zip(self.children, rest, strict=True))


@dataclass
class Group:
    elements: list[Element]

    def __str__(self) -> str:
        return "{ " + " ".join(map(str, self.elements)) + " }"


@dataclass
class Asked:
    """A query: `head` (SELECT ..., ASK, CONSTRUCT ...), the group, `tail` (GROUP BY ...), and how it is cut.

    `graphs` are those of FROM and of FROM NAMED; None: neither is written."""

    head: str
    group: Group
    tail: str = ""
    keys: tuple[tuple[str, bool], ...] = ()  # ORDER BY these variables; True: descending
    offset: int = 0
    limit: int | None = None
    graphs: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    def __str__(self) -> str:
        order = [f"DESC(?{name})" if descending else f"?{name}" for name, descending in self.keys]
        default, named = self.graphs or ((), ())
        dataset = [*(f"FROM {name}" for name in default), *(f"FROM NAMED {name}" for name in named)]
        parts = [
            PROLOGUE,
            self.head,
            *dataset,
            "WHERE",
            str(self.group),
            self.tail,
            *(["ORDER BY", *order] if order else []),
        ]
        parts += [f"OFFSET {self.offset}"] if self.offset else []
        parts += [f"LIMIT {self.limit}"] if self.limit is not None else []
        return " ".join(part for part in parts if part)

    @property
    def whole(self) -> Asked:
        """Without what orders and cuts."""
        return replace(self, keys=(), offset=0, limit=None)

    @property
    def uncut(self) -> Asked:
        return replace(self, offset=0, limit=None)

    @property
    def over_all(self) -> Asked:
        """Without FROM: what `seen` shows is all that there is."""
        return replace(self, graphs=None)

    def seen(self, data: Sequence[Quad]) -> Sequence[Quad]:
        """The data as FROM and FROM NAMED show it: the one merges graphs, the other keeps them apart."""
        if self.graphs is None:
            return data
        default, named = self.graphs
        merged = [(s, p, o, "") for s, p, o, g in data if g in default]
        return sorted({*merged, *(quad for quad in data if quad[3] in named)})


# ---- data ------------------------------------------------------------------------------------------------------


def quads(chance: random.Random, count: int) -> list[Quad]:
    """Subject, predicate, object and graph ("": the default one) as Turtle writes them."""
    # Each graph is there: of one that is not, both peers say what holds in an empty one (18.6 says nothing holds).
    return sorted({quad(chance) for _ in range(count)} | {(":a", ":p", ":b", name) for name in GRAPHS[1:]})


def quad(chance: random.Random) -> Quad:
    predicate = chance.choice(PREDICATES)
    kinds: dict[str, tuple[tuple[str, ...], ...]] = {":n": (INTEGERS,), ":q": (NODES, NUMBERS, LITERALS, TIMES)}
    thing = chance.choice(chance.choice(kinds.get(predicate, (NODES,))))
    return chance.choice(NODES), predicate, thing, chance.choice((*GRAPHS, "", "", ""))


def trig(data: Sequence[Quad]) -> str:
    head = f"@prefix : <{EX}> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> ."
    return "\n".join([head, *(f"{g} {{ {s} {p} {o} . }}" for s, p, o, g in data)])


# ---- queries ---------------------------------------------------------------------------------------------------


class Maker:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._fresh = 0
        self._within = 0  # so many OPTIONAL and EXISTS

    def fresh(self, kind: str = "v") -> str:
        self._fresh += 1
        return f"{kind}{self._fresh}"

    def query(self) -> Asked:
        asked = self.plain()
        if self.chance.random() < 0.12:
            default = self.chance.choice(((":g1",), (":g1", ":g2"), (":g2",), ()))
            named = self.chance.choice(((), (":g1",), (":g1", ":g2")) if default else ((":g2",), (":g1", ":g2")))
            asked = replace(asked, graphs=(default, named))
        return asked

    def plain(self) -> Asked:
        form = self.chance.choice(("SELECT",) * 7 + ("GROUPED",) * 3 + ("ASK", "CONSTRUCT"))
        group, bound = self.group(2)
        if form == "ASK":
            return Asked("ASK", group)
        if form == "CONSTRUCT":
            return Asked(f"CONSTRUCT {{ {self.template(bound)} }}", group)
        if form == "GROUPED":
            head, tail, names = self.grouping(bound)
            return self.cut(Asked(f"SELECT {head}", group, tail), names)
        names = self.some(bound) or ["a"]
        head = self.chance.choice(("", "", "DISTINCT ")) + " ".join(f"?{name}" for name in names)
        if self.chance.random() < 0.2:
            head += f" ({self.expression(bound, 2)} AS ?{self.fresh()})"
        return self.cut(Asked(f"SELECT {head}", group), names)

    def cut(self, asked: Asked, names: Sequence[str]) -> Asked:
        """ORDER BY, OFFSET, LIMIT: sometimes."""
        if self.chance.random() < 0.4:
            keys = self.chance.sample(list(names), self.chance.randint(1, min(2, len(names))))
            asked = replace(asked, keys=tuple((key, self.chance.random() < 0.3) for key in keys))
        if self.chance.random() < 0.25:
            asked = replace(asked, offset=self.chance.choice((0, 0, 1, 3)), limit=self.chance.choice((None, 0, 1, 4)))
        return asked

    def some(self, bound: set[str]) -> list[str]:
        names = sorted(bound)
        return self.chance.sample(names, self.chance.randint(1, min(4, len(names)))) if names else []

    # ---- patterns

    def group(self, depth: int) -> tuple[Group, set[str]]:
        """A group and the variables that it may bind."""
        elements, bound = [], set[str]()
        for _ in range(self.chance.choice((1, 2, 2, 3, 4) if depth else (1, 1, 2))):
            made, names = self.element(depth, bound)
            elements.append(made)
            bound |= names
        return Group(elements), bound

    def element(self, depth: int, bound: set[str]) -> tuple[Element, set[str]]:
        if not bound and self.chance.random() < 0.7:
            return self.triples(bound)
        shallow = (*[self.triples] * 4, *[self.path] * 2, self.values, self.bind, self.bind, self.filter)
        nested = (
            self.optional, self.optional, self.optional, self.union, self.union, self.minus, self.exists, self.graph,
            self.graph, self.inner, self.subselect, self.subselect, self.whether,
        )  # fmt: skip
        if depth and self.chance.random() < 0.55:
            return self.chance.choice(nested)(depth - 1, bound)
        return self.chance.choice(shallow)(bound)

    def triples(self, bound: set[str]) -> tuple[Element, set[str]]:
        names: set[str] = set()
        lines = []
        for _ in range(self.chance.choice((1, 1, 2))):
            subject = self.node(bound | names, names)
            chosen = self.chance.random()
            predicate = "?" + self.named("e", names) if chosen < 0.08 else self.chance.choice(PREDICATES)
            lines.append(f"{subject} {predicate} {self.thing(predicate, names)} .")
        return Element(" ".join(lines)), names

    def named(self, name: str, names: set[str]) -> str:
        names.add(name)
        return name

    def node(self, bound: set[str], names: set[str]) -> str:
        chosen = self.chance.random()
        if chosen < 0.08:
            return self.chance.choice(NODES[:4])
        if chosen < 0.13:
            return self.chance.choice(("[]", f"_:{self.fresh('z')}"))
        pool = sorted(bound & set(VARIABLES[:3])) if chosen < 0.7 else ()
        return "?" + self.named(self.chance.choice(pool or VARIABLES[:3]), names)

    def thing(self, predicate: str, names: set[str]) -> str:
        """An object such as the predicate has, most of the time."""
        if self.chance.random() < 0.1:
            return self.constant()
        of_values = predicate in (":q", ":n") and self.chance.random() < 0.8
        return "?" + self.named(self.chance.choice(VARIABLES[3:] if of_values else VARIABLES[:3]), names)

    def constant(self) -> str:
        return self.chance.choice(self.chance.choice((NODES[:4], NODES[:4], NUMBERS, LITERALS, TIMES)))

    def path(self, bound: set[str]) -> tuple[Element, set[str]]:
        names: set[str] = set()
        subject = self.node(bound, names)
        end = self.chance.choice((*NODES[:2], "1", *[""] * 12))
        end = end or "?" + self.named(self.chance.choice(VARIABLES), names)
        # Of (:q*)+ to a literal that no triple has, both peers give nothing; 18.4 reaches it from itself.
        return Element(f"{subject} {self.way(1 if end == '1' else 2)} {end} ."), names

    def way(self, depth: int) -> str:
        """Both peers make a set of an alternative that is not repeated; it is a bag (18.4: a Union)."""
        if not depth:
            return self.chance.choice((":p", ":q", ":r", "^:p"))
        one, other = self.way(depth - 1), self.way(depth - 1)
        return self.chance.choice(
            (
                f"({one})+", f"({one})*", f"({one})?", f"({one}/{other})", f"({one}/{other})", f"^({one})",
                "!(:p)", "!(:p|:q)", "!(^:r)", ":p+", ":q*", f"({one}|{other})+",
            )
        )  # fmt: skip

    def values(self, bound: set[str]) -> tuple[Element, set[str]]:
        names = self.chance.sample(VARIABLES, self.chance.choice((1, 1, 2)))
        rows = [
            " ".join("UNDEF" if self.chance.random() < 0.2 else self.constant() for _ in names)
            for _ in range(self.chance.choice((1, 2, 3)))
        ]
        head = " ".join(f"?{name}" for name in names)
        return Element(f"VALUES ({head}) {{ {' '.join(f'({row})' for row in rows)} }}"), set(names)

    def bind(self, bound: set[str]) -> tuple[Element, set[str]]:
        name = self.fresh()
        return Element(f"BIND({self.expression(bound, 2)} AS ?{name})"), {name}

    def filter(self, bound: set[str]) -> tuple[Element, set[str]]:
        return Element(f"FILTER({self.condition(bound, 2)})"), set()

    def optional(self, depth: int, bound: set[str]) -> tuple[Element, set[str]]:
        group, names = self.within(depth)
        if self.chance.random() < 0.4:  # the condition of a left join sees both sides
            group.elements.append(Element(f"FILTER({self.condition(bound | names, 1)})"))
        return Element(f"OPTIONAL {HOLE}", [group]), names

    def within(self, depth: int) -> tuple[Group, set[str]]:
        self._within += 1
        made = self.group(depth)
        self._within -= 1
        return made

    def union(self, depth: int, bound: set[str]) -> tuple[Element, set[str]]:
        (left, a), (right, b) = self.group(depth), self.group(depth)
        return Element(f"{HOLE} UNION {HOLE}", [left, right]), a | b

    def minus(self, depth: int, bound: set[str]) -> tuple[Element, set[str]]:
        if self._within:
            # Both peers give the left side what is bound around the group, and so a shared variable that it has not.
            return self.triples(bound)
        return Element(f"MINUS {HOLE}", [self.group(depth)[0]]), set()

    def exists(self, depth: int, bound: set[str]) -> tuple[Element, set[str]]:
        word = self.chance.choice(("EXISTS", "NOT EXISTS"))
        group = self.within(depth)[0]
        if self.chance.random() < 0.25:
            return Element(f"FILTER({self.condition(bound, 1)} || {word} {HOLE})", [group]), set()
        return Element(f"FILTER {word} {HOLE}", [group]), set()

    def whether(self, depth: int, bound: set[str]) -> tuple[Element, set[str]]:
        """EXISTS as a value."""
        word, group, name = self.chance.choice(("EXISTS", "NOT EXISTS")), self.within(depth)[0], self.fresh()
        if self.chance.random() < 0.5:
            return Element(f"BIND({word} {HOLE} AS ?{name})", [group]), {name}
        return Element(f"BIND(IF({word} {HOLE}, {self.leaf(bound)}, 0) AS ?{name})", [group]), {name}

    def graph(self, depth: int, bound: set[str]) -> tuple[Element, set[str]]:
        name = self.chance.choice((":g1", ":g2", "?g", "?g", "?a"))
        group, names = self.group(depth)
        return Element(f"GRAPH {name} {HOLE}", [group]), names | ({name[1:]} if name[0] == "?" else set())

    def inner(self, depth: int, bound: set[str]) -> tuple[Element, set[str]]:
        group, names = self.group(depth)
        return Element(HOLE, [group]), names

    def subselect(self, depth: int, bound: set[str]) -> tuple[Element, set[str]]:
        if self.chance.random() < 0.15:  # whose cut depends on no tie: the numbers of :n are distinct integers
            some = self.chance.choice(("LIMIT 2", "OFFSET 1", "OFFSET 1 LIMIT 2"))
            if self.chance.random() < 0.4:
                counted = self.fresh("s")
                text = (
                    f"{{ SELECT ?d (COUNT(*) AS ?{counted}) {{ ?a :n ?d }} GROUP BY ?d ORDER BY ?{counted} ?d {some} }}"
                )
                return Element(text), {"d", counted}
            return Element(f"{{ SELECT DISTINCT ?d {{ ?a :n ?d }} ORDER BY ?d {some} }}"), {"d"}
        group, names = self.group(depth)
        if self.chance.random() < 0.4:
            head, tail, out = self.grouping(names)
            return Element(f"{{ SELECT {head} {HOLE} {tail} }}", [group]), set(out)
        out = self.some(names) or ["a"]
        head = self.chance.choice(("", "DISTINCT ")) + " ".join(f"?{name}" for name in out)
        return Element(f"{{ SELECT {head} {HOLE} }}", [group]), set(out)

    # ---- grouping

    def grouping(self, bound: set[str]) -> tuple[str, str, list[str]]:
        """What stands after SELECT, what stands behind the group, and the names that come out."""
        keys = self.some(bound)[: self.chance.choice((0, 1, 1, 2))]
        made = [(self.aggregate(bound), self.fresh("s")) for _ in range(self.chance.choice((1, 1, 2)))]
        head = " ".join([*(f"?{key}" for key in keys), *(f"({text} AS ?{name})" for text, name in made)])
        tail = "GROUP BY " + " ".join(f"?{key}" for key in keys) if keys else ""
        if self.chance.random() < 0.25:
            # Both peers take COUNT of nothing but errors for an error, where 18.5.1.2 takes errors out and counts.
            tail += f" HAVING({self.aggregate(bound, may_err=False)} {self.chance.choice(('>', '<', '!='))} 1)"
        elif keys and self.chance.random() < 0.15:
            word = self.chance.choice(("EXISTS", "NOT EXISTS"))
            tail += f" HAVING({word} {{ ?{keys[0]} {self.chance.choice(PREDICATES)} {self.leaf(set())} }})"
        return head, tail, [*keys, *(name for _, name in made)]

    def aggregate(self, bound: set[str], may_err: bool = True) -> str:
        name = self.chance.choice(sorted(bound) or ["a"])
        distinct = self.chance.choice(("", "", "DISTINCT "))
        number = f"IF(isNumeric(?{name}), ?{name}, 0)"
        erring = (  # now and then an error in a row
            f"MAX(xsd:integer(?{name}))", f"COUNT({distinct}STR(?{name}))", f"COUNT({distinct}(?{name} + 1))",
            f"SUM({distinct}STRLEN(STR(?{name})))", f"AVG({distinct}?{name})",
            f"STRLEN(GROUP_CONCAT({distinct}STR(?{name})))",
        )  # fmt: skip
        if may_err and self.chance.random() < 0.3:
            return self.chance.choice(erring)
        return self.chance.choice(
            (
                f"COUNT({distinct}*)", f"COUNT({distinct}?{name})", f"COUNT({distinct}?{name})",
                f"SUM({distinct}?{name})", f"SUM({distinct}{number})", f"AVG({distinct}{number})",
                f"MIN({number})", f"MAX({number})", f"COUNT(?{name}) + 1",
                f"COUNT({distinct}?{name}) / COUNT(*)", f"(COUNT(?{name}) > 0)",
            )
        )  # fmt: skip

    # ---- expressions

    def expression(self, bound: set[str], depth: int) -> str:
        """Anything that has a value."""
        if not depth or self.chance.random() < 0.25:
            return self.leaf(bound)
        x, y = self.expression(bound, depth - 1), self.expression(bound, depth - 1)
        condition = self.condition(bound, depth - 1)
        return self.chance.choice(
            (
                f"({x} + {y})", f"({x} - {y})", f"({x} * {y})", f"({x} / {y})", f"(-{x})", f"STR({x})", f"LANG({x})",
                f"DATATYPE({x})", f"COALESCE({x}, {y})", f"IF({condition}, {x}, {y})", f"ABS({x})", f"CEIL({x})",
                f"FLOOR({x})", f"STRLEN(STR({x}))", f"UCASE({x})", f"CONCAT(STR({x}), {y})", f"SUBSTR(STR({x}), 2)",
                f"REPLACE(STR({x}), \"a\", \"o\")", f"STRBEFORE({x}, {y})", f"STRAFTER(STR({x}), \"/\")",
                f"STRDT(STR({x}), xsd:integer)", f"STRLANG(STR({x}), \"en\")", f"IRI(STR({x}))", f"YEAR({x})",
                f"HOURS({x})", f"TZ({x})", f"xsd:integer({x})", f"xsd:decimal({x})", f"xsd:boolean({x})",
                f"xsd:string(STR({x}))", f"({condition})", f"ROUND({x})", f"MD5(STR({x}))", f"ENCODE_FOR_URI(STR({x}))",
                self.of_mixed(), self.of_tagged(), self.of_tagged(), f"TIMEZONE({x})", f"SECONDS({x})", f"DAY({x})",
            )
        )  # fmt: skip

    def of_mixed(self) -> str:
        """Numbers of several types: which type comes out, and whether they are equal."""
        x, y = self.chance.choice(MIXED), self.chance.choice(MIXED)
        operator = self.chance.choice("+-*/")
        sum_ = f"({x} {operator} {y})"
        compared = self.chance.choice(("=", "<", ">=", "!="))
        return self.chance.choice((f"DATATYPE({sum_})", f"({sum_} {compared} {self.chance.choice(MIXED)})"))

    def of_tagged(self) -> str:
        """Strings with and without languages, and patterns with flags."""
        x, y = self.chance.choice(TAGGED), self.chance.choice(('"b"', '"b"@en', '"B"', '"c"@fr', '""', '""@en'))
        flags = self.chance.choice(("", "i", "s", "m", "im", "x", "is"))
        pattern = self.chance.choice(('"^a"', '"b.A"', '"c$"', '"[a-b]+"', '"(B)(c)?"', '"a b"'))
        return self.chance.choice(
            (
                f"STRBEFORE({x}, {y})", f"STRAFTER({x}, {y})", f"CONTAINS({x}, {y})", f"STRSTARTS({x}, {y})",
                f"STRENDS({x}, {y})", f"CONCAT({x}, {y})", f"SUBSTR({x}, 2, 1)", f"SUBSTR({x}, 0)", f"UCASE({x})",
                f"LCASE({x})", f"STRLEN({x})", f"REGEX({x}, {pattern}, \"{flags}\")", f"ENCODE_FOR_URI({x})",
                f"REPLACE({x}, {pattern}, \"-$1-\", \"{flags}\")", f"REPLACE({x}, \"b\", \"z\")",
                f"({x} = {self.chance.choice(TAGGED)})", f"({x} < {self.chance.choice(TAGGED)})",
                f"STRDT({x}, xsd:string)",
                f"LANGMATCHES(LANG({x}), \"*\")", f"STRLANG({x}, \"en-us\")", f"SHA1({x})",
            )
        )  # fmt: skip

    def leaf(self, bound: set[str]) -> str:
        """Mostly a variable of the group itself; sometimes any other, that may be bound around the group only."""
        chosen = self.chance.random()
        if chosen < 0.1:
            return "?" + self.chance.choice(VARIABLES)
        return "?" + self.chance.choice(sorted(bound)) if bound and chosen < 0.8 else self.constant()

    def condition(self, bound: set[str], depth: int) -> str:
        """Something whose truth is asked for; it may well be an error."""
        x, y = self.leaf(bound), self.expression(bound, max(0, depth - 1))
        simple = (
            f"({x} = {y})", f"({x} != {y})", f"({x} < {y})", f"({x} >= {y})", f"BOUND({self.any(bound)})",
            f"!BOUND({self.any(bound)})", f"isIRI({x})", f"isBlank({x})", f"isLiteral({x})", f"isNumeric({x})",
            f"sameTerm({x}, {y})", f"({x} IN ({y}, {self.constant()}))", f"({x} NOT IN ({y}, {self.constant()}))",
            f"CONTAINS(STR({x}), \"a\")", f"STRSTARTS(STR({x}), \"a\")", f"REGEX(STR({x}), \"^a|2$\")",
            f"LANGMATCHES(LANG({x}), \"en\")", f"(ABS({x}))", f"(STR({x}))", f"isNumeric({x}) && ({x} > 0)",
        )  # fmt: skip
        if not depth or self.chance.random() < 0.6:
            return self.chance.choice(simple)
        one, other = self.condition(bound, depth - 1), self.condition(bound, depth - 1)
        return self.chance.choice((f"({one} && {other})", f"({one} || {other})", f"!({one})"))

    def any(self, bound: set[str]) -> str:
        return "?" + self.chance.choice(sorted(bound) if bound and self.chance.random() < 0.8 else VARIABLES)

    def template(self, bound: set[str]) -> str:
        def end(*others: str) -> str:
            pool = [*(f"?{name}" for name in sorted(bound)), *others]
            return self.chance.choice(pool)

        # No blank nodes: with us equal solutions make the same ones.
        count = self.chance.choice((1, 2, 2))
        return " ".join(f"{end(':a')} {end(':p', ':q', ':q')} {end('1')} ." for _ in range(count))


# ---- cutting down -----------------------------------------------------------------------------------------------


def smaller(asked: Asked) -> Iterator[Asked]:
    """Each query that lacks one thing of `asked`."""
    for group in _smaller_group(asked.group):
        yield replace(asked, group=group)
    if asked.keys or asked.limit is not None or asked.offset:
        yield asked.whole
    if asked.graphs is not None:
        yield asked.over_all
    if asked.tail.startswith("GROUP BY") and " HAVING" in asked.tail:
        yield replace(asked, tail=asked.tail.partition(" HAVING")[0])


def _smaller_group(group: Group) -> Iterator[Group]:
    for i, element in enumerate(group.elements):
        before, after = group.elements[:i], group.elements[i + 1 :]
        if before or after:  # an empty group is a question of its own
            yield Group(before + after)
        for child in element.children:
            yield Group(before + child.elements + after)
        for j, child in enumerate(element.children):
            for less in _smaller_group(child):
                children = [*element.children[:j], less, *element.children[j + 1 :]]
                yield Group([*before, Element(element.text, children), *after])
