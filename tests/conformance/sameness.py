"""Whether two tables say the same: equal up to the names of blank nodes.

A table is a list of rows of terms (N-Triples bytes, None: unbound); a graph is a table of three columns. Blank nodes
are told apart by where they stand: each gets a colour that is refined by the colours in its rows, until nothing
changes. Where colours still tie, one tied node is singled out on one side, and tried against each on the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

Row = Sequence[bytes | None]
Table = Sequence[Row]
Colours = dict[bytes, int]


def is_blank(term: bytes | None) -> bool:
    return term is not None and term.startswith(b"_:")


def same(left: Table, right: Table, *, ordered: bool = False) -> bool:
    """As bags of rows, or as sequences."""
    if ordered:
        left, right = _numbered(left), _numbered(right)
    if len(left) != len(right):
        return False
    return _match(left, right, dict.fromkeys(_blanks(left), 0), dict.fromkeys(_blanks(right), 0))


def _numbered(table: Table) -> Table:
    return [(b"%d" % number, *row) for number, row in enumerate(table)]


def _blanks(table: Table) -> set[bytes]:
    return {term for row in table for term in row if term is not None and is_blank(term)}


def _match(left: Table, right: Table, left_colours: Colours, right_colours: Colours) -> bool:
    left_colours, right_colours = _refined(left, left_colours), _refined(right, right_colours)
    if Counter(_painted(left, left_colours)) != Counter(_painted(right, right_colours)):
        return False
    tied = _smallest_tie(left_colours)
    if tied is None:
        return True
    single, colour = tied[0], left_colours[tied[0]]
    fresh = max(left_colours.values()) + max(right_colours.values()) + 1
    others = [node for node, theirs in right_colours.items() if theirs == colour]
    return any(_match(left, right, left_colours | {single: fresh}, right_colours | {o: fresh}) for o in others)


def _refined(table: Table, colours: Colours) -> Colours:
    """A colour is a hash of what was said before, so that both sides give equal nodes equal colours."""
    while True:
        seen = defaultdict(list)
        for row, painted in zip(table, _painted(table, colours), strict=True):
            for place, term in enumerate(row):
                if term is not None and is_blank(term):
                    seen[term].append(hash((place, painted)))
        finer = {node: hash((colours[node], tuple(sorted(seen[node])))) for node in colours}
        if len(set(finer.values())) == len(set(colours.values())):
            return finer
        colours = finer


def _painted(table: Table, colours: Colours) -> list[tuple[bytes | int | None, ...]]:
    """The rows with colours for blank nodes; and which places of a row hold one and the same node."""
    rows = []
    for row in table:
        names = [term for term in row if is_blank(term)]
        rows.append(
            (*(colours.get(term, term) if term is not None else None for term in row), *map(names.index, names))
        )
    return rows


def _smallest_tie(colours: Colours) -> list[bytes] | None:
    classes = defaultdict(list)
    for node, colour in colours.items():
        classes[colour].append(node)
    ties = [nodes for nodes in classes.values() if len(nodes) > 1]
    return min(ties, key=len, default=None)
