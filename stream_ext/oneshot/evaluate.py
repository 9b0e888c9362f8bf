"""Evaluating once: a query over one snapshot, or a query with windows at one time of a snapshot.

The network is the same as for a registered query. It is stepped once, with the whole store (and whole windows) as the
change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from hbase_store import Snapshot, Store
from hbase_store.arrays import as_ids
from stream_ext.catalog.sources import HeldPattern
from stream_ext.errors import BadArgument
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Form, Pattern, Query
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.algebra.walk import template_of
from stream_ext.language.algebra.windows import Dialect
from stream_ext.network.inputs import Encode, NetworkInputs
from stream_ext.network.network import Network
from stream_ext.network.operators.answers.construct import Construct
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import id_graph
from stream_ext.network.tracing import Traced
from stream_ext.oneshot.bind_joins import bind_join_plan, holds_at_any
from stream_ext.oneshot.decoded import Decoded
from stream_ext.oneshot.derived_graph import DerivedGraph
from stream_ext.oneshot.describe import describe
from stream_ext.oneshot.instant import Instant, fill
from stream_ext.oneshot.own_quads import attached_of
from stream_ext.oneshot.passing import collected, passed_on, whole_question
from stream_ext.oneshot.question import Question
from stream_ext.oneshot.source_graphs import description_of_source
from stream_ext.plan.logic import Select
from stream_ext.plan.passes.lift import lift_select
from stream_ext.plan.passes.normalise import normalise_pattern
from stream_ext.plan.pipeline import OF_SOURCES, logic_of, passed
from stream_ext.plan.places import GraphsInScope, dataset
from stream_ext.plan.properties.features import asks_source
from stream_ext.plan.sources.exclusive import Attached
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.remote.source import MAIN
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.rows.zset import ZSet
from stream_ext.values.known_values import KnownValues as KnownValues
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.part import Ids
from stream_ext.windows.scheduled_window import ScheduledWindow

#: Smaller answers are not charged before they are built.
_MANY = 8192


class Answer(msgspec.Struct, frozen=True, eq=False):
    """The whole answer at a snapshot: columns of ids for SELECT, a boolean for ASK, triples for what makes a graph."""

    variables: tuple[str, ...]
    columns: list[Ids]
    boolean: bool | None
    sn: int
    graph: tuple[Ids, Ids, Ids] | None = None
    count: int = 0  # of solutions: a SELECT may have no columns
    vocabulary: Vocabulary = msgspec.field(default_factory=Vocabulary.of_its_own)
    streamed: Iterator[Decoded] | None = None  # the rows, in place of columns; they can be read once
    by_spark: bool = False  # whether tasks of Spark have evaluated it
    why_not_divided: str = ""  # if they should have

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in (*self.columns, *(self.graph or ())))


@dataclass(frozen=True, slots=True)
class Asking:
    """The parameters of a one-shot query, beside its text and its snapshot."""

    base: str = ""
    now_ms: int = 0
    seed: bytes = b""
    control: Control = Control.FREE
    allowed_urls: AllowedUrls = NOTHING  # the URLs that LOAD and SERVICE may request
    known: KnownValues | None = None
    sources: Sources = NO_SOURCES  # stores that are not ours
    streams: bool = False  # rows that are only passed on are not collected first
    at_snapshot: bool = False  # the answer must be that of the snapshot: no source may be asked, which has none
    remote_patterns: Collection[HeldPattern] = ()  # what a registered query asks the source main for
    whole: Select | None = None  # the plan of a registered query that the source main evaluates as a whole
    held: bool = False  # patterns over the store read held edges, too, as those of registered queries do
    salt: bytes = b""  # makes the blank nodes of a CONSTRUCT different from those of others


def evaluate(
    store: Store,
    query: Query,
    sn: int,
    windows: Sequence[ScheduledWindow] = (),
    at: Instant | None = None,
    ranked: bytes | None = None,
    asking: Asking | None = None,
    graphs: Sequence[DerivedGraph] = (),
    planned: Question | None = None,
) -> Answer:
    """The answer before R2S. A query with windows needs `at`; the store must have read `sn`.

    `ranked` are the orders of first appearance that LIMIT cuts, where the query has been evaluated before; `graphs` are
    graphs that are not in the store. `planned`: the question of the query, whose plan may be used again."""
    asking = asking or Asking()
    snapshot = store.at(sn)
    if planned is not None and not (at is not None or graphs or asking.sources or asking.held):
        network = planned.network(snapshot, store.permanent_ids, asking.control.check)
        if query.form is Form.SELECT and (found := network.of_one_pattern(snapshot)) is not None:
            return _of_one_pattern(store, query, found, sn, asking)
    moment, check = moment_of(store, snapshot, asking, at), asking.control.check
    # What a registered query reads of the source main is held.
    attached = None if asking.held else attached_of(asking.sources, snapshot, _resolve(moment.vocabulary))
    if attached is not None:
        return _of_both(store, query, moment, attached, windows, at, ranked, asking, graphs)
    if at is None and planned is not None and not graphs:
        network = planned.network(snapshot, store.permanent_ids, check)
    else:
        graph_windows = _windows_of(graphs, moment)
        logic = asking.whole or logic_of(query, [graph.name for graph in graphs], check)
        if asking.remote_patterns:
            holds = holds_at_any([snapshot], _resolve(moment.vocabulary))
            logic = bind_join_plan(logic, asking.remote_patterns, asking.sources.main, holds).select
        by_name = {window.name: window for window in (*windows, *graph_windows)}
        inputs = NetworkInputs(snapshot, store.ids, by_name, check)
        network = Network.of_query(logic, inputs, orders=Orders(ranked), held=asking.held)
        _arrive(graphs, graph_windows, network, moment)
    if at is not None:
        fill(network, store, sn, windows, at)
        moment = msgspec.structs.replace(moment, without_new=at.new_after is not None)
    rows = network.once(moment, 1 if query.form is Form.ASK else None)
    answer = answer_of_rows(query, rows, moment, asking.salt, graphs)
    store.fetch_terms([*answer.columns, *(answer.graph or ())])
    return answer


def _of_one_pattern(store: Store, query: Query, columns: list[Ids], sn: int, asking: Asking) -> Answer:
    """Its terms are all in the store."""
    count = len(columns[0]) if columns else 0
    asking.control.check()
    if count > _MANY:
        asking.control.room(count, len(columns))
    vocabulary = Vocabulary(store.permanent_ids, store.terms, asking.known)
    return Answer(query.variables, columns, None, sn, None, count, vocabulary)


def _of_both(
    store: Store,
    query: Query,
    moment: Moment,
    attached: Attached,
    windows: Sequence[ScheduledWindow],
    at: Instant | None,
    ranked: bytes | None,
    asking: Asking,
    graphs: Sequence[DerivedGraph],
) -> Answer:
    """The answer over the one dataset of the store and the source main."""
    check, graph_windows = asking.control.check, _windows_of(graphs, moment)
    select = logic_of(query, [graph.name for graph in graphs], check, attached)
    if asking.at_snapshot and (asks_source(select) or query.form is Form.DESCRIBE):
        raise _no_snapshots()
    whole = whole_question(select) if query.form is Form.SELECT else None
    if whole is not None:
        assert asking.sources.main is not None, "a source is attached"
        rows = passed_on(whole, asking.sources.main, asking.control)
        sn = int(moment.snapshot.sn)
        if asking.streams:
            return Answer(query.variables, [], None, sn, streamed=rows)
        columns, count = collected(rows, len(query.variables), moment.vocabulary, asking.control)
        return Answer(query.variables, columns, None, sn, None, count, moment.vocabulary)
    by_name = {window.name: window for window in (*windows, *graph_windows)}
    encode = _outward(moment.vocabulary)
    inputs = NetworkInputs(moment.snapshot, encode, by_name, check)
    network = Network.of_query(select, inputs, orders=Orders(ranked))
    _arrive(graphs, graph_windows, network, moment)
    if at is not None:
        fill(network, store, int(moment.snapshot.sn), windows, at)
    rows_found = network.once(moment, 1 if query.form is Form.ASK else None)
    answer = answer_of_rows(query, rows_found, moment, asking.salt, graphs, select.names)
    if query.form is Form.DESCRIBE:
        return _described_by_both(answer, query, rows_found, moment, attached)
    return answer


def _no_snapshots() -> BadArgument:
    return BadArgument(
        f"snapshot=: the query asks the source {MAIN}, which has no snapshots: leave snapshot= out, or ask for "
        "what our own store has alone"
    )


def _described_by_both(answer: Answer, query: Query, rows: ZSet, moment: Moment, attached: Attached) -> Answer:
    source = moment.sources.main
    assert source is not None and answer.graph is not None, "a source is attached, and DESCRIBE makes a graph"
    scope = dataset(query.shape.graphs, query.dialect is not Dialect.NONE).default
    resources, vocabulary = _resources(query, rows, moment), moment.vocabulary
    more = description_of_source(source, attached, resources, scope, vocabulary, moment.control)
    columns = [np.concatenate(pair) for pair in zip(answer.graph, map(vocabulary.outward, more), strict=True)]
    s, p, o = np.unique(np.stack(columns), axis=1)
    return msgspec.structs.replace(answer, graph=(s, p, o), count=len(s))


def _resources(query: Query, rows: ZSet, moment: Moment) -> Ids:
    """What a DESCRIBE describes, each once."""
    named = [node.text for node in query.shape.described if isinstance(node, Constant)]
    moment.control.room(rows.count, rows.width + 2)
    found: Ids = np.unique(np.concatenate([moment.vocabulary.encode(named), *rows.columns]))
    return as_ids(found[found != 0])


def _outward(vocabulary: Vocabulary) -> Encode:
    """Ids for the constants of a plan, which need not be in the store."""
    return lambda texts: vocabulary.outward(vocabulary.encode(texts))


def _resolve(vocabulary: Vocabulary) -> Callable[[bytes], int]:
    return lambda text: int(vocabulary.outward(vocabulary.encode([text]))[0])


def _windows_of(graphs: Sequence[DerivedGraph], moment: Moment) -> list[ScheduledWindow]:
    return [graph.window(-place, moment.time) for place, graph in enumerate(graphs, 1)]


def _arrive(
    graphs: Sequence[DerivedGraph], graph_windows: Sequence[ScheduledWindow], network: Network, moment: Moment
) -> None:
    for graph, window in zip(graphs, graph_windows, strict=True):
        network.arrive(graph.arrival(window, moment))


def trace(store: Store, query: Query, sn: int, asking: Asking | None = None) -> tuple[Answer, list[Traced]]:
    """As `evaluate` without windows; and what each operator did."""
    asking = asking or Asking()
    snapshot = store.at(sn)
    moment, check = moment_of(store, snapshot, asking, None), asking.control.check
    attached = attached_of(asking.sources, snapshot, _resolve(moment.vocabulary))
    logic = logic_of(query, check=check, attached=attached)
    if attached is not None and asking.at_snapshot and asks_source(logic):
        raise _no_snapshots()
    encode = store.ids if attached is None else _outward(moment.vocabulary)
    rows, traces = Network.of_query(logic, NetworkInputs(snapshot, encode, check=check)).traced(moment)
    return answer_of_rows(query, rows, moment, names=None if attached is None else logic.names), traces


def pattern_network(
    select: Select,
    snapshot: Snapshot,
    vocabulary: Vocabulary,
    graph_windows: Sequence[ScheduledWindow] = (),
    check: Check = Control.FREE.check,
) -> Network:
    """The network of a bare pattern, whose constants need not be in the store."""
    windows = {window.name: window for window in graph_windows}
    return Network.of_query(select, NetworkInputs(snapshot, _outward(vocabulary), windows, check))


def solve(network: Network, snapshot: Snapshot, vocabulary: Vocabulary, asking: Asking) -> ZSet:
    """The solutions of a pattern: a column for each of the select's names."""
    return network.once(_solving(snapshot, vocabulary, asking))


