"""Answers of one-shot queries, and the latest answer of a registered query."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np
from msgspec.structs import replace

from hbase_store import Store
from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.catalog.registered import Registered
from stream_ext.catalog.registered_text import query_of
from stream_ext.catalog.timing import timing_of
from stream_ext.emissions.emission import EmissionBody, columns_of
from stream_ext.errors import BadArgument, NotFound, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Form, Query, Register
from stream_ext.language.algebra.statements import Admin
from stream_ext.language.algebra.walk import query_parts, reads_store
from stream_ext.network.network import salt_of
from stream_ext.network.operators.core.moment import seed_of
from stream_ext.network.operators.remote.service import check_services, placed
from stream_ext.oneshot.dataset import DatasetOverride
from stream_ext.oneshot.decoded import Decoded as Decoded
from stream_ext.oneshot.derived_graph import DerivedGraph
from stream_ext.oneshot.evaluate import Answer, Asking, evaluate
from stream_ext.oneshot.instant import Instant
from stream_ext.oneshot.question import Question
from stream_ext.plan.passes.stream_variables import over_streams
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.values.decoding import decoded_within
from stream_ext.values.vocabulary import Decode, Vocabulary
from stream_ext.windows.part import Ids
from stream_ext.windows.query_state import QueryState
from stream_ext.windows.scheduled_window import ScheduledWindow
from stream_ext.windows.timing import t0_of


def answer_once(
    store: Store,
    question: Question,
    sn: int,
    at: int | None,
    dataset: DatasetOverride | None = None,
    asking: Asking | None = None,
    graphs_for: Callable[[Query], Sequence[DerivedGraph]] = lambda _: (),
) -> Answer:
    """Evaluates a question. `graphs_for` returns graphs that are not in the store, for a query that may read them."""
    question = question.over(dataset)
    unit = _checked(question, at, asking)
    with placed(question.text):
        if at is None or not unit.windows:
            # Without windows every time has the same answer.
            graphs = graphs_for(unit)
            if graphs or (asking is not None and asking.sources.main is not None):
                # It is planned for these, not by a template.
                unit = cast(Query, question.unit)
            return evaluate(store, unit, sn, asking=asking, graphs=graphs, planned=question)
        # The streams that had these names then: a name may be another stream's by now.
        catalog = _catalog_then(store, unit, sn)
        wide = over_streams(unit, catalog.stream_iris)
        windows = _windows_then(store, wide, catalog, sn)
        return evaluate(store, wide, sn, windows, Instant(at), asking=asking, graphs=graphs_for(wide))


def _checked(question: Question, at: int | None, asking: Asking | None) -> Query:
    """The query of a question; raises if it cannot be evaluated once like this."""
    unit = question.supported()
    if isinstance(unit, Register):
        raise BadArgument("a REGISTER text cannot be evaluated once: POST it to /queries, or send only the query in it")
    if isinstance(unit, Admin):
        raise BadArgument(
            "this statement administers streams or queries, it is not a query: send it to a server (POST /sparql)"
        )
    if not isinstance(unit, Query):
        raise BadArgument("this is an update: send it as an update (POST /update, or update= of the SPARQL Protocol)")
    if unit.windows and at is None:
        raise BadArgument(
            "a query with windows needs a time at which it is evaluated: register it (`rillet register`, "
            "POST /queries) to evaluate it whenever its windows close, send Accept: text/event-stream to "
            "receive its results for a while, or give a time (--at T, at=T) to evaluate it once"
        )
    if not question.is_planned:  # what has a plan was allowed when that was built
        allowed, sources = (asking.allowed_urls, asking.sources) if asking else (NOTHING, NO_SOURCES)
        check_services(query_parts(unit), allowed, question.text, sources)
    return unit


def rows_expected(
    store: Store,
    question: Question,
    sn: int,
    at: int | None,
    dataset: DatasetOverride | None,
    asking: Asking,
) -> float:
    """The number of rows that the operators are expected to produce together, by the estimates that order the joins.

    For windows, and for functions that may take long for one row, nothing is known beforehand: infinity."""
    question = question.over(dataset)
    query = _checked(question, at, asking)
    if query.windows or question.is_costly:
        return math.inf
    network = question.network(store.at(sn), store.permanent_ids, asking.control.check)
    return network.expected(1 if query.form is Form.ASK else None)


def _catalog_then(store: Store, query: Query, sn: int) -> Catalog:
    """The catalog at `sn`; NotFound with a hint for a stream that was created later."""
    then = Catalog.read(store, sn)
    for window in query.windows:
        key = window.stream.iri or window.stream.name or ""
        if then.find_stream(key) is None and Catalog.read(store, store.head()).find_stream(key) is not None:
            raise NotFound(f"at snapshot {sn} there was no stream {key!r} yet")
    return then


def _windows_then(store: Store, query: Query, catalog: Catalog, sn: int) -> tuple[ScheduledWindow, ...]:
    """The windows at `sn`. For a registered query the first push may determine the origin of the closes; here, the
    first element does."""
    timing, vector = timing_of(query, catalog), store.vts(sn)
    if timing.has_origin:
        return timing.windows
    firsts = [vector[w.stream].first for w in timing.windows if w.stream in vector]
    known = [first for first in firsts if first is not None]
    return timing.with_origin(t0_of(np.array(known or [0], np.int64))).windows


def answer_at_last_evaluation(
    store: Store,
    catalog: Catalog,
    definition: QueryDefinition,
    state: QueryState,
    allowed_urls: AllowedUrls,
    control: Control = Control.FREE,
    sources: Sources = NO_SOURCES,
) -> Answer:
    """The whole answer of the last evaluation in `state`, evaluated again.

    What it reads is retained while the query runs; after a pause it may be deleted (SnapshotGone)."""
    last = state.evaluated
    assert last is not None
    registered = Registered.of(definition, catalog)
    query = registered.query
    runs = definition.is_evaluated and definition.current_state(state) is state
    # While it runs, only a query that reads nothing of the store can have been evaluated before the oldest snapshot.
    then = max(last.sn, store.oldest()) if runs or not reads_store(query) else last.sn
    if not query.windows:
        then = max(then, state.sn)  # the answer is the same since, but `ranked` is about the rows of then
    instant = Instant(last.time, last.sn, last.push, last.arrived_at, runs, None, definition.number, state.began)
    windows = registered.windows_from(state.t0, last.arrived)
    asking = Asking(
        seed=seed_of(definition.number, last.sn, last.k), salt=salt_of(definition.number), allowed_urls=allowed_urls,
        control=control, held=True, sources=sources, remote_patterns=definition.remote_patterns,
        whole=registered.select if registered.functions else None,
    )  # fmt: skip
    with placed(definition.text):
        return replace(evaluate(store, query, then, windows, instant, state.ranked, asking), sn=last.sn)


def answer_of(body: EmissionBody, store: Store) -> Answer:
    """The answer in an emission of an RSTREAM, which is the whole answer."""
    # The place -1 (unbound) finds the last entry: the id that is no term.
    vocabulary = Vocabulary(store.ids, store.terms)
    ids = np.append(vocabulary.encode(body.terms), np.uint64(0))
    columns = [ids[places] for places in columns_of(body)]
    if body.graph:
        s, p, o = columns
        return Answer((), [], None, body.sn, (s, p, o), len(s), vocabulary)
    return Answer(
        tuple(body.variables), columns, body.boolean, body.sn, None, len(columns[0]) if columns else 0, vocabulary
    )


def no_answer(definition: QueryDefinition, sn: int) -> Answer:
    """The empty answer before the first evaluation."""
    is_ask = query_of(definition.text, definition.base).form is Form.ASK
    empty = [np.empty(0, np.uint64) for _ in definition.variables]
    if definition.constructs:
        s, p, o = empty
        return Answer((), [], None, sn, (s, p, o))
    return Answer(tuple(definition.variables), empty, False if is_ask else None, sn)


#: The first piece is small, so that it is sent soon.
_FIRST_ROWS, _ROWS = 512, 8_192
#: Rows whose texts are longer are written in smaller parts, of so many times fewer rows.
_WRITTEN_BYTES, _FEWER = 16 << 20, 16
_ROW_BYTES = 256 << 20
#: So few cells, if their texts are no longer than this, are decoded one by one.
_SINGLE_CELLS, _SHORT_BYTES = 8, 1 << 16
#: For so few ids lists are quicker than arrays.
_FEW_CELLS = 64


def decoded(columns: Sequence[Ids], decode: Decode, count: int | None = None) -> Iterator[Decoded]:
    """The rows as texts, some thousand at a time, or as many as take some megabytes when they are written: what is
    decoded is never more than that, but for one row.

    `count` says how many there are where there is no column."""
    if not columns and count:
        yield Decoded([], [], count)
    count = len(columns[0]) if columns else 0
    if 0 < count * len(columns) <= _SINGLE_CELLS and (few := _of_few_cells(columns, decode)) is not None:
        yield few
        return
    start, rows = 0, _FIRST_ROWS
    while start < count:
        end = min(count, start + rows)
        found = _decoded([column[start:end] for column in columns], decode)
        while found is None:
            end = start + max(1, (end - start) // _FEWER)
            found = _decoded([column[start:end] for column in columns], decode)
        yield found
        start, rows = end, min(_ROWS, _FEWER * (end - start))


def _of_few_cells(columns: Sequence[Ids], decode: Decode) -> Decoded | None:
    """Each cell is decoded by itself, for that is quicker than finding equal ones; None: some are unbound, or long."""
    ids = columns[0] if len(columns) == 1 else np.concatenate(columns)
    if 0 in ids.tolist():
        return None
    texts, rows = decode(ids), len(columns[0])
    if sum(map(len, texts)) > _SHORT_BYTES:
        return None
    places = [[*range(start, start + rows)] for start in range(0, len(texts), rows)]
    return Decoded([*texts], places, rows)


def _decoded(columns: Sequence[Ids], decode: Decode) -> Decoded | None:
    """Some rows as texts; None: they are too large at a time."""
    ids, places = _distinct(np.concatenate(columns))
    unbound, one_row = int(ids[0] == 0), len(columns[0]) == 1
    control = Control.FREE if one_row else Control(bytes_max=_WRITTEN_BYTES)
    try:
        texts: list[bytes | None] = [*([None] * unbound), *decoded_within(decode, ids[unbound:], control)]
    except QueryTooLarge:
        return None
    longest = max((len(text) for text in texts if text is not None), default=0)
    if longest * len(places) > _WRITTEN_BYTES:
        lengths = np.array([0 if text is None else len(text) for text in texts], np.int64)
        size = int(lengths[np.array(places)].sum())
        if size > _WRITTEN_BYTES and not one_row:
            return None
        if size > _ROW_BYTES:
            raise QueryTooLarge(
                f"a row of the answer has {size} bytes; the limit is {_ROW_BYTES}: ask for shorter terms"
            )
    rows = len(columns[0])
    return Decoded(texts, [places[start : start + rows] for start in range(0, len(places), rows)], rows)


def _distinct(ids: Ids) -> tuple[Ids, list[int]]:
    """The ids in order, each once; and the place of each of `ids` there."""
    if len(ids) > _FEW_CELLS:
        distinct, inverse = np.unique(ids, return_inverse=True)
        return distinct, inverse.reshape(-1).tolist()
    listed = ids.tolist()
    places = {each: place for place, each in enumerate(sorted(set(listed)))}
    return np.array([*places], np.uint64), [places[each] for each in listed]


def rows_of(answer: Answer) -> list[tuple[bytes | None, ...]]:
    """The rows as texts; None where a variable is unbound."""
    if answer.streamed is not None:
        return [row for some in answer.streamed for row in _as_rows(some)]
    if not answer.columns:
        return [()] * answer.count
    return list(zip(*(_texts_of(column, answer.vocabulary.decode) for column in answer.columns), strict=True))


def _as_rows(some: Decoded) -> list[tuple[bytes | None, ...]]:
    if not some.columns:
        return [()] * some.rows
    return list(zip(*([some.texts[place] for place in column] for column in some.columns), strict=True))


def _texts_of(column: Ids, decode: Decode) -> Sequence[bytes | None]:
    if np.count_nonzero(column) == len(column):
        return decode(column)
    bound = column != 0
    texts: list[bytes | None] = [None] * len(column)
    for place, text in zip(np.flatnonzero(bound).tolist(), decode(column[bound]), strict=True):
        texts[place] = text
    return texts
