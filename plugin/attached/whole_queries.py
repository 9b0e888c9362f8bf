"""Queries and updates that rdflib's evaluator evaluates as a whole: those that may call a function in Python.

They read a view, and belong to the graph whose functions they call. Nothing is fetched for FROM, and only what the
settings allow for SERVICE and LOAD."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rdflib import Graph, Variable
from rdflib.graph import ConjunctiveGraph, Dataset
from rdflib.plugins.sparql import CUSTOM_EVALS, prepareQuery, prepareUpdate
from rdflib.plugins.sparql import update as operations
from rdflib.plugins.sparql.evaluate import evalAggregateJoin, evalPart
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.processor import SPARQLResult
from rdflib.plugins.sparql.sparql import Query, QueryContext, Update
from rdflib.query import Result
from rdflib.term import Identifier

from plugin.attached.python_functions import OWN_KEY, PythonFunctions, parts_of
from plugin.attached.view import From, View, clauses_of
from stream_ext.errors import BadArgument, NotAllowed, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls, OutOfBounds

ROWS_MAX = 10_000_000
#: About what rdflib's evaluator needs for a row.
_ROW_BYTES = 1_000


def _load(context: QueryContext, operation: CompValue) -> None:
    """LOAD, of a URL that was checked before."""
    into = context.graph if operation.graphiri is None else context.dataset.get_context(operation.graphiri)
    assert into is not None
    into.parse(operation.iri)


_OPERATIONS: Mapping[str, Callable[[QueryContext, CompValue], None]] = {
    "Load": _load,
    "Clear": operations.evalClear,
    "Drop": operations.evalDrop,
    "Create": operations.evalCreate,
    "Add": operations.evalAdd,
    "Move": operations.evalMove,
    "Copy": operations.evalCopy,
    "InsertData": operations.evalInsertData,
    "DeleteData": operations.evalDeleteData,
    "DeleteWhere": operations.evalDeleteWhere,
    "Modify": operations.evalModify,
}
#: Those that ask what to change; the others name it.
_WITH_PATTERN = ("DeleteWhere", "Modify")


class OwnedContext(QueryContext):
    """The context of a query that reads `read`, and that the functions of `owner` are called for."""

    def __init__(self, read: Graph, owner: Graph, bindings: Any = None, initial: Any = None) -> None:
        self._read, self._owner = read, owner
        super().__init__(read, bindings, initial)
        self._dataset = owner  # type: ignore[assignment]  # by this name functions find out whose the query is

    @property
    def dataset(self) -> Any:
        if not isinstance(self._read, ConjunctiveGraph):
            raise BadArgument("this is a single Graph, which knows no named graphs; take a Dataset")
        return self._read

    def load(self, source: Any, default: bool = False, into: Any = None, **_: Any) -> None:
        """A graph that USING or FROM names: rdflib's own contexts would fetch it."""
        if default:
            self.graph += self.dataset.get_context(source)

    def clone(self, bindings: Any = None) -> OwnedContext:
        created = OwnedContext(self._read, self._owner, bindings or self.bindings, self.initBindings)
        created.prologue, created.graph = self.prologue, self.graph
        created.bnodes, created._now = self.bnodes, self._now
        return created


def _grouped(context: QueryContext, part: CompValue) -> Iterator[Any]:
    """GROUP BY makes no group of no solutions; rdflib makes one, without values."""
    if part.name != "AggregateJoin" or part.p.expr is None or not isinstance(context, OwnedContext):
        raise NotImplementedError
    return (row for row in evalAggregateJoin(context, part) if len(row))


CUSTOM_EVALS[f"{OWN_KEY}groups"] = _grouped