def solve_with_graphs(
    select: Select, graphs: Sequence[DerivedGraph], snapshot: Snapshot, vocabulary: Vocabulary, asking: Asking
) -> ZSet:
    """As `solve`, with graphs that are not in the store; the same as were given to `where`."""
    moment = _solving(snapshot, vocabulary, asking)
    graph_windows = _windows_of(graphs, moment)
    network = pattern_network(select, snapshot, vocabulary, graph_windows, asking.control.check)
    _arrive(graphs, graph_windows, network, moment)
    return network.once(moment)


def _solving(snapshot: Snapshot, vocabulary: Vocabulary, asking: Asking) -> Moment:
    return Moment(
        0, snapshot, None, last=True, now_ms=asking.now_ms, seed=asking.seed, control=asking.control,
        vocabulary=vocabulary, base=asking.base, allowed_urls=asking.allowed_urls, sources=asking.sources,
    )  # fmt: skip


def where(
    pattern: Pattern,
    names: Sequence[str],
    of: GraphsInScope,
    graphs: Sequence[DerivedGraph] = (),
    check: Check = Control.FREE.check,
    attached: Attached | None = None,
) -> Select:
    """The logic of a bare pattern, such as the WHERE of an update; `attached`: over the source main, too."""
    select = lift_select(normalise_pattern(pattern, names, of, [graph.name for graph in graphs], check, attached))
    return passed(select, OF_SOURCES) if attached is not None else select


