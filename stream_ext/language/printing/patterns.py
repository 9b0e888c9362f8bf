"""Patterns: the algebra as groups again, such that the parser makes the same algebra of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stream_ext.language.algebra.algebra import (
    Bgp,
    Extend,
    Filter,
    Graph,
    InAnyWindow,
    InWindow,
    Join,
    LeftJoin,
    Minus,
    Pattern,
    Query,
    ServicePattern,
    SubSelect,
    Union,
    Values,
)
from stream_ext.language.algebra.formulas import Expression
from stream_ext.language.algebra.windows import Declared, WindowClause
from stream_ext.language.printing import terms
from stream_ext.language.printing.balance import chain
from stream_ext.language.printing.expressions import Expressions
from stream_ext.language.printing.windows import extent, stream

Element = tuple[str, bool]  # its text, and whether it is triples that stand without braces

_OPEN: Final = (LeftJoin, Minus, Extend)  # what the rest of a group may follow without braces around it


class Patterns(Expressions):
    def __init__(self, plain: bool, constants: list[bytes] | None = None) -> None:
        super().__init__(plain, constants)
        self.windows: Mapping[str, WindowClause] = {}

    def select(self, query: Query) -> str:
        """A sub-SELECT, without its braces."""
        raise AssertionError("the printer of queries says how")

    def group(self, pattern: Pattern, condition: Expression | None = None) -> str:
        if isinstance(pattern, SubSelect) and condition is None:
            return terms.block([self.select(pattern.query)])
        if condition is None:
            return terms.block([text for text, _ in self._elements(pattern)])
        # In OPTIONAL the filters of the group are its condition; a filter in braces is one of the pattern.
        inner = [self._element(pattern)] if isinstance(pattern, Filter) else self._elements(pattern)
        return terms.block([*(text for text, _ in inner), f"FILTER {self.constraint(condition)}"])

    def _optional(self, node: LeftJoin) -> str:
        if node.condition is None and isinstance(node.right, Filter):
            return terms.block([self.group(node.right)])
        return self.group(node.right, node.condition)

    def _elements(self, pattern: Pattern) -> list[Element]:
        """What stands in a group that means `pattern`."""
        filters: list[Expression] = []
        while isinstance(pattern, Filter):
            filters.append(pattern.condition)
            pattern = pattern.inner
        found = self._unfiltered(pattern)
        return found + [(f"FILTER {self.constraint(condition)}", False) for condition in reversed(filters)]

    def _unfiltered(self, pattern: Pattern) -> list[Element]:
        changes: list[LeftJoin | Minus | Extend] = []
        while isinstance(pattern, _OPEN):
            changes.append(pattern)
            pattern = pattern.inner if isinstance(pattern, Extend) else pattern.left
        if isinstance(pattern, Join):
            found = self._joined(pattern)
        elif isinstance(pattern, Bgp) and not (pattern.patterns or pattern.paths):
            found = []
        else:
            found = [self._element(pattern)]
        return found + [(self._change(change), False) for change in reversed(changes)]

    def _change(self, node: LeftJoin | Minus | Extend) -> str:
        if isinstance(node, Extend):
            return f"BIND ({self.expression(node.expression)} AS ?{node.variable})"
        if isinstance(node, Minus):
            return f"MINUS {self.group(node.right)}"
        return f"OPTIONAL {self._optional(node)}"

    def _joined(self, pattern: Join) -> list[Element]:
        found: list[Element] = []
        items: list[Pattern] = chain(pattern, Join)
        for item in items:
            if not found and isinstance(item, _OPEN):
                found += self._unfiltered(item)
                continue
            text, bare = self._element(item)
            if bare and found and found[-1][1]:
                text, bare = self.group(item), False  # or the two would be one basic graph pattern
            found.append((text, bare))
        return found

    def _element(self, pattern: Pattern) -> Element:
        match pattern:
            case Bgp(patterns, paths) if patterns or paths:
                return self._triples(pattern), True
            case Graph(node, inner):
                return f"GRAPH {self.fixed(node)} {self.group(inner)}", False
            case InWindow(name, inner):
                return f"{self._window(name)} {self.group(inner)}", False
            case InAnyWindow(name, inner):
                return f"{'GRAPH' if self.plain else 'WINDOW'} ?{name} {self.group(inner)}", False
            case ServicePattern(node, inner, silent):
                return f"SERVICE {'SILENT ' * silent}{self.fixed(node)} {self.group(inner)}", False
            case Union(parts):
                return " UNION ".join([self.group(part) for part in parts]), False
            case Values():
                return self.values(pattern), False
            case Bgp() | Join() | LeftJoin() | Minus() | Extend() | Filter() | SubSelect():
                return self.group(pattern), False

    def _triples(self, pattern: Bgp) -> str:
        lines = [
            f"{self.node(t.subject)} {self.predicate(t.predicate)} {self.node(t.object)} ." for t in pattern.patterns
        ]
        lines += [f"{self.node(p.subject)} {self.path(p.path)} {self.node(p.object)} ." for p in pattern.paths]
        return "\n".join(lines)

    def _window(self, name: str) -> str:
        """What stands before the group of a window."""
        window = self.windows.get(name)
        if self.plain or window is None:
            return f"GRAPH <{name}>"
        if window.declared is Declared.PATTERN:
            return f"STREAM {stream(window.stream)} {extent(window)}"
        if window.declared is Declared.WINDOW:
            return f"WINDOW <{name}>"
        return f"GRAPH {stream(window.stream)}"

    def values(self, table: Values) -> str:
        rows = [
            f"({' '.join('UNDEF' if value is None else self.constant(value) for value in row)})" for row in table.rows
        ]
        return f"VALUES ({' '.join('?' + name for name in table.variables)}) {terms.block(rows)}"
