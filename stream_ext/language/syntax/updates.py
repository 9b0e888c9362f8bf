"""Updates: a sequence of operations, each with its prologue."""

from __future__ import annotations

from stream_ext.language.algebra.algebra import QuadPattern
from stream_ext.language.algebra.statements import (
    DeleteData,
    DeleteWhere,
    InsertData,
    Load,
    Manage,
    Modify,
    Operation,
    Quad,
    Transfer,
    Update,
    Whole,
)
from stream_ext.language.algebra.terms import BlankLabel, Constant, Node, TemplateNode, Variable
from stream_ext.language.algebra.windows import GraphClause
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.datasets import graph_clause
from stream_ext.language.syntax.depth import check_depth
from stream_ext.language.syntax.groups import group
from stream_ext.language.syntax.triples import Triples

MANAGED = frozenset({"CLEAR", "DROP", "CREATE"})
TRANSFERS = frozenset({"ADD", "MOVE", "COPY"})
VERBS = frozenset({"INSERT", "DELETE", "WITH", "LOAD"}) | MANAGED | TRANSFERS
_NO_BLANKS_DELETED = "DELETE cannot contain a blank node"


def update(cursor: Cursor) -> Update:
    operations: list[Operation] = []
    while cursor.kind != "end":
        cursor.begin_operation()
        operations.append(_operation(cursor))
        if not cursor.take(";"):
            break
        cursor.prologue()
    return Update(tuple(operations))


def _operation(cursor: Cursor) -> Operation:
    word = cursor.word()
    if word in ("INSERT", "DELETE") and cursor.peek_word() == "DATA":
        position = cursor.position()
        cursor.advance()
        cursor.advance()
        quads = _Data(cursor, word).read()
        return InsertData(quads, position) if word == "INSERT" else DeleteData(quads, position)
    if word == "DELETE" and cursor.peek_word() == "WHERE":
        return _delete_where(cursor)
    if word in ("INSERT", "DELETE", "WITH"):
        return _modify(cursor)
    if word == "LOAD":
        return _load(cursor)
    if word in MANAGED:
        return _manage(cursor, word)
    if word in TRANSFERS:
        return _transfer(cursor, word)
    if word in ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE", "REGISTER"):
        cursor.fail(f"{word} cannot be part of an update; send it as a request of its own")
    return cursor.expected("INSERT, DELETE, LOAD, CLEAR, CREATE, DROP, ADD, MOVE, COPY or WITH")


# ---- quads ---------------------------------------------------------------------------------------------------


class _Data:
    """The braces of INSERT DATA and DELETE DATA: triples, and GRAPH blocks of triples."""

    def __init__(self, cursor: Cursor, word: str) -> None:
        self._cursor = cursor
        self._quads: list[Quad] = []
        self._graph: Constant | None = None
        self._triples: Triples[BlankLabel] = Triples(
            cursor,
            BlankLabel,
            self._emit,
            refuse_variables=f"{word} DATA contains data only; a variable is not allowed in it",
            refuse_blanks="DELETE DATA cannot contain a blank node" if word == "DELETE" else None,
        )

    def read(self) -> tuple[Quad, ...]:
        cursor = self._cursor
        cursor.scope += 1
        cursor.require("{", "to begin the data")
        self._triples.block()
        while not cursor.take("}"):
            if cursor.word() != "GRAPH":
                cursor.expected("a triple, GRAPH or '}'")
            self._graph_block()
            cursor.take(".")
            self._triples.block()
        return tuple(self._quads)

    def _graph_block(self) -> None:
        cursor = self._cursor
        cursor.advance()
        if cursor.kind not in ("iri", "pname"):
            cursor.expected("the IRI of a graph after GRAPH")
        self._graph = cursor.constant()
        cursor.require("{", "to begin the data of the graph")
        self._triples.block()
        cursor.require("}", "to close the data of the graph")
        self._graph = None

    def _emit(
        self,
        subject: Variable | Constant | BlankLabel,
        predicate: Variable | Constant,
        target: Variable | Constant | BlankLabel,
        offset: int,
    ) -> None:
        if isinstance(subject, Constant) and subject.text[:1] == b'"':
            self._cursor.fail("a literal cannot be the subject of a triple", offset)
        # Variables were refused where they stood.
        self._quads.append(Quad(subject, predicate, target, self._graph))  # type: ignore[arg-type]


