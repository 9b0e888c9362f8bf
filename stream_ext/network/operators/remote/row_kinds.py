"""Row kinds: what each solution of a pattern has, whatever the data are. A source whose rows differ did not answer what
it was asked.

    ?s :p ?o OPTIONAL { ?o ?q ?z }      each has ?s, which is no literal, and ?o"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stream_ext.language.algebra.algebra import (
    Bgp,
    Extend,
    Filter,
    Graph,
    Join,
    LeftJoin,
    Minus,
    Pattern,
    Query,
    SubSelect,
    Union,
    Values,
)
from stream_ext.language.algebra.formulas import Aggregate
from stream_ext.language.algebra.terms import Node, Variable
from stream_ext.plan.logic import NO_NAMES, Names
from stream_ext.plan.sources.shapes import may_be_empty
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.sparql_client import Solution


@dataclass(frozen=True, slots=True)
class RowKinds:
    """Variables that each solution binds; of these, those that are no literal, and those that are IRIs."""

    certain: Names = NO_NAMES
    resources: Names = NO_NAMES
    iris: Names = NO_NAMES

    def __or__(self, other: RowKinds) -> RowKinds:
        return RowKinds(self.certain | other.certain, self.resources | other.resources, self.iris | other.iris)

    def __and__(self, other: RowKinds) -> RowKinds:
        resources = (self.resources | self.iris) & (other.resources | other.iris)
        return RowKinds(self.certain & other.certain, resources, self.iris & other.iris)

    def among(self, names: Collection[str]) -> RowKinds:
        those = frozenset(names)
        return RowKinds(self.certain & those, self.resources & those, self.iris & those)

    def check(self, rows: Sequence[Solution], called: str) -> None:
        """CannotFetch for a row that is no solution; `called`: who answered."""
        for name in self.certain:
            if any(name not in row for row in rows):
                raise CannotFetch(f"{called} answered a row without ?{name}, which each solution has")
        for name in self.resources:
            if (row := next((row for row in rows if row[name].startswith(b'"')), None)) is not None:
                raise CannotFetch(f"{called} answered {_shown(row, name)}, which is a literal where none can be")
        for name in self.iris:
            if (row := next((row for row in rows if not row[name].startswith(b"<")), None)) is not None:
                raise CannotFetch(f"{called} answered {_shown(row, name)}, which is no IRI where all are IRIs")


NO_KINDS = RowKinds()


def _shown(row: Solution, name: str) -> str:
    return f"{row[name].decode()[:200]} for ?{name}"


def row_kinds(pattern: Pattern) -> RowKinds:
    match pattern:
        case Bgp():
            return _of_triples(pattern)
        case Join(left, right):
            return row_kinds(left) | row_kinds(right)
        case LeftJoin(left) | Minus(left):
            return row_kinds(left)
        case Filter(_, inner) | Extend(inner):
            return row_kinds(inner)
        case Union((first, *rest)):
            found = row_kinds(first)
            for part in rest:
                found &= row_kinds(part)
            return found
        case Graph(node, inner):
            names = _names([node])
            return row_kinds(inner) | RowKinds(names, names)
        case Values(variables, rows):
            return RowKinds(frozenset(n for i, n in enumerate(variables) if all(row[i] is not None for row in rows)))
        case SubSelect(query):
            return row_kinds_of(query)
        case _:
            return NO_KINDS


def row_kinds_of(query: Query) -> RowKinds:
    """Of groups, that they are counted."""
    if query.shape.group_by or query.shape.place("aggregate") is not None:
        made = [(each.variable, each.expression) for each in query.shape.expressions]
        counts = [name for name, by in made if name is not None and isinstance(by, Aggregate) and by.name == "COUNT"]
        return RowKinds(frozenset(counts))
    return row_kinds(query.pattern).among(query.variables)


def _of_triples(bgp: Bgp) -> RowKinds:
    subjects = _names([triple.subject for triple in bgp.patterns])
    predicates = _names([triple.predicate for triple in bgp.patterns])
    objects = _names([triple.object for triple in bgp.patterns])
    ends = _names([end for path in bgp.paths if not may_be_empty(path.path) for end in (path.subject, path.object)])
    return RowKinds(subjects | predicates | objects | ends, subjects, predicates)


def _names(nodes: Sequence[Node]) -> Names:
    return frozenset(node.name for node in nodes if isinstance(node, Variable))
