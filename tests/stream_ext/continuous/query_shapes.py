"""Random queries over windows, of all that may or may not be divided among shards."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

_OVER_WINDOWS = [
    "?a :p ?b", "?b :p ?c", "?c :p ?a", "?a :v ?v", "?d :v ?u", "?d :p ?e", "?a ?any ?b", "?a :p :n2", "?e :p ?b",
    "?a :p %",
]  # fmt: skip
_VALUES = ("?v", "?u")


class Shape(NamedTuple):
    """`select`: up to WHERE. `pattern` is closed by the text around it; what comes after it ends with a comment."""

    select: str
    pattern: str
    windows: int


def random_shape(chance: random.Random, at_arrivals: bool = False) -> Shape:
    """`at_arrivals`: mostly of what is evaluated many arrivals in one step."""
    windows = chance.choice((1, 2))
    some = chance.sample(_OVER_WINDOWS, chance.choice((1, 2, 2, 3)))
    pattern = " ".join(f"WINDOW :w{chance.randrange(1, windows + 1)} {{ {each} }}" for each in some)
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        pattern = chance.choice(_MORE)(chance, pattern, windows)
    names = _names(pattern)
    if chance.random() < (0.0 if at_arrivals else 0.15):
        return Shape(_construct(chance, names), pattern, windows)
    if chance.random() < (0.0 if at_arrivals else 0.08):
        return Shape("ASK", pattern, windows)
    grouped = chance.random() < 0.35
    select, after = _groups(chance, names) if grouped else _rows(chance, names)
    if not at_arrivals and chance.random() < 0.4:
        after += _order(chance, select, names)
    return Shape(select, f"{pattern} }} {after} #" if after else pattern, windows)


def _names(pattern: str) -> list[str]:
    """The variables that are bound, in order of appearance."""
    outside = pattern.split("MINUS")[0].split("FILTER NOT")[0].split("FILTER EXISTS")[0]
    found = [word.strip("(){}.,") for word in outside.replace("(", " ").replace(")", " ").split()]
    return list(dict.fromkeys(word for word in found if word.startswith("?")))


# ---- what else may be in a pattern


def _filter(chance: random.Random, pattern: str, windows: int) -> str:
    one, other = chance.choice(_names(pattern)), chance.choice([*_names(pattern), "2", ":n3"])
    return f"{pattern} FILTER({one} {chance.choice(('<', '!=', '=', '>='))} {other})"


def _stored(chance: random.Random, pattern: str, windows: int) -> str:
    return f"{pattern} {chance.choice(_names(pattern))} :k {chance.choice(('?k', '?b', '%'))}"


def _optional(chance: random.Random, pattern: str, windows: int) -> str:
    name = chance.choice(_names(pattern))
    inner = chance.choice((f"{name} :k ?z", f"WINDOW :w{windows} {{ {name} :p ?z }}", "WINDOW :w1 { ?y :v ?z }"))
    return f"{pattern} OPTIONAL {{ {inner} }}"


def _minus(chance: random.Random, pattern: str, windows: int) -> str:
    name = chance.choice(_names(pattern))
    inner = chance.choice((f"{name} :k ?z", f"WINDOW :w{windows} {{ {name} :p ?z }}", f"WINDOW :w1 {{ ?z :p {name} }}"))
    return pattern + chance.choice((f" MINUS {{ {inner} }}", f" FILTER NOT EXISTS {{ {inner} }}"))


def _bind(chance: random.Random, pattern: str, windows: int) -> str:
    one = chance.choice(_names(pattern))
    how = chance.choice((f'CONCAT("t", STR({one}))', f"{one} + 0.5", f"STR({one})", one))
    return f"{pattern} BIND({how} AS ?t)" if "?t" not in pattern else pattern


def _union(chance: random.Random, pattern: str, windows: int) -> str:
    other = chance.choice((f"WINDOW :w{windows} {{ ?a :p ?b }}", "?a :k ?b", f"WINDOW :w{windows} {{ ?d :v ?v }}"))
    return f"{{ {pattern} }} UNION {{ {other} }}"


def _sub_select(chance: random.Random, pattern: str, windows: int) -> str:
    inner = chance.choice((
        f"{{ SELECT ?a (COUNT(*) AS ?n) {{ WINDOW :w{windows} {{ ?a :p ?y }} }} GROUP BY ?a }}",
        f"{{ SELECT (MAX(?y) AS ?n) {{ WINDOW :w{windows} {{ ?x :v ?y }} }} }}",
        f"{{ SELECT DISTINCT ?b {{ WINDOW :w{windows} {{ ?y :p ?b }} }} }}",
        f"{{ SELECT ?b {{ WINDOW :w{windows} {{ ?y :p ?b }} }} ORDER BY ?y LIMIT 2 }}",
    ))  # fmt: skip
    return f"{pattern} {inner}"


def _path(chance: random.Random, pattern: str, windows: int) -> str:
    name = chance.choice(_names(pattern))
    return f"{pattern} " + chance.choice((f"{name} :k+ ?z", f"WINDOW :w{windows} {{ {name} :p+ ?z }}"))


_MORE: Sequence[Callable[[random.Random, str, int], str]] = (
    _filter, _filter, _stored, _optional, _minus, _bind, _union, _sub_select, _path,
)  # fmt: skip


# ---- what is made of the solutions


def _rows(chance: random.Random, names: list[str]) -> tuple[str, str]:
    shown = chance.sample(names, chance.randrange(1, min(4, len(names)) + 1))
    if chance.random() < 0.1:
        shown.append(f"({chance.choice(('RAND()', 'STR(' + names[0] + ')', names[0] + ' + 1.5'))} AS ?made)")
    return f"SELECT {'DISTINCT ' if chance.random() < 0.4 else ''}{' '.join(shown)}", ""


def _groups(chance: random.Random, names: list[str]) -> tuple[str, str]:
    keys = chance.sample(names, chance.choice((0, 1, 1, 1, 2)) if len(names) > 1 else 1)
    over = chance.choice(names)
    made = chance.sample([
        "(COUNT(*) AS ?n1)", f"(COUNT(DISTINCT {over}) AS ?n2)", f"(MAX({over}) AS ?n3)", f"(AVG({over}) AS ?n4)",
        f"(SUM({over}) AS ?n5)", f"(SAMPLE({over}) AS ?n6)", f"(MIN({over}) AS ?n7)",
    ], chance.choice((1, 1, 2)))  # fmt: skip
    shown = [*keys, *made] if chance.random() < 0.8 else [*made, *keys[:1]]
    having = " HAVING(COUNT(*) > 1)" if chance.random() < 0.3 else ""
    distinct = "DISTINCT " if chance.random() < 0.15 else ""
    return f"SELECT {distinct}{' '.join(shown)}", (f"GROUP BY {' '.join(keys)}" if keys else "") + having


def _order(chance: random.Random, select: str, names: list[str]) -> str:
    is_grouped = "(COUNT" in select or "(MAX" in select or "(AVG" in select or "(SUM" in select or "(MIN" in select
    own = [word.strip("()") for word in select.split() if word.startswith("?") and not word.startswith("?made")]
    by = own if is_grouped or "SAMPLE" in select or "DISTINCT" in select else [*own, *names]
    found = ""
    if by and chance.random() < 0.85:
        order = chance.sample(by, chance.randrange(1, min(2, len(by)) + 1))
        found = " ORDER BY " + " ".join(chance.choice((each, f"DESC({each})")) for each in order)
    if chance.random() < 0.7:
        found += f" LIMIT {chance.randrange(0, 5)}" if chance.random() < 0.9 else ""
        found += f" OFFSET {chance.randrange(1, 3)}" if chance.random() < 0.3 else ""
    return found


def _construct(chance: random.Random, names: list[str]) -> str:
    ends = [*names, ":n1"]
    quads = [
        f"{chance.choice(names)} {chance.choice((':made', ':is'))} {chance.choice(ends)}"
        for _ in range(chance.choice((1, 1, 2)))
    ]
    if chance.random() < 0.15:
        quads.append(f"_:x :of {names[0]}")
    return f"CONSTRUCT {{ {' . '.join(quads)} }}"