class WholeQueries:
    def __init__(self, functions: PythonFunctions, allowed_urls: AllowedUrls = NOTHING) -> None:
        self.functions, self._allowed = functions, allowed_urls
        self._making_graphs = threading.RLock()

    def prepared(self, text: str, namespaces: Mapping[str, Any], base: str | None = None) -> Query:
        query = prepareQuery(text, initNs=dict(namespaces), base=base)
        self._check_fetches(query.algebra, text)
        return query

    def prepared_update(self, text: str, namespaces: Mapping[str, Any], base: str | None = None) -> Update:
        update = self.read_update(text, namespaces, base)
        self._check_fetches(update.algebra, text)
        return update

    @staticmethod
    def read_update(text: str, namespaces: Mapping[str, Any], base: str | None = None) -> Update:
        """Without a check of what it would fetch: for programs, which may fetch what they like."""
        return prepareUpdate(text, initNs=dict(namespaces), base=base)

    def query(
        self,
        query: Query,
        view: View,
        bindings: Mapping[str, Identifier] | None = None,
        clauses: From | None = None,
        control: Control = Control.FREE,
        rows_max: int = ROWS_MAX,
        now: datetime | None = None,
    ) -> Result:
        """The whole result: when this returns, nothing is read any more. `clauses` replace FROM of the text; `now` is
        the value of NOW(), None: the clock's."""
        clauses = clauses or clauses_of(query.algebra)
        read = view if clauses is None else view.with_clauses(clauses)
        context = OwnedContext(read, self.functions.owner, initial=_variables(bindings))
        context.prologue, context._now = query.prologue, now
        with self.exclusive():
            found = dict(evalPart(context, query.algebra))
            if found["type_"] == "SELECT":
                found["bindings"] = rows_of(found["bindings"], control, rows_max)
            return SPARQLResult(found)

    def update(self, update: Update, dataset: Graph, bindings: Mapping[str, Identifier] | None = None) -> None:
        """Reads and changes `dataset`, as rdflib's own evaluator of updates, operation by operation. But the default
        graph of a Dataset is its default graph, where rdflib takes it for all graphs."""
        with self.exclusive():
            for operation in update.algebra:
                context = OwnedContext(dataset, self.functions.owner, initial=_variables(bindings))
                context.prologue = operation.prologue
                reads_union = dataset.default_union and operation.name in _WITH_PATTERN
                if isinstance(dataset, Dataset) and not reads_union:
                    context.graph = dataset.default_graph
                try:
                    _OPERATIONS[operation.name](context, operation)
                except Exception:
                    if not operation.silent:
                        raise

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """If functions write graphs into their owner, one query at a time, and nobody else sees these graphs."""
        if not self.functions.make_graphs():
            yield
            return
        with self._making_graphs:
            try:
                yield
            finally:
                self.functions.remove_graphs_of_functions()

    def _check_fetches(self, algebra: object, text: str) -> None:
        """NotAllowed for a SERVICE or LOAD of a URL that the settings do not allow."""
        for part in parts_of(algebra):
            name = getattr(part, "name", None) if isinstance(part, CompValue) else None
            if name not in ("ServiceGraphPattern", "Load"):
                continue
            check = self._allowed.check_load if name == "Load" else self._allowed.check_service
            target = part.iri if name == "Load" else part.term  # type: ignore[attr-defined]  # a CompValue
            try:
                check("" if isinstance(target, Variable) else str(target))
            except OutOfBounds as error:
                raise NotAllowed(str(error), text, 1, 1) from None


def rows_of(results: Iterable[Any], control: Control, rows_max: int = ROWS_MAX) -> list[Any]:
    """All rows of a SELECT, which rdflib makes one by one."""
    rows: list[Any] = []
    for row in results:
        control.check()
        control.spend(_ROW_BYTES)
        if len(rows) >= rows_max:
            raise QueryTooLarge(f"the answer has more than {rows_max} rows: ask for less (a LIMIT, a narrower pattern)")
        rows.append(row)
    return rows


def _variables(bindings: Mapping[str, Identifier] | None) -> dict[Variable, Identifier]:
    return {Variable(name): term for name, term in (bindings or {}).items()}
