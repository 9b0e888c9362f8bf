"""Derived streams: the emissions of a registered CONSTRUCT become elements of a stream that other queries read.

    emission 7 of the query, at time t  =>  a push to its stream: source "query/N", seq 7, one element at t,
                                            which also advances the stream's time to t

An emission is stored before it is pushed, and the push may be repeated: the stream's position in the store says which
emissions it has, and a repeated push adds nothing. So after a crash the missing ones are pushed again, and each counts
once.

Any thread may announce emissions. They are pushed in the order of their numbers. An evaluation without an emission
advances the stream, too, after the emissions before it; its position says which that was, so that who reads a snapshot
knows of which evaluation the query's latest answer is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from hbase_store import EmissionRow, StreamPosition
from hbase_store.errors import StoreError
from stream_ext.catalog.catalog import Catalog, QueryDefinition, StreamDefinition
from stream_ext.emissions.emission import EmissionBody, Silence, columns_of, decode_body
from stream_ext.errors import DeadlineExceeded, RilletError, TooLarge
from stream_ext.rdf.parsed import Parsed
from stream_ext.values.term_order import ranks_of_texts
from stream_ext.values.vocabulary import stored_blank
from stream_ext.windows.query_state import LastEvaluation
from stream_ext.writer.elements import Elements, absorbed_of, check_terms, no_blanks
from stream_ext.writer.gathering import Heartbeat, Push
from stream_ext.writer.published import Receipt

#: The greatest number of pushes that wait to be written; beyond it, queries that are behind wait, too.
_UNDERWAY_MAX = 2_000


class Pushes(Protocol):
    """What is needed of the injector."""

    @property
    def catalog(self) -> Catalog: ...
    @property
    def positions(self) -> Mapping[int, StreamPosition]: ...
    def derived(self, request: Push | Heartbeat) -> Future[Receipt]: ...


class EmissionReader(Protocol):
    """What is needed of the emission log."""

    def read(self, query: int, after: int = 0, limit: int | None = None) -> Iterator[EmissionRow]: ...


def source_of(query: int) -> str:
    return f"query/{query}"


def received_of(position: StreamPosition | None, query: int) -> int:
    """The number of the last emission of the query that its stream has."""
    return 0 if position is None else position.sources.get(source_of(query), 0)


def silence_of(position: StreamPosition | None) -> LastEvaluation | None:
    """The last evaluation of the query, if the stream knows that it came after the last emission, and had none."""
    return None if position is None else LastEvaluation.unpacked(position.silent)


def elements_of(body: EmissionBody, stream: StreamDefinition) -> Elements:
    """One element with the triples of the emission; none if it has none.

    An emission is a set of triples. So that the element has an order, it is that of their terms."""
    terms = [stored_blank(term) for term in body.terms]
    columns, ranks = columns_of(body), ranks_of_texts(terms)
    order = np.lexsort([ranks[column] for column in reversed(columns)])
    s, p, o = (column[order] for column in columns)
    parsed = Parsed(terms, s, p, o, np.full(len(s), -1, np.int32))
    count = int(len(s) > 0)
    check_terms(terms)
    return Elements(
        parsed,
        np.zeros(len(s), np.int32),
        np.full(count, body.time, np.int64),
        np.full(count, -1, np.int32),
        absorbed_of(stream, parsed),
        no_blanks(terms),
    )


@dataclass(slots=True)
class _PendingEmissions:
    """Of one query: the number of the next emission to push, the emissions that were announced before their turn, the
    last evaluation without an emission, the last such that was pushed, and the outcome of the latest push."""

    next: int
    early: dict[int, EmissionRow]
    silence: Silence | None = None
    silent: LastEvaluation | None = None
    latest: Future[Receipt] | None = None


class Derived:
    """Any thread may call the methods."""

    def __init__(
        self,
        pushes: Pushes,
        last: Callable[[int], int],
        silence: Callable[[int], Silence | None] = lambda _: None,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        """`last` returns the number of a query's last stored emission, `silence` its last evaluation if that had none;
        `on_room` is called when there is room again."""
        self._pushes, self._last, self._silence, self._on_room = pushes, last, silence, on_room
        self._underway = 0  # pushes that are not acknowledged yet
        self._changed = threading.Condition()
        self._lines: dict[int, _PendingEmissions] = {}
        #: Queries one of whose emissions could not be pushed, and why.
        self.faults: dict[int, str] = {}

    def start(self, log: EmissionReader, evaluated: Mapping[int, LastEvaluation]) -> None:
        """Pushes emissions that were stored and not pushed. `evaluated`: each query's last evaluation, with or without
        an emission. Call it before anything is evaluated."""
        for query in self._pushes.catalog.deriving:
            self.emitted(list(log.read(query.number, self._line(query).next - 1)))
            if (at := evaluated.get(query.number)) is not None:
                last = self._last(query.number)
                row = next(iter(log.read(query.number, last - 1, 1)), None) if last else None
                emitted = None if row is None else decode_body(row.body).at
                if emitted is None or emitted.place < at.place:
                    self.silent({query.number: Silence(at, last)})

    def emitted(self, rows: Sequence[EmissionRow]) -> None:
        """These emissions are stored."""
        catalog = self._pushes.catalog
        with self._changed:
            for row in rows:
                query = catalog.queries.get(row.query)
                if query is not None and query.output is not None:
                    self._line(query).early[row.number] = row
            for number in {row.query for row in rows if row.query in catalog.queries}:
                self._push_in_turn(catalog, number)
            self._changed.notify_all()

    def silent(self, silences: Mapping[int, Silence]) -> None:
        """These queries were evaluated without an emission: advances their streams, after their earlier emissions."""
        catalog = self._pushes.catalog
        for number, silence in silences.items():
            query = catalog.queries.get(number)
            if query is not None and query.output is not None:
                with self._changed:
                    line = self._line(query)
                    if line.silence is None or line.silence.at.place < silence.at.place:
                        line.silence = silence
                    self._push_in_turn(catalog, number)
                    self._changed.notify_all()

    @property
    def has_room(self) -> bool:
        """Whether queries that are behind may go on: not too many pushes wait to be written."""
        return self._underway < _UNDERWAY_MAX

    def dropped(self, query: int) -> None:
        with self._changed:
            self._lines.pop(query, None)
            self.faults.pop(query, None)
            self._changed.notify_all()

    def retained_after(self) -> dict[int, int]:
        """For each query, the last emission that is not needed here any more: the next one may be pushed again at a
        start, and is the graph that is read under the query's name."""
        positions = self._pushes.positions
        return {
            q.number: received_of(positions.get(q.output or 0), q.number) - 1 for q in self._pushes.catalog.deriving
        }

    def depth(self) -> int:
        """The greatest possible length of a chain of queries."""
        return len(self._pushes.catalog.deriving)

    def wait_until_pushed(self, deadline_s: float) -> int:
        """Waits until all emissions that are stored by now are pushed; returns the snapshot that has them (0: none)."""
        found = 0
        for query in self._pushes.catalog.deriving:
            with self._changed:
                if query.number in self._pushes.catalog.queries:
                    self._line(query)  # its first emission may be stored, and not announced yet
                last, silence = self._last(query.number), self._silence(query.number)
                pushed = self._changed.wait_for(lambda: self._has_pushed(query.number, last, silence), deadline_s)  # noqa: B023  waited for here
                latest = self._lines[query.number].latest if query.number in self._lines else None
            if not pushed or (latest is not None and wait([latest], deadline_s).not_done):
                raise DeadlineExceeded(
                    f"the output of query {query.name!r} did not reach its stream within {deadline_s:g} s"
                )
            if latest is not None and latest.exception() is None:
                found = max(found, latest.result().snapshot)
        return found

    def _has_pushed(self, query: int, last: int, silence: Silence | None) -> bool:
        if (line := self._lines.get(query)) is None:
            return True
        if line.next <= last:
            return False
        if silence is None or silence.after < line.next - 1:
            return True
        return line.silent is not None and line.silent.place >= silence.at.place

    def _line(self, query: QueryDefinition) -> _PendingEmissions:
        if query.number not in self._lines:
            position = self._pushes.positions.get(query.output or 0)
            received = received_of(position, query.number)
            self._lines[query.number] = _PendingEmissions(received + 1, {}, silent=silence_of(position))
        return self._lines[query.number]

    def _push_in_turn(self, catalog: Catalog, number: int) -> None:
        line, query = self._lines.get(number), catalog.queries[number]
        if line is None or query.output is None:
            return
        stream = catalog.streams[query.output]
        for passed in [passed for passed in line.early if passed < line.next]:
            del line.early[passed]
        while (row := line.early.pop(line.next, None)) is not None:
            line.next += 1
            try:
                push = _push_of(row, stream)
            except TooLarge as error:  # a term that no store could hold
                self.faults[number] = _FAULT.format(row.number, error)
                continue
            self._enqueue(line, partial(self._pushes.derived, push))
            if line.latest is not None:
                line.latest.add_done_callback(partial(self._pushed, number, row.number))
        if (silence := line.silence) is not None and silence.after < line.next:
            line.silence = None
            if silence.after == line.next - 1 and (line.silent is None or line.silent.place < silence.at.place):
                line.silent = silence.at
                beat = Heartbeat(query.output, silence.at.time, silent=silence.at.packed())
                self._enqueue(line, partial(self._pushes.derived, beat))

    def _enqueue(self, line: _PendingEmissions, push: Callable[[], Future[Receipt]]) -> None:
        try:
            line.latest = push()
            self._underway += 1
            line.latest.add_done_callback(self._acknowledged)
        except (RilletError, StoreError):
            line.latest = None  # the writer has stopped, and has reported why; the next start pushes it again

    def _acknowledged(self, _: Future[Receipt]) -> None:
        with self._changed:
            self._underway -= 1
            has_room_again = self._underway == _UNDERWAY_MAX - 1
        if has_room_again:
            self._on_room()

    def _pushed(self, query: int, emission: int, done: Future[Receipt]) -> None:
        if (error := done.exception()) is not None:
            self.faults[query] = _FAULT.format(emission, error)


def _push_of(row: EmissionRow, stream: StreamDefinition) -> Push:
    body = decode_body(row.body)
    return Push(stream.number, elements_of(body, stream), 0, source_of(row.query), row.number, body.time)


_FAULT = "its emission {} did not reach its stream: {}"