def attached_to(asking: Asking, snapshot: Snapshot, vocabulary: Vocabulary) -> Attached | None:
    """What a plan needs to know of the source main; None: there is none."""
    return attached_of(asking.sources, snapshot, _resolve(vocabulary))


def moment_of(store: Store, snapshot: Snapshot, asking: Asking, at: Instant | None) -> Moment:
    now_ms = at.time if at else asking.now_ms
    return Moment(
        at.time if at else 0, snapshot, None, last=True, ranks_ties=at is not None, now_ms=now_ms,
        seed=asking.seed, control=asking.control,
        vocabulary=Vocabulary(*store.lasting_terms(), asking.known), base=asking.base, allowed_urls=asking.allowed_urls,
        sources=asking.sources,
    )  # fmt: skip


def answer_of_rows(
    query: Query,
    rows: ZSet,
    moment: Moment,
    salt: bytes = b"",
    graphs: Sequence[DerivedGraph] = (),
    names: tuple[str, ...] | None = None,
) -> Answer:
    """`names`: of the rows; None: those that the query's own plan has."""
    sn, vocabulary = int(moment.snapshot.sn), moment.vocabulary
    match query.form:
        case Form.ASK:
            return Answer((), [], bool(rows.count), sn, vocabulary=vocabulary)
        case Form.SELECT:
            if rows.weights is not None:
                moment.control.room(int(rows.weights.sum()), rows.width)
                rows = rows.take(np.repeat(np.arange(rows.count), rows.weights))
            if rows.count > _MANY:
                moment.control.room(rows.count, rows.width)
            return Answer(query.variables, list(rows.columns), None, sn, None, rows.count, vocabulary)
        case Form.CONSTRUCT:
            names = logic_of(query, check=moment.control.check).names if names is None else names
            graph = Construct(names, template_of(query), salt).graph(moment, rows)
        case Form.DESCRIBE:
            graph = _described(query, rows, moment, graphs)
    return Answer((), [], None, sn, graph, len(graph[0]), vocabulary)


def _described(query: Query, rows: ZSet, moment: Moment, graphs: Sequence[DerivedGraph]) -> tuple[Ids, Ids, Ids]:
    vocabulary = moment.vocabulary
    resources = _resources(query, rows, moment)
    scope = dataset(query.shape.graphs, query.dialect is not Dialect.NONE).default
    given = [each for each in graphs if each.name in (scope.graphs or ())]
    if given:
        names = {each.name for each in given}
        scope = replace(scope, graphs=tuple(each for each in scope.graphs or () if each not in names))
    graph = id_graph(scope, lambda text: int(vocabulary.outward(vocabulary.encode([text]))[0]))
    extra = [each.columns(vocabulary) for each in given]
    return describe(vocabulary.outward(resources), moment.snapshot, graph, moment.control, extra)