class _Quads:
    """The braces of a template: triples and GRAPH blocks, with variables."""

    def __init__(self, cursor: Cursor, refuse_blanks: str | None) -> None:
        self._cursor = cursor
        self._quads: list[QuadPattern] = []
        self._graph: Node | None = None
        self._triples: Triples[BlankLabel] = Triples(cursor, BlankLabel, self._emit, refuse_blanks=refuse_blanks)

    def read(self) -> tuple[QuadPattern, ...]:
        cursor = self._cursor
        labels, cursor.labels = cursor.labels, {}  # those of a template mean fresh nodes for each solution
        cursor.require("{", "to begin the quads")
        self._triples.block()
        while not cursor.take("}"):
            if cursor.word() != "GRAPH":
                cursor.expected("a triple, GRAPH or '}'")
            cursor.advance()
            self._graph = self._name()
            cursor.require("{", "to begin the quads of the graph")
            self._triples.block()
            cursor.require("}", "to close the quads of the graph")
            self._graph = None
            cursor.take(".")
            self._triples.block()
        cursor.labels = labels
        return tuple(self._quads)

    def _name(self) -> Node:
        cursor = self._cursor
        if cursor.kind == "var":
            name = cursor.variable_name
            cursor.advance()
            return Variable(name)
        if cursor.kind not in ("iri", "pname"):
            cursor.expected("the IRI of a graph, or a variable, after GRAPH")
        return cursor.constant()

    def _emit(self, subject: TemplateNode, predicate: Node, target: TemplateNode, _: int) -> None:
        self._quads.append(QuadPattern(subject, predicate, target, self._graph))


# ---- DELETE and INSERT with a pattern ------------------------------------------------------------------------


def _delete_where(cursor: Cursor) -> Operation:
    position = cursor.position()
    cursor.advance()
    cursor.advance()
    quads = _Quads(cursor, _NO_BLANKS_DELETED).read()
    for _ in quads:
        cursor.part()
    return DeleteWhere(quads, position)


def _modify(cursor: Cursor) -> Operation:
    position = cursor.position()
    graph = _named_graph(cursor, "WITH") if cursor.take_word("WITH") else None
    deletes = inserts = None
    if cursor.take_word("DELETE"):
        deletes = _Quads(cursor, _NO_BLANKS_DELETED).read()
    elif cursor.word() != "INSERT":
        cursor.expected("DELETE or INSERT after WITH")
    if cursor.take_word("INSERT"):
        inserts = _Quads(cursor, None).read()
    using = _using(cursor)
    cursor.require_word("WHERE", "and a pattern (or USING)")
    cursor.visible, start = {}, cursor.offset
    labels, cursor.labels = cursor.labels, {}
    pattern = group(cursor)
    cursor.labels = labels
    check_depth(cursor, pattern, start, "the pattern")
    return Modify(graph, deletes, inserts, using, pattern, position)


def _using(cursor: Cursor) -> tuple[GraphClause, ...]:
    before, cursor.graphs = cursor.graphs, []
    while cursor.word() == "USING":
        start = cursor.offset
        cursor.advance()
        named = cursor.take_word("NAMED")
        graph_clause(cursor, named, "USING NAMED" if named else "USING", start)
    found, cursor.graphs = tuple(cursor.graphs), before
    return found


# ---- whole graphs --------------------------------------------------------------------------------------------


def _named_graph(cursor: Cursor, after: str) -> Constant:
    if cursor.kind not in ("iri", "pname"):
        cursor.expected(f"the IRI of a graph after {after}")
    return cursor.constant()


def _load(cursor: Cursor) -> Operation:
    position = cursor.position()
    cursor.advance()
    silent = cursor.take_word("SILENT")
    if cursor.kind not in ("iri", "pname"):
        cursor.expected("the IRI of a document after LOAD")
    source = cursor.constant()
    into = None
    if cursor.take_word("INTO"):
        cursor.require_word("GRAPH", "after INTO")
        into = _named_graph(cursor, "GRAPH")
    return Load(source, into, silent, position)


def _manage(cursor: Cursor, verb: str) -> Operation:
    position = cursor.position()
    cursor.advance()
    silent = cursor.take_word("SILENT")
    if cursor.take_word("GRAPH"):
        return Manage(verb, _named_graph(cursor, "GRAPH"), silent, position)
    word = cursor.word()
    if verb != "CREATE" and word in Whole.__members__:
        cursor.advance()
        return Manage(verb, Whole(word), silent, position)
    choice = "STREAM or GRAPH" if verb == "CREATE" else "GRAPH, DEFAULT, NAMED or ALL"
    return cursor.expected(f"{choice} after {verb}")


def _transfer(cursor: Cursor, verb: str) -> Operation:
    position = cursor.position()
    cursor.advance()
    silent = cursor.take_word("SILENT")
    source = _graph_or_default(cursor, verb)
    cursor.require_word("TO", "and another graph")
    return Transfer(verb, source, _graph_or_default(cursor, "TO"), silent, position)


def _graph_or_default(cursor: Cursor, after: str) -> Constant | None:
    if cursor.take_word("DEFAULT"):
        return None
    cursor.take_word("GRAPH")
    return _named_graph(cursor, after)
