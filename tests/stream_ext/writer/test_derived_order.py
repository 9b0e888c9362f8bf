"""Derived streams: in which order what a query said, and that it said nothing, comes to its stream.

Emissions are told by whichever thread stored them, and silences by another; here each is told when the test says so."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from hbase_store import EmissionRow, StreamPosition
from stream_ext.catalog.catalog import Catalog, QueryDefinition, StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.emissions.emission import EmissionBody, Silence, encode_body
from stream_ext.errors import DeadlineExceeded
from stream_ext.windows.query_state import LastEvaluation, QueryState
from stream_ext.writer.derived_streams import Derived
from stream_ext.writer.gathering import Heartbeat, Push
from stream_ext.writer.published import Receipt

QUERY, STREAM = 7, 3


class Writer:
    """What comes to it, in order; nothing is acknowledged, unless it is set so."""

    def __init__(self, position: StreamPosition | None = None) -> None:
        query = QueryDefinition(
            QUERY, "q", "http://ex/q", "", "", "RSTREAM", [], [1], 1, QueryState(), constructs=True, output=STREAM
        )
        stream = StreamDefinition(STREAM, "out", "http://ex/out", StreamOptions(), "elements", QUERY)
        self.catalog = Catalog({STREAM: stream}, {QUERY: query})
        self.positions = {} if position is None else {STREAM: position}
        self.came: list[tuple[str, int]] = []
        self.silences: list[LastEvaluation | None] = []
        self.acknowledges = False

    def derived(self, request: Push | Heartbeat) -> Future[Receipt]:
        if isinstance(request, Heartbeat):
            self.came.append(("time", request.time))
            self.silences.append(LastEvaluation.unpacked(request.silent))
        else:
            assert request.seq is not None
            self.came.append(("emission", request.seq))
        done = Future[Receipt]()
        if self.acknowledges:
            done.set_result(Receipt(0, 0, 1, 1))
        return done


class Log:
    """Of emissions that are all pushed, and no longer retained."""

    def __init__(self, *rows: EmissionRow) -> None:
        self._rows = rows

    def read(self, query: int, after: int = 0, limit: int | None = None) -> list[EmissionRow]:
        return [row for row in self._rows if row.number > after][:limit]


def at(time: int, k: int = 0) -> LastEvaluation:
    """An evaluation; its snapshot is its time."""
    return LastEvaluation(time, 0, k, time)


def row(number: int) -> EmissionRow:
    time, empty = number * 10, [b""] * 3
    body = EmissionBody("q", number, "RSTREAM", time, [], 1, [], [], empty, None, 0, None, graph=True, at=at(time))
    return EmissionRow(QUERY, number, encode_body(body))


def test_a_silence_comes_after_the_emission_that_it_follows(writer: Writer) -> None:
    derived = Derived(writer, lambda query: 2)
    derived.silent({QUERY: Silence(at(25), after=2)})
    assert writer.came == []
    derived.emitted([row(2)])
    assert writer.came == [], "the first is still to come"
    derived.emitted([row(1)])
    assert writer.came == [("emission", 1), ("emission", 2), ("time", 25)]


def test_of_silences_that_wait_for_an_emission_the_last_counts(writer: Writer) -> None:
    derived = Derived(writer, lambda query: 1)
    for time in (15, 25, 20):
        derived.silent({QUERY: Silence(at(time), after=1)})
    derived.emitted([row(1)])
    assert writer.came == [("emission", 1), ("time", 25)]
    derived.silent({QUERY: Silence(at(35), after=1)})
    assert writer.came[2:] == [("time", 35)], "it is not held back by one that has come"


def test_of_silences_of_one_time_the_last_counts(writer: Writer) -> None:
    """Several arrivals may be evaluated at one time, and each changes what a counted window contains."""
    derived = Derived(writer, lambda query: 0)
    for k in range(3):
        derived.silent({QUERY: Silence(at(15, k), after=0)})
    assert writer.silences == [at(15, 0), at(15, 1), at(15, 2)]
    derived.silent({QUERY: Silence(at(15, 1), after=0)})
    assert len(writer.silences) == 3, "evaluated again after a restart: the stream knows of a later one"


def test_a_silence_before_an_emission_is_forgotten(writer: Writer) -> None:
    derived = Derived(writer, lambda query: 2)
    derived.silent({QUERY: Silence(at(15), after=1)})
    derived.emitted([row(2)])
    derived.emitted([row(1)])
    assert writer.came == [("emission", 1), ("emission", 2)], "the stream has come to a later time"


def test_who_waits_for_a_query_waits_for_its_silence_too(writer: Writer) -> None:
    """An evaluation is merged, and announced a moment later: who waits does not read in between."""
    silence = Silence(at(15), after=0)
    derived = Derived(writer, lambda query: 0, lambda query: silence)
    with pytest.raises(DeadlineExceeded):
        derived.wait_until_pushed(0.01)
    writer.acknowledges = True
    derived.silent({QUERY: silence})
    assert derived.wait_until_pushed(10.0) == 1


@pytest.mark.parametrize(
    ("position", "came"),
    [
        (None, [("time", 40)]),
        (StreamPosition(STREAM, 0), [("time", 40)]),
        (StreamPosition(STREAM, 1, 30, 30), [("time", 40)]),
        (StreamPosition(STREAM, 1, 30, 30, silent=at(30).packed()), [("time", 40)]),
        (StreamPosition(STREAM, 1, 40, 40, silent=at(40).packed()), []),
        (StreamPosition(STREAM, 1, 50, 50, silent=at(50).packed()), []),
    ],
)
def test_at_the_start_a_stream_comes_to_the_last_evaluation_that_emitted_nothing(
    position: StreamPosition | None, came: list[tuple[str, int]]
) -> None:
    """One that the stream knows may be later than the stored state: that is stored a second later at most."""
    writer = Writer(position)
    Derived(writer, lambda query: 0).start(Log(), {QUERY: at(40)})
    assert writer.came == came


@pytest.mark.parametrize(("evaluated", "came"), [(20, []), (25, [("time", 25)])])
def test_at_the_start_the_last_evaluation_may_have_an_emission(evaluated: int, came: list[tuple[str, int]]) -> None:
    writer = Writer(StreamPosition(STREAM, 2, 20, 20, sources={f"query/{QUERY}": 2}))
    Derived(writer, lambda query: 2).start(Log(row(1), row(2)), {QUERY: at(evaluated)})
    assert writer.came == came


@pytest.fixture
def writer() -> Writer:
    return Writer()
