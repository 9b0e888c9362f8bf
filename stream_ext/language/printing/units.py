"""Whole texts: queries, registrations, updates, administration."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from stream_ext.errors import BadArgument
from stream_ext.language.algebra.algebra import Assigned, Form, QuadPattern, Query, Register
from stream_ext.language.algebra.formulas import FunctionCall
from stream_ext.language.algebra.policy import PatternScope, policy_of
from stream_ext.language.algebra.statements import (
    Admin,
    CreateStream,
    DeleteData,
    DeleteWhere,
    Drop,
    Explain,
    InsertData,
    Load,
    Manage,
    Modify,
    Named,
    Operation,
    Quad,
    Show,
    Transfer,
    Unit,
    Update,
    Whole,
)
from stream_ext.language.algebra.terms import Constant, Variable
from stream_ext.language.algebra.windows import Declared, Dialect, GraphClause
from stream_ext.language.printing import terms
from stream_ext.language.printing.patterns import Patterns
from stream_ext.language.printing.windows import declaration

#: The store's default graph where a plain text has to name it.
DEFAULT_GRAPH = "urn:rillet:ns#default"


class Units(Patterns):
    def unit(self, unit: Unit) -> str:
        if isinstance(unit, Query):
            return self._with_base(self.query(unit))
        if isinstance(unit, Update):
            return self._update(unit)
        if isinstance(unit, Register):
            text = self.query(unit.query)
            return self._with_base(text if self.plain else f"{_registration(unit)}\n{text}")
        if self.plain:
            raise BadArgument("statements that administer streams and queries cannot be written in plain SPARQL")
        return self._administration(unit)

    def _with_base(self, text: str) -> str:
        return f"BASE <{self.base}>\n{text}" if self.base else text

    # ---- queries

    def query(self, query: Query) -> str:
        self.windows = {window.name: window for window in query.windows}
        return self._lines(query, self._dataset(query))

    def select(self, query: Query) -> str:
        return self._lines(query, [])

    def _lines(self, query: Query, dataset: list[str]) -> str:
        shape = query.shape
        short = query.form is Form.CONSTRUCT and shape.template is None
        lines = [self._head(query), *dataset, f"WHERE {self.group(query.pattern)}"]
        if short:
            lines = [lines[0], *dataset, lines[-1]]
        if shape.group_by:
            lines.append(f"GROUP BY {' '.join([self._group_key(key) for key in shape.group_by])}")
        if shape.having:
            lines.append(f"HAVING {' '.join([self.constraint(each) for each in shape.having])}")
        if shape.order_by:
            keys = [f"{'DESC' if o.descending else 'ASC'}({self.expression(o.expression)})" for o in shape.order_by]
            lines.append(f"ORDER BY {' '.join(keys)}")
        if query.limit is not None:
            lines.append(f"LIMIT {query.limit}")
        if query.offset:
            lines.append(f"OFFSET {query.offset}")
        if shape.values is not None:
            lines.append(self.values(shape.values))
        return "\n".join(lines)

    def _head(self, query: Query) -> str:
        shape = query.shape
        words = [query.form.value]
        if query.r2s is not None and not self.plain:
            words.append(query.r2s.value)
        if query.form is Form.SELECT:
            words += ["DISTINCT"] * query.distinct + ["REDUCED"] * shape.reduced
            words += self._projection(query)
        elif query.form is Form.DESCRIBE:
            words += [self.fixed(node) for node in shape.described] or ["*"]
        elif shape.template is not None and query.form is Form.CONSTRUCT:
            words.append(terms.block([self._quad(quad) for quad in shape.template]))
        return " ".join(words)

    def _projection(self, query: Query) -> list[str]:
        assigned = {each.variable: each for each in query.shape.expressions}
        return [
            f"({self.expression(assigned[name].expression)} AS ?{name})" if name in assigned else "?" + name
            for name in query.variables
        ] or ["*"]

    def _group_key(self, key: Assigned) -> str:
        if key.variable is not None:
            return f"({self.expression(key.expression)} AS ?{key.variable})"
        if isinstance(key.expression, Variable | FunctionCall):
            return self.expression(key.expression)
        return f"({self.expression(key.expression)})"

    def _dataset(self, query: Query) -> list[str]:
        graphs = query.shape.graphs
        if not self.plain:
            declared = [w for w in query.windows if w.declared is not Declared.PATTERN]
            return [*(_graph("FROM", clause) for clause in graphs), *map(declaration, declared)]
        lines = [_graph("FROM", clause, DEFAULT_GRAPH) for clause in graphs]
        if query.dialect is Dialect.CSPARQL:
            return list(dict.fromkeys([*lines, *_merged(query)]))
        if not graphs:
            return []
        if query.dialect is not Dialect.NONE:
            # GRAPH has to reach the windows too; and FROM NAMED alone leaves the default graph of such a query alone.
            lines += [f"FROM NAMED <{window.name}>" for window in query.windows]
            if all(clause.named for clause in graphs):
                lines.append(f"FROM <{DEFAULT_GRAPH}>")
        return list(dict.fromkeys(lines))

    # ---- updates

    def _update(self, update: Update) -> str:
        """A BASE stands right before each operation that needs another one than is in force."""
        texts, base = [], None
        for operation in update.operations:
            self.base = base
            text = self._operation(operation)
            texts.append(f"BASE <{self.base}>\n{text}" if self.base != base else text)
            base = self.base
        return " ;\n".join(texts)

    def _operation(self, operation: Operation) -> str:
        match operation:
            case InsertData(quads):
                return f"INSERT DATA {self._quads(quads)}"
            case DeleteData(quads):
                return f"DELETE DATA {self._quads(quads)}"
            case DeleteWhere(quads):
                return f"DELETE WHERE {self._quads(quads)}"
            case Modify():
                return self._modify(operation)
            case Load(source, into, silent):
                target = "" if into is None else f" INTO GRAPH {self.fixed(into)}"
                return f"LOAD {'SILENT ' * silent}{self.fixed(source)}{target}"
            case Manage(verb, target, silent):
                named = target.value if isinstance(target, Whole) else f"GRAPH {self.fixed(target)}"
                return f"{verb} {'SILENT ' * silent}{named}"
            case Transfer(verb, source, target, silent):
                return f"{verb} {'SILENT ' * silent}{self._place(source)} TO {self._place(target)}"

    def _place(self, graph: Constant | None) -> str:
        return "DEFAULT" if graph is None else f"GRAPH {self.fixed(graph)}"

    def _modify(self, operation: Modify) -> str:
        lines = []
        if operation.graph is not None:
            lines.append(f"WITH {self.fixed(operation.graph)}")
        if operation.deletes is not None:
            lines.append(f"DELETE {self._quads(operation.deletes)}")
        if operation.inserts is not None:
            lines.append(f"INSERT {self._quads(operation.inserts)}")
        lines += [_graph("USING", clause, DEFAULT_GRAPH * self.plain) for clause in operation.using]
        return "\n".join([*lines, f"WHERE {self.group(operation.pattern)}"])

    def _quads(self, quads: Iterable[Quad | QuadPattern]) -> str:
        parts: list[str] = []
        for graph, run in groupby(quads, key=lambda quad: quad.graph):
            triples = [self._quad(quad) for quad in run]
            parts += triples if graph is None else [f"GRAPH {self.fixed(graph)} {terms.block(triples)}"]
        return terms.block(parts)

    def _quad(self, quad: Quad | QuadPattern) -> str:
        return f"{self.node(quad.subject)} {self.predicate(quad.predicate)} {self.node(quad.object)} ."

    # ---- administration

    def _administration(self, unit: Admin) -> str:
        match unit:
            case CreateStream(named, options):
                listed = ", ".join([f"{name} = {self.constant(value)}" for name, value in options])
                return f"CREATE STREAM {_named(named)}" + (f" WITH ({listed})" if options else "")
            case Drop(kind, target):
                return f"DROP {kind} {_named(target)}"
            case Show(kind):
                return f"SHOW {kind}"
            case Explain(inner):
                return f"EXPLAIN\n{self.unit(inner)}"


def _registration(unit: Register) -> str:
    every_ms = unit.query.shape.every_ms
    computed = f" COMPUTED EVERY {terms.duration(every_ms)}" if every_ms else ""
    return f"REGISTER QUERY {_named(Named(unit.iri, unit.name))}{computed} AS"


def _named(named: Named) -> str:
    return f"<{named.iri}>" if named.iri is not None else str(named.name)


def _merged(query: Query) -> list[str]:
    """C-SPARQL: windows are part of the default graph, beside what FROM names; GRAPH reaches them too."""
    default = [DEFAULT_GRAPH] if policy_of(query).scope.value is PatternScope.WINDOWS_AND_DEFAULT_GRAPH else []
    merged = [f"FROM <{name}>" for name in [*default, *(window.name for window in query.windows)]]
    return merged + [f"FROM NAMED <{window.name}>" for window in query.windows]


def _graph(word: str, clause: GraphClause, default: str = "") -> str:
    if clause.graph is None:
        return f"{word} <{default}>" if default else f"{word} DEFAULT"
    return f"{word} {'NAMED ' * clause.named}{clause.graph.text.decode()}"
