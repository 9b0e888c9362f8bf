"""The model: what operators mean, in plain Python on Counters. It shares no code with the engine.

A change is a list of (row, weight, until). What is there at a time is the bag of rows whose weights, over the entries
that are valid then, sum to more than nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

Row = tuple[int, ...]
Entry = tuple[Row, int, int]


def alive(entries: Iterable[Entry], time: int) -> Counter[Row]:
    """The bag at `time`: an entry counts up to its `until`."""
    bag: Counter[Row] = Counter()
    for row, weight, until in entries:
        if until >= time:
            bag[row] += weight
    return Counter({row: n for row, n in bag.items() if n})


def join(left: Counter[Row], right: Counter[Row], left_key: list[int], right_key: list[int]) -> Counter[Row]:
    rest = [i for i in range(max((len(r) for r in right), default=0)) if i not in right_key]
    out: Counter[Row] = Counter()
    for a, n in left.items():
        for b, m in right.items():
            if all(a[i] == b[j] for i, j in zip(left_key, right_key, strict=True)):
                out[a + tuple(b[i] for i in rest)] += n * m
    return Counter({row: n for row, n in out.items() if n})


def distinct(bag: Counter[Row]) -> Counter[Row]:
    return Counter({row: 1 for row, n in bag.items() if n > 0})


def project(bag: Counter[Row], columns: list[int | None]) -> Counter[Row]:
    out: Counter[Row] = Counter()
    for row, n in bag.items():
        out[tuple(0 if i is None else row[i] for i in columns)] += n
    return out


def gained(now: Counter[Row], before: Counter[Row]) -> Counter[Row]:
    return now - before


# ---- grouping --------------------------------------------------------------------------------------------------

#: A term that a test uses: its text; how it compares (the place in the test's list of terms); the kind of number that
#: it is (None: none) and its value; what STR() makes of it (None: an error).
Meaning = tuple[bytes, int, str | None, Fraction | float, str | None]
#: What a group's row says: a key (its id), a chosen term (its text), a number (kind, value), a text, an error (None).
Answered = int | bytes | tuple[str, Fraction | float] | str | None

_WIDTHS = ("integer", "decimal", "float", "double")


def group(
    bag: Counter[Row],
    keys: list[int],
    aggregates: list[tuple[str, int | None, bool]],
    meanings: dict[int, Meaning],
    always: bool,
) -> Counter[tuple[Answered, ...]]:
    """`aggregates` are (function, column or None for *, DISTINCT); 0 is unbound, which is an error."""
    groups: dict[tuple[int, ...], list[Row]] = {(): []} if always else {}
    for row in bag.elements():
        groups.setdefault(tuple(row[i] for i in keys), []).append(row)
    out: Counter[tuple[Answered, ...]] = Counter()
    for key, rows in groups.items():
        out[*key, *(_aggregate(rows, *aggregate, meanings) for aggregate in aggregates)] += 1
    return out


def _aggregate(
    rows: list[Row], function: str, column: int | None, distinct: bool, meanings: dict[int, Meaning]
) -> Answered:
    if column is None:
        return "integer", Fraction(len(set(rows)) if distinct else len(rows))
    ids = [row[column] for row in rows]
    ids = sorted(set(ids)) if distinct else ids
    terms = sorted((meanings[id] for id in ids if id), key=lambda term: term[1])
    if function == "COUNT":
        return "integer", Fraction(len(terms))
    if function == "SAMPLE":
        return terms[0][0] if terms else None
    if 0 in ids:
        return None
    if function in ("MIN", "MAX"):
        return terms[0 if function == "MIN" else -1][0] if terms else None
    if function == "GROUP_CONCAT":
        texts = [term[4] for term in terms]
        return None if None in texts else "|".join(text for text in texts if text is not None)
    return _sum(terms, average=function == "AVG")


def _sum(terms: list[Meaning], average: bool) -> Answered:
    kinds = [term[2] for term in terms]
    if None in kinds:
        return None
    kind = max((_WIDTHS.index(kind) for kind in kinds if kind is not None), default=0)
    special = [term[3] for term in terms if isinstance(term[3], float)]  # INF and NaN are no fractions
    total: Fraction | float = sum((term[3] for term in terms), Fraction(0)) if not special else sum(special)
    if not average or not terms:
        return _WIDTHS[kind], total
    return _WIDTHS[max(kind, 1)], total / len(terms)


# ---- paths -----------------------------------------------------------------------------------------------------

#: A link (a predicate), or ("inverse", path), ("sequence", a, b), ("choice", a, b), ("*" or "+" or "?", path), or
#: ("not", predicates forward or None, predicates backward or None).
Path = int | tuple[Any, ...]
Pair = tuple[int, int]


def path(way: Path, edges: set[tuple[int, int, int]], nodes: set[int]) -> Counter[Pair]:
    """How often a path leads from a to b, over edges (s, p, o); `nodes` are those that a path of length zero is at."""
    if isinstance(way, int):
        return Counter((s, o) for s, p, o in edges if p == way)
    kind = way[0]
    if kind == "inverse":
        return Counter({(b, a): n for (a, b), n in path(way[1], edges, nodes).items()})
    if kind == "not":
        forward = [(s, o) for s, p, o in edges if way[1] is not None and p not in way[1]]
        return Counter(forward + [(o, s) for s, p, o in edges if way[2] is not None and p not in way[2]])
    inner = path(way[1], edges, nodes)
    if kind == "choice":
        return inner + path(way[2], edges, nodes)
    if kind == "sequence":
        out: Counter[Pair] = Counter()
        for (a, b), n in inner.items():
            for (c, d), m in path(way[2], edges, nodes).items():
                if b == c:
                    out[a, d] += n * m
        return out
    return _repeated(kind, set(inner), nodes)


def _repeated(kind: str, steps: set[Pair], nodes: set[int]) -> Counter[Pair]:
    """By trying from each node where a step leads, and from there, until nothing is new."""
    found = {(node, node) for node in nodes} if kind in "*?" else set()
    reached = set(steps)
    while kind in "*+" and not {(a, d) for a, b in reached for c, d in steps if b == c} <= reached:
        reached |= {(a, d) for a, b in reached for c, d in steps if b == c}
    return Counter(found | reached)
